-- The mistakes found in a spec, as `file:line: field: what is wrong; what would be right`. Stages add to one list and
-- go on where they can, so that a person sees several mistakes at once. Nothing is written while the list is not
-- empty.
local problems = {}
problems.__index = problems

local SHOWN = 20 -- a screenful; the rest is counted

function problems.new(file)
  return setmetatable({ file = file, list = {}, seen = {} }, problems)
end

--- One mistake. The same line and field are reported once: the second report is nearly always a consequence of the
-- first.
function problems:add(line, field, wrong, right)
  local key = line .. ":" .. field
  if self.seen[key] then return end
  self.seen[key] = true
  local message = ("%s:%d: %s: %s; %s"):format(self.file, line, field, wrong, right)
  self.list[#self.list + 1] = { line = line, order = #self.list, message = message }
end

function problems:any()
  return #self.list > 0
end

--- All mistakes by line, one on a line.
function problems:text()
  table.sort(self.list, function(a, b)
    if a.line ~= b.line then return a.line < b.line end
    return a.order < b.order
  end)
  local lines = {}
  for i, problem in ipairs(self.list) do
    if i > SHOWN then
      lines[i] = ("%s: and %d more"):format(self.file, #self.list - SHOWN)
      break
    end
    lines[i] = problem.message
  end
  return table.concat(lines, "\n")
end

return problems
