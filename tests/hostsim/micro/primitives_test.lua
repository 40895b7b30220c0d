-- Has every primitive of lib/device/ a micro-kernel that uses it? Prints which file does, and fails when one has none.
--     lua5.4 tests/hostsim/micro/primitives_test.lua tests/hostsim/micro/{sm80,wgmma,tensor,hopper}.cu
-- The GPU's side of the headers counts: what the simulator has beside it must be shown to be the same. Names that macros put together
-- (wgmma_m64n128k16_bf16) are found by expanding them: both sides go through a small preprocessor of function-like macros.
local HEADERS = { "ptx/device_impl.h", "ptx/hopper_impl.h", "ptx/wgmma_impl.h", "wgmma.h", "tensor_map.h" }

local function read(path)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  return text
end

-- The arguments of a macro's call, split at the commas that no parenthesis encloses.
local function split(text)
  local pieces, depth, from = {}, 0, 1
  for at, c in text:gmatch("()([(),])") do
    if c == "(" then
      depth = depth + 1
    elseif c == ")" then
      depth = depth - 1
    elseif depth == 0 then
      pieces[#pieces + 1], from = text:sub(from, at - 1), at + 1
    end
  end
  pieces[#pieces + 1] = text:sub(from)
  for i, piece in ipairs(pieces) do pieces[i] = piece:match("^%s*(.-)%s*$") end
  return pieces
end

-- A macro's body with its arguments in place. Identifiers alone matter, so # and __VA_ARGS__ are left as they are.
local function call(macro, arguments)
  local value = {}
  for i, parameter in ipairs(macro.parameters) do value[parameter] = arguments[i] end
  return (macro.body:gsub("[%a_][%w_]*", value):gsub("%s*##%s*", ""))
end

-- The text without comments, strings and directives, its macros expanded.
local function expand(text)
  local macros, lines = {}, {}
  text = text:gsub("/%*.-%*/", " "):gsub("//[^\n]*", ""):gsub('"[^"\n]*"', '""'):gsub("\\\n", " ")
  for line in text:gmatch("[^\n]+") do
    local name, parameters, body = line:match("^%s*#%s*define%s+([%a_][%w_]*)(%b())(.*)")
    if name then
      macros[name] = { parameters = split(parameters:sub(2, -2)), body = body }
    elseif not line:match("^%s*#") then
      lines[#lines + 1] = line
    end
  end
  text = table.concat(lines, "\n")
  for _ = 1, 8 do -- macros within macros
    local count = 0
    text = text:gsub("([%a_][%w_]*)(%b())", function(name, arguments)
      if not macros[name] then return nil end
      count = count + 1
      return call(macros[name], split(arguments:sub(2, -2)))
    end)
    if count == 0 then return text end
  end
  error("macros without end")
end

-- Sets into[name] for each function that the text defines with GLINT_DEVICE.
local function declared(text, into)
  for head in expand(text):gmatch("GLINT_DEVICE%s+([^;{}]-)%s*%b()%s*{") do
    into[head:match("([%a_][%w_]*)$")] = true
  end
end

local primitives, users, missing, names = {}, {}, {}, {}
local headers = {} -- one text: macros of one are called in another
for i, header in ipairs(HEADERS) do headers[i] = read("lib/device/" .. header) end
declared(table.concat(headers, "\n"), primitives)
for _, path in ipairs(arg) do
  local own, seen = {}, {}
  local text = read(path)
  declared(text, own)
  for name in expand(text):gmatch("[%a_][%w_]*%f[^%w_]") do
    if primitives[name] and not own[name] and not seen[name] then
      seen[name] = true
      users[name] = (users[name] or "") .. " " .. path:match("([^/]*)%.cu$")
    end
  end
end
for name in pairs(primitives) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  if users[name] then
    print(("%-32s%s"):format(name, users[name]))
  else
    missing[#missing + 1] = name
  end
end
print(("%d primitives, %d without a micro-kernel"):format(#names, #missing))

-- Would a primitive without one be seen, one of a macro too? And are the lists what they are thought to be?
local made = {}
declared("#define MAKE(n, type) \\\n template <int a> GLINT_DEVICE void made_##n##_##type(int x) { }\nMAKE(8, f16) MAKE(16, bf16)\n" ..
  "GLINT_DEVICE float *plain(void)\n{\n}\n/* GLINT_DEVICE void spoken_of(void) { } */", made)
assert(made.made_16_bf16 and made.plain and not made.spoken_of, "functions are not found")
for _, name in ipairs({ "mbarrier_wait", "tma_load", "wgmma_wait", "wgmma_m64n8k16_bf16", "wgmma_m64n256k8_tf32_ra" }) do
  assert(primitives[name], name .. " is not found in the headers")
end
for _, name in ipairs(missing) do io.stderr:write(name, " has no micro-kernel\n") end
os.exit(#missing == 0)
