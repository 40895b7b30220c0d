-- What the generator says of specs that are nearly right. Each field stands in each place that a field may have; each
-- field of a tile takes the values beside its bounds; and a spec of everything is edited in drawn places: words left
-- out, doubled, exchanged, misspelt. The texts have sums by place, field and kind of edit, so that a word, a line or a
-- rule that moves is seen in review. `GLINT_WALKS=FILE lua5.4 gen/tests/run.lua walks` writes the texts themselves, to
-- be compared with another checkout's.
local axes = require("gen.axes")
local draw = require("gen.tests.draw")
local emit = require("gen.emit")
local explain = require("gen.explain")
local harness = require("gen.tests.harness")
local list = require("gen.list")
local registry = require("gen.registry")
local records_of = require("gen.records")
local takes = require("gen.takes")
local text = require("gen.text")

local whole = os.getenv("GLINT_WALKS") and assert(io.open(os.getenv("GLINT_WALKS"), "w"))

local file = harness.file("")
local function nameless(words) return (words:gsub(file:gsub("%p", "%%%0"), "spec"):gsub("lua_%w+%.lua", "spec")) end

-- What is said of a spec: its mistakes, or what it makes. Never a runtime error.
local function said(source)
  harness.write(file, source)
  local ok, loaded, why = pcall(records_of, file)
  harness.yes(ok, ("%s, of\n%s"):format(loaded, source))
  if not loaded then return nameless(why) end
  local records = loaded.records
  return nameless(table.concat({ emit.table(records, "spec"), list.json(records), list.bzl(records, "spec"), list.table(records),
    takes.matrix(records), explain.summary(loaded), (explain.variant(loaded, records[1].name)) }, "\n"))
end

