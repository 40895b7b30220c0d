-- Where the time of a Bazel run went: lua5.4 .ci/where.lua PROFILE, which is the file of `--profile=PROFILE
-- --noslim_profile`. Prints seconds of actions by kind, summed over those that ran at the same time, and the slowest
-- tests. An action that was cached is not in the profile.
local KINDS = { -- the first whose pattern is in the text of the action
  { "GPU kernels: nvcc, ptxas", "^Compiling .*%.cu for sm_" },
  { "PTX of GPU kernels: nvcc", "^Compiling .*%.cu to PTX" },
  { "dispatch tables: gcc", "^Compiling .*_table%.c$" },
  { "CPU kernels: gcc", "^Compiling .*__cpu_.*%.c$" },
  { "mutated kernels for the simulator: gcc", "^Compiling .*/mutations/" },
  { "translated PTX for the simulator: gcc", "^Compiling .*__ptx.*%.cc" },
  { "kernels for the simulator: gcc", "^Compiling .*__sm.*%.cc" },
  { "micro-kernels and trials: gcc", "^Compiling tests/hostsim/[mt][ir][ci]" },
  { "the rest of C and C++: gcc", "^Compiling " },
  { "linking", "^Linking " },
  { "mutations, judged", "^Judging " },
  { "costs, counted", "^Counting " },
  { "tests of GPU variants, PTX simulated", "^Testing .*__ptx" },
  { "tests of GPU variants, simulated", "^Testing .*__hostsim" },
  { "tests of CPU variants", "^Testing .*__cpu_" },
  { "tests of the simulator", "^Testing //tests/hostsim" },
  { "tests of the promises", "^Testing //tests/contract" },
  { "tests, the others", "^Testing " },
  { "the generator", "^Emitting " },
}

local seconds, count, tests, last = {}, {}, {}, 0
for line in io.lines((assert(arg[1], "where.lua PROFILE"))) do
  local start, duration = line:match('"ts":(%d+)'), line:match('"dur":(%d+)')
  if start then last = math.max(last, start + (duration or 0)) end
  local name = duration and line:find('"cat":"action processing"', 1, true) and line:match('"name":"(.-)"[,}]')
  if name then
    local kind = "everything else"
    for _, entry in ipairs(KINDS) do
      if name:find(entry[2]) then
        kind = entry[1]
        break
      end
    end
    seconds[kind], count[kind] = (seconds[kind] or 0) + duration / 1e6, (count[kind] or 0) + 1
    if name:find("^Testing ") then tests[#tests + 1] = { name = name:match("^Testing (%S+)"), seconds = duration / 1e6 } end
  end
end

local kinds = {}
for kind in pairs(seconds) do kinds[#kinds + 1] = kind end
table.sort(kinds, function(a, b) return seconds[a] > seconds[b] end)
print(("%.0f s from start to end; seconds of actions:"):format(last / 1e6))
for _, kind in ipairs(kinds) do print(("%8.1f  %5d  %s"):format(seconds[kind], count[kind], kind)) end
table.sort(tests, function(a, b) return a.seconds > b.seconds end)
for i = 1, math.min(8, #tests) do print(("%8.1f         %s"):format(tests[i].seconds, tests[i].name)) end
