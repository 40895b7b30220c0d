-- The names that a pattern with choices in braces stands for: "ld.{shared,global}{,.v2}.u32" is four names.
local function expand(pattern, list)
  list = list or {}
  local before, choices, after = pattern:match("^(.-){(.-)}(.*)$")
  if not before then
    list[#list + 1] = pattern
  else
    for choice in (choices .. ","):gmatch("(.-),") do expand(before .. choice .. after, list) end
  end
  return list
end

return expand
