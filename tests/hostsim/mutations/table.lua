-- What became of the deliberate faults and the harmless changes:
--
--   lua table.lua FORMAT OUTCOME...          FORMAT: text, markdown, or check
--
-- prints a table of the outcomes (files that run.c writes). `check` prints the text and has exit status 1 unless every
-- fault was caught the way it is meant to be and no harmless change was reported.
local outcomes = {}

local FIELDS = { "name", "kernel", "breaks", "meant", "caught", "place", "line", "case", "message" }

--- The fields of an outcome: lines "field: value".
function outcomes.parse(text, path)
  local outcome = {}
  for field, value in text:gmatch("([%a_]+): ([^\n]*)\n") do outcome[field] = value end
  for _, field in ipairs(FIELDS) do
    if not outcome[field] then return nil, ("%s: no field '%s'"):format(path, field) end
  end
  return outcome
end

--- Whether it came as it should: `meant` lists what may catch it, "nothing" for a harmless change.
function outcomes.as_meant(outcome)
  for kind in outcome.meant:gmatch("%S+") do
    if kind == outcome.caught then return true end
  end
  return false
end

function outcomes.count(list)
  local count = { faults = 0, by_report = 0, by_answer = 0, harmless = 0, wrong = 0 }
  for _, outcome in ipairs(list) do
    if outcome.meant == "nothing" then
      count.harmless = count.harmless + 1
    else
      count.faults = count.faults + 1
      if outcome.caught == "answer" then
        count.by_answer = count.by_answer + 1
      elseif outcome.caught ~= "nothing" then
        count.by_report = count.by_report + 1
      end
    end
    if not outcomes.as_meant(outcome) then count.wrong = count.wrong + 1 end
  end
  return count
end

function outcomes.summary(list)
  local count = outcomes.count(list)
  return ("%d faults: %d reported with their line, %d found by a wrong answer, %d not found. %d harmless changes, %d complaints."):format(
    count.faults, count.by_report, count.by_answer, count.faults - count.by_report - count.by_answer, count.harmless,
    count.wrong)
end

local function by_kernel(list)
  local kernels, seen = {}, {}
  for _, outcome in ipairs(list) do
    if not seen[outcome.kernel] then
      seen[outcome.kernel] = {}
      kernels[#kernels + 1] = outcome.kernel
    end
    table.insert(seen[outcome.kernel], outcome)
  end
  table.sort(kernels)
  return kernels, seen
end

local function where(outcome)
  return outcome.place ~= "-" and outcome.place:match("[^/]*$") or outcome.case
end

function outcomes.text(list)
  local out = { outcomes.summary(list), "" }
  local kernels, of = by_kernel(list)
  for _, kernel in ipairs(kernels) do
    out[#out + 1] = kernel
    for _, outcome in ipairs(of[kernel]) do
      out[#out + 1] = ("  %s %-38s %-14s %s"):format(outcomes.as_meant(outcome) and " " or "!", outcome.name, outcome.caught, where(outcome))
      if not outcomes.as_meant(outcome) then
        out[#out + 1] = ("      %s; meant to be caught by: %s; case %s"):format(outcome.breaks, outcome.meant, outcome.case)
        out[#out + 1] = "      " .. outcome.message
      end
    end
    out[#out + 1] = ""
  end
  return table.concat(out, "\n")
end

local function cell(text) return (text:gsub("|", "\\|")) end

function outcomes.markdown(list)
  local out = { outcomes.summary(list) }
  local kernels, of = by_kernel(list)
  for _, kernel in ipairs(kernels) do
    out[#out + 1] = ("\n### %s\n\n| fault | what is wrong | caught by | where |\n|---|---|---|---|"):format(kernel)
    for _, outcome in ipairs(of[kernel]) do
      local at = outcome.line ~= "-" and ("`%s`"):format(cell(outcome.line)) or outcome.place ~= "-" and where(outcome) or outcome.case
      out[#out + 1] = ("| %s | %s | %s | %s |"):format(outcome.name:gsub("_", " "), cell(outcome.breaks), outcome.caught, at)
    end
  end
  return table.concat(out, "\n") .. "\n"
end

function outcomes.main(arguments)
  local list = {}
  for i = 2, #arguments do
    local file = assert(io.open(arguments[i], "rb"))
    list[#list + 1] = assert(outcomes.parse(file:read("a"), arguments[i]))
    file:close()
  end
  assert(#list > 0, "no outcomes")
  io.write(arguments[1] == "markdown" and outcomes.markdown(list) or outcomes.text(list))
  return arguments[1] ~= "check" or outcomes.count(list).wrong == 0
end

if arg and arg[0] and arg[0]:match("table%.lua$") then os.exit(outcomes.main(arg)) end

return outcomes
