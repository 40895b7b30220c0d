-- Every spec that may be written has kernels, or an answer: specs that cover every pair of values expand, what the
-- contract has no kernel for is refused, and a row that a spec asks for is made.
local draw = require("gen.tests.draw")
local explain = require("gen.explain")
local harness = require("gen.tests.harness")
local registry = require("gen.registry")
local specs = require("gen.tests.specs")
local takes = require("gen.takes")
local text = require("gen.text")

local FIELDS = { "device_lengths", "device_ragged", "device_pages" }

local function all_set(row, fields)
  for _, field in ipairs(fields) do
    if not row[field] then return false end
  end
  return true
end

for seed = 1, 4 do
  harness.case(("specs that cover every pair of values expand, and their rows take what is asked for: seed %d"):format(seed), function()
    local rows, none = draw.rows(seed)
    harness.yes(#rows > 400 and #none < 110, ("%d specs, %d pairs without any"):format(#rows, #none))
    for number, row in ipairs(rows) do
      row.max_logit = not row.target:find("^sm90a") and number % 2 == 0
      local loaded, why = specs.open(draw.spec(row))
      harness.yes(loaded, why)
      for _, record in ipairs(loaded.records) do
        for _, one in ipairs(takes.list) do
          harness.yes(not (all_set(row, one.fields) and text.contains(record.could, one.name)), record.name .. " could take " .. one.name)
        end
      end
    end
  end)
end

harness.case("a pair that no spec covers is one that the contract has no kernel for", function()
  local random = draw.random(3)
  local _, none = draw.rows(1)
  for _, pair in ipairs(none) do
    for _ = 1, 200 do -- whatever the rest is
      local row = {}
      for _, axis in ipairs(draw.axes) do row[axis.name] = axis.values[random(#axis.values)] end
      row[pair[1].name], row[pair[3].name] = pair[2], pair[4]
      harness.yes(not draw.legal(row), ("%s %s and %s %s"):format(pair[1].name, pair[2], pair[3].name, pair[4]))
    end
  end
end)

harness.case("what the contract has no kernel for is refused with a sentence", function()
  local random, met = draw.random(7), {}
  for _ = 1, 4000 do
    local row = {}
    for _, axis in ipairs(draw.axes) do row[axis.name] = axis.values[random(#axis.values)] end
    for _, field in ipairs(FIELDS) do row[field] = false end
    local hole = draw.hole(row)
    if hole and (met[hole] or 0) < 12 then
      met[hole] = (met[hole] or 0) + 1
      local loaded, why = specs.open(draw.spec(row))
      harness.yes(loaded == nil, hole .. ", and there is one:\n" .. draw.spec(row))
      harness.yes(why:find("; ", 1, true), why)
    end
  end
  for _, hole in ipairs(draw.holes) do harness.yes((met[hole[1]] or 0) > 0, "not drawn: " .. hole[1]) end
end)

-- One spec for a measured line that spills with a field.
local function spec_of(line, pass, head_dim, field)
  return draw.spec({ target = "sm80 " .. line.archs[1], pass = pass, dtype = line.dtypes[1], kv_dtype = "same", head_dim = head_dim,
    mask = (line.masks or { "causal" })[1], softcap = (line.softcaps or { "none" })[1], bias = "none", [field or ""] = true })
end

harness.case("where a measured tile spills with a field that is set there is a smaller one, and explain says so", function()
  local sm80 = registry.get("sm80")
  for pass, by_head_dim in pairs({ fwd = require("gen.tiles.sm80").fwd, bwd = require("gen.tiles.sm80").bwd }) do
    for head_dim, lines in pairs(by_head_dim) do
      for _, line in ipairs(lines) do
        for _, field in ipairs(line.spills_with or {}) do
          harness.yes(text.contains(sm80.passed, field), field)
          local plain, with = assert(specs.open(spec_of(line, pass, head_dim))), assert(specs.open(spec_of(line, pass, head_dim, field)))
          local smaller, measured = 0, {}
          for _, record in ipairs(plain.records) do measured[record.name] = record end
          for _, record in ipairs(with.records) do
            if record.origin.instead_of then
              smaller = smaller + 1
              harness.has(explain.variant(with, record.name), "would spill registers with", field, record.origin.instead_of)
              local before = measured[record.name]
              harness.yes(not before or before.dq_m ~= record.dq_m or before.part_m ~= record.part_m or before.q_kept ~= record.q_kept,
                record.name .. " is the same tile")
            end
          end
          harness.is(smaller, 1, ("%s of head_dim %d with %s"):format(pass, head_dim, field))
        end
      end
    end
  end
end)
