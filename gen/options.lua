-- The command line: `glint.lua COMMAND [options] [words]` to a table. Knows no command: each says what it takes.
-- Returns nil and a sentence for anything that was not asked for.
local text = require("gen.text")

local options = {}

local function take(args, i, option, parsed)
  local name, attached = args[i]:match("^%-%-([%w-]+)=?(.*)$")
  local has_value = args[i]:find("=", 1, true) ~= nil
  if option.flag then
    if has_value then return nil, "--" .. name .. " takes no value" end
    parsed[name] = true
    return i + 1
  end
  local value = attached
  if not has_value then
    value = args[i + 1]
    if value == nil then return nil, "--" .. name .. " needs a value: " .. option.help end
    i = i + 1
  end
  if value == "" then return nil, "--" .. name .. " is given an empty value" end
  if option.many then
    parsed[name] = parsed[name] or {}
    table.insert(parsed[name], value)
  elseif parsed[name] then
    return nil, "--" .. name .. " is given twice"
  else
    parsed[name] = value
  end
  return i + 1
end

local function unknown(argument, known)
  local name = argument:match("^%-%-([%w-]+)") or argument
  local near = text.meant(name, text.sorted_keys(known))
  return ("unknown option %s%s"):format(text.show(argument), near and "; did you mean --" .. near .. "?" or "")
end

--- known: option name -> { flag = bool, many = bool, help = text }. Returns { option = value, [1...] = words } or nil
-- and why.
function options.parse(args, first, known)
  local parsed, i = {}, first
  while i <= #args do
    local argument = args[i]
    if argument == "-h" then argument, args[i] = "--help", "--help" end
    if argument:sub(1, 1) == "-" and argument ~= "-" then
      local option = known[argument:match("^%-%-([%w-]+)") or ""]
      if not option then return nil, unknown(argument, known) end
      local why
      i, why = take(args, i, option, parsed)
      if not i then return nil, why end
    else
      parsed[#parsed + 1] = argument
      i = i + 1
    end
  end
  return parsed
end

return options
