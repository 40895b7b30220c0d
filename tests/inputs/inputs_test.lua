-- What is compiled again after a change. Each FILE.txt on the command line lists what one action reads
-- (tools/inputs.bzl); the file's name says of which family the kernel is that it compiles: cpu, sm80 or sm90a. The
-- promises:
--
--     a changed ...              compiles again
--     rule of lib/cuda/policy.c  that file alone
--     README                     nothing
--     Hopper primitive           no kernel of another GPU family
--     GPU header                 no CPU kernel, and the other way round
local checks = 0

local function expect(right, what)
  checks = checks + 1
  if not right then error(what, 2) end
end

local ALLOWED = { -- Lua patterns of the files of the repository that an action may read
  cpu = { "^lib/cpu/[%w_]+%.h$", "^lib/variant%.h$", "^lib/glint%.h$" },
  sm80 = { "^lib/device/[%w_/]+%.h$", "^tools/ptxas%.lua$" },
  sm90a = { "^lib/device/[%w_/]+%.h$", "^tools/ptxas%.lua$" },
}
local FORBIDDEN = { sm80 = { "hopper", "wgmma", "warpgroup" } }
local NEEDED = { -- that the lists are not empty
  cpu = "lib/cpu/gemm.h", sm80 = "lib/device/call.h", sm90a = "lib/device/hopper.h",
}

local function matches(path, patterns)
  for _, pattern in ipairs(patterns or {}) do
    if path:find(pattern) then return true end
  end
  return false
end

for _, list in ipairs(arg) do
  local kind = list:match("([%w_]+)%.txt$")
  expect(ALLOWED[kind], "no promise is made of " .. list)
  local actions, needed = 0, 0
  for line in io.lines(list) do
    if line == "action" then
      actions = actions + 1
    else
      local right = matches(line, ALLOWED[kind]) and not matches(line, FORBIDDEN[kind])
      expect(right, ("a kernel of %s is compiled again when %s changes"):format(kind, line))
      needed = needed + (line == NEEDED[kind] and 1 or 0)
    end
  end
  expect(actions > 0 and needed == actions, ("%s: %d actions, %d of them read %s"):format(list, actions, needed, NEEDED[kind]))
end

-- A heuristic is a function of policy.c; these headers declare.
for _, path in ipairs({ "lib/cuda/policy.h", "lib/cuda/kernel.h", "lib/device/call.h" }) do
  for line in io.lines(path) do
    expect(not line:find("^%s*static") and not line:find("^%s*return"), ("%s has a body: %s"):format(path, line))
  end
end
print(("inputs_test: %d checks over %d lists"):format(checks, #arg))