local texts, order = {}, {}
local function add(title, source, of)
  if not texts[title] then
    order[#order + 1] = title
    texts[title] = {}
  end
  table.insert(texts[title], of)
  if whole then whole:write("==== ", title, "\n", source, "\n---- is\n", of, "\n") end
end

local function compare()
  for _, title in ipairs(order) do
    local all = table.concat(texts[title], "\n")
    harness.has(("%s: %d, %d bytes, sum %s"):format(title, #texts[title], #all, harness.sum_of(all)), title)
  end
  texts, order = {}, {}
end

-- ---- fields in places --------------------------------------------------------------------------------------------

-- A right value of a schema, as a spec writes it.
local function value_of(of)
  if of.kind == "choice" then return text.show(of.values[1]) end
  if of.kind == "name" then return of.values[1] end
  if of.kind == "integer" then return tostring((of.min + (of.multiple or 1) - 1) // (of.multiple or 1) * (of.multiple or 1)) end
  if of.kind == "flag" then return "true" end
  if of.kind == "sentence" then return '"because"' end
  return "{ " .. value_of(of.of) .. " }"
end

local TARGETS = { cpu = 'isas = { "x86_64_v3" }', sm80 = "archs = { 80 }", sm90a = 'archs = { "90a" }' }
local TILES = { cpu = { fwd = "m = 64, n = 96", bwd = "m = 64, n = 96", dec = "m = 32, n = 256" },
  sm80 = { fwd = "m = 64, n = 64", bwd = "m = 64, n = 64", dec = "m = 8, n = 64" },
  sm90a = { fwd = "m = 128, n = 128", bwd = "m = 128, n = 128" } }

-- `of`: what is added to each place.
local function spec(family, pass, of)
  return ([[return {
  passes = { "%s" }, dtypes = { "bf16" }, head_dims = { 64, 128 }, masks = { "causal" }, %s
  families = {
    %s = { %s, %s
      tiles = { %s = { { %s, %s }, %s
        }, %s } },
  },
  exclude = { { family = "%s", head_dim = 128, reason = "no", %s } },
  override = { { family = "%s", pass = "%s", set = { %s }, reason = "so", %s } },
}
]]):format(pass, of.top or "", family, TARGETS[family], of.family or "", pass, TILES[family][pass], of.tile or "", of.set_of_tiles or "",
    of.tiles or "", family, of.exclude or "", family, pass, of.set or TILES[family][pass], of.override or "")
end

local PLACES = { "top", "family", "tiles", "set_of_tiles", "tile", "exclude", "override", "set" }

harness.case("each field in each place", function()
  for _, family in ipairs(registry.names) do
    local made, fields = registry.get(family), { nonsense = "1", m = "64", reason = '"because"', family = '"cpu"', families = "{}",
      exclude = "{}", override = "{}", set = "{}", compress = '"none"', tiles = "{}" }
    for _, axis in ipairs(axes.list) do fields[axis.name], fields[axis.plural] = value_of(axis.of), "{ " .. value_of(axis.of) .. " }" end
    for _, more in ipairs({ made.fields, made.tile_fields, made.match_fields }) do
      for name, of in pairs(more) do fields[name] = fields[name] or value_of(of) end
    end
    for _, place in ipairs(PLACES) do
      for _, name in ipairs(text.sorted_keys(fields)) do
        local source = spec(family, "fwd", { [place] = ("%s = %s,"):format(name, fields[name]) })
        add(("%s, %s"):format(family, place), source, said(source))
      end
    end
  end
  compare()
end)

-- ---- values of a tile's fields -----------------------------------------------------------------------------------

local function values_of(of)
  if of.kind == "flag" then return { "true", "false", "1" } end
  if of.kind == "choice" then
    local all = { '"none of them"' }
    for i, value in ipairs(of.values) do all[i + 1] = text.show(value) end
    return all
  end
  if of.kind == "integer" then
    local step, all = of.multiple or 1, { "0", ("%d.0"):format(of.min), ("%d.5"):format(of.min), "-1" }
    for _, value in ipairs({ of.min - step, of.min, of.min + 1, of.min + step, of.min + 2 * step, of.max // 2 // step * step, of.max,
      of.max + step }) do all[#all + 1] = tostring(value) end
    return all
  end
  if of.kind == "sentence" then
    return { '"*/"', '" */ "', '"ends */"', '"%"', '""', '"\195\169"', '"\255"', ('"%s"'):format(("x"):rep(300)),
      ('"%s"'):format(("x"):rep(301)), "1" }
  end
  local value = value_of(of.of)
  return { "{}", "{ " .. value .. " }", "{ " .. value .. ", " .. value .. " }", value, "{ 1 }", "{ { 1 } }", "{ x = " .. value .. " }" }
end

harness.case("each field of a tile beside its bounds", function()
  for _, family in ipairs(registry.names) do
    local made = registry.get(family)
    for _, pass in ipairs(text.sorted_keys(TILES[family])) do
      for _, name in ipairs(text.sorted_keys(made.tile_fields)) do
        for _, value in ipairs(values_of(made.tile_fields[name])) do
          local field = ("%s = %s"):format(name, value)
          local source = spec(family, pass, { tile = field })
          if name == "m" or name == "n" then
            source = source:gsub("{ { (m = %d+, n = %d+), .- }", "{ { %1 }", 1):gsub("%f[%w]" .. name .. " = %d+", field, 1)
          end
          add(("%s, %s, %s"):format(family, pass, name), source, said(source))
        end
      end
    end
  end
  compare()
end)

-- ---- edits -------------------------------------------------------------------------------------------------------

local EVERYTHING = [==[
-- a comment
return {
  passes = { "fwd", "bwd" }, dtypes = { "bf16" },
  head_dims = { 64, 128, }; masks = { 'causal' },
  compress = "size", softcaps = { "none", "softcap" },
  families = {
    cpu = { --[[ a long
      comment ]] isas = { "x86_64_v3", "x86_64_amx" }, max_logit = true, head_dims = { 64 },
      tiles = { fwd = { { m = 64, n = 96, isas = { "x86_64_v3" } }, [64] = { { m = 32, n = 96, isas = { "x86_64_v3" } },
        { isas = { "x86_64_amx" }, m = 64, n = 64 } } },
        ["bwd"] = { { m = 64, n = 96, rows = 4, isas = { "x86_64_v3" } } } },
    },
    sm90a = { archs = { "90a" }, softcaps = { "none" }, tiles = { fwd = { { n = 128, m = 128 } } } },
  },
  exclude = {
    { family = "cpu", pass = "fwd", m = 32, isa = { "x86_64_v3" }, reason = "nobody needs it" },
    { head_dim = 128, pass = "bwd", reason = [[too large]] },
  },
  override = { { family = "cpu", pass = "bwd", isa = "x86_64_v3", set = { rows = 6 }, reason = "it's \"faster\"" } },
}
]==]

local POOL = { "{", "}", ",", "=", "[", "]", "(", "-", "..", "--", "--[[", "]]", ";", "nil", "true", "false", "function", "return",
  "0", "1", "-1",
  "63", "64", "65", "96", "128", "0x40", "0x1p6", "1e2", "64.0", "64.5", "1024", "1032", "99999999999999999999",
  '"fwd"', "'bwd'", '"dec"', '"causal"', '"*/"', '"a */ b"',
  "[[x]]", '"\\n"', '"\\\\"', "'", '""', "\1", "\194\160", "reason", "family", "families",
  "head_dim", "m", "n", "isas", "tiles", "cpu", "sm80", "sm90a", '"sm80"',
  '"x86_64_v4"', "archs", "set", "\n", "{ }", "{ 1, 2 }", "x = 1," }

-- Pieces of the text, blanks too.
local function pieces_of(source)
  local pieces, at = {}, 1
  while at <= #source do
    local _, last = source:find("^%s+", at)
    if not last then _, last = source:find("^[%w_]+", at) end
    if not last then _, last = source:find("^\"[^\"\n]*\"", at) end
    last = last or at
    pieces[#pieces + 1] = source:sub(at, last)
    at = last + 1
  end
  return pieces
end

local EDITS = {
  { "left out", function(p, i) p[i] = "" end },
  { "twice", function(p, i) p[i] = p[i] .. " " .. p[i] end },
  { "exchanged", function(p, i, random)
    local j = random(#p)
    p[i], p[j] = p[j], p[i]
  end },
  { "in place of it", function(p, i, random) p[i] = POOL[random(#POOL)] end },
  { "before it", function(p, i, random) p[i] = POOL[random(#POOL)] .. " " .. p[i] end },
  { "a letter less", function(p, i, random)
    local at = random(#p[i])
    p[i] = p[i]:sub(1, at - 1) .. p[i]:sub(at + 1)
  end },
  { "a letter more", function(p, i, random)
    local at, more = random(#p[i] + 1), ("x0*/\"\\-]=%.\t"):sub(1 + random(11)):sub(1, 1)
    p[i] = p[i]:sub(1, at - 1) .. more .. p[i]:sub(at)
  end },
  { "cut off", function(p, i)
    for j = i, #p do p[j] = "" end
  end },
}

local DRAWN = 1600

harness.case("a spec with drawn mistakes", function()
  local random = draw.random(26)
  for n = 1, DRAWN do
    local edit, pieces = EDITS[n % #EDITS + 1], pieces_of(EVERYTHING)
    for _ = 1, random(3) do
      local i = random(#pieces)
      for _ = 1, #pieces do -- no blanks
        if not pieces[i]:find("^%s*$") then break end
        i = i % #pieces + 1
      end
      if pieces[i] ~= "" then edit[2](pieces, i, random) end
    end
    local source = table.concat(pieces)
    add(edit[1], source, said(source))
  end
  compare()
end)

-- ---- names -------------------------------------------------------------------------------------------------------

local NAMES = { "bwd_bf16_d64_causal__cpu_x86_64_v3_m64n96", "fwd_bf16_d128_causal_softcap__sm90a_m128n128",
  "fwd_bf16_d64_causal__cpu_x86_64_amx_m64n128" }
local PARTS = { "fwd", "bwd", "dec", "f32", "f16", "bf16", "i8", "e4m3", "d8", "d64", "d65", "d128", "d1032",
  "none", "causal", "band", "interval", "tree", "softcap", "alibi", "tensor", "", "cpu", "sm80", "sm90a", "x86", "64", "v3",
  "v4", "amx", "aarch64", "m64n96", "m32n64", "m128n128", "short", "split", "fused", "90a" }

harness.case("names of variants with drawn mistakes", function()
  harness.write(file, EVERYTHING)
  local loaded, random = assert(records_of(file)), draw.random(3)
  for _, record in ipairs(loaded.records) do add("names that are", record.name, nameless(explain.variant(loaded, record.name))) end
  for n = 1, 800 do
    local parts = {}
    for part in (NAMES[n % #NAMES + 1] .. "_"):gmatch("(.-)_") do parts[#parts + 1] = part end
    for _ = 1, random(2) do
      local i, kind = random(#parts), random(4)
      if kind == 1 then table.remove(parts, i) end
      if kind == 2 then table.insert(parts, i, PARTS[random(#PARTS)]) end
      if kind > 2 then parts[i] = PARTS[random(#PARTS)] end
    end
    local name = table.concat(parts, "_")
    local ok, why = explain.variant(loaded, name)
    add("names", name, nameless(ok or why))
  end
  compare()
end)
if whole then whole:close() end
