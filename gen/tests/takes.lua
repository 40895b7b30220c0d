-- What rows take: the column of every record, what it could be, and the two places where people read it.
local harness = require("gen.tests.harness")
local records_of = require("gen.records")
local takes = require("gen.takes")
local text = require("gen.text")

-- A spec for GPUs with `fields` of both families set.
local function rows_with(fields)
  local loaded = assert(records_of(harness.file(([[return {
  passes = { "fwd", "bwd", "dec" }, dtypes = { "bf16" }, head_dims = { 128 }, masks = { "none", "causal" },
  families = { sm80 = { archs = { 80 }, %s }, sm90a = { archs = { "90a" }, passes = { "fwd", "bwd" }, %s } } }]]):format(fields,
    (fields:gsub("device_pages = true,?", ""):gsub("max_logit = true,?", ""))))))
  local rows = {}
  for _, record in ipairs(loaded.records) do rows[record.name] = record end
  return rows
end

harness.case("what a row could take it takes where the fields are set, and nothing else", function()
  local plain = rows_with("")
  local all = rows_with("device_lengths = true, device_ragged = true, device_pages = true, max_logit = true")
  for name, record in pairs(plain) do
    local wanted = {}
    for _, one in ipairs(takes.list) do
      if text.contains(record.takes, one.name) or text.contains(record.could, one.name) then wanted[#wanted + 1] = one.name end
    end
    harness.is(table.concat(all[name].takes, " "), table.concat(wanted, " "), name)
    harness.is(#all[name].could, 0, name)
  end
end)

harness.case("the fields that a word names make it, alone", function()
  for _, one in ipairs(takes.list) do
    local rows = rows_with(#one.fields > 0 and table.concat(one.fields, " = true, ") .. " = true" or "")
    for name, record in pairs(rows_with("")) do
      if text.contains(record.could, one.name) then harness.yes(text.contains(rows[name].takes, one.name), name .. " " .. one.name) end
    end
  end
end)

harness.case("rows of the CPU and of sm80 write the largest logit where the spec says so, and the backward pass has none", function()
  local loaded = assert(records_of(harness.file([[return {
  passes = { "fwd", "bwd", "dec" }, dtypes = { "bf16" }, head_dims = { 64 }, masks = { "causal" },
  families = { cpu = { isas = { "x86_64_v3", "x86_64_amx" }, max_logit = true }, sm80 = { archs = { 80 }, max_logit = true } } }]])))
  for _, record in ipairs(loaded.records) do
    harness.is(text.contains(record.takes, "max_logit"), record.pass ~= "bwd", record.name)
    harness.is(text.contains(record.could, "max_logit"), false, record.name)
  end
  harness.is(#loaded.records, 11)
end)

harness.case("lines of one group are told apart by what differs, alone", function()
  local function row(head_dim, mask, words)
    return { family = "sm80", pass = "dec", head_dim = head_dim, mask = mask, softcap = "none", dtype = "bf16", kv_dtype = "same",
      takes = words, could = {} }
  end
  local out = takes.matrix({ row(64, "none", { "lengths" }), row(64, "causal", { "lengths" }), row(128, "none", {}),
    row(128, "causal", {}) })
  harness.has(out, "\n| sm80, decode: head_dim 64 | yes |", "\n| sm80, decode: head_dim 128 | no |")
  out = takes.matrix({ row(64, "none", {}), row(128, "none", {}) })
  harness.has(out, "\n| sm80, decode | no |")
end)

harness.case("list --takes", function()
  local status, out = harness.glint("list", "--takes", "--spec", harness.root .. "/spec/ragged.lua")
  harness.is(status, 0)
  harness.has(out, "| cpu, forward | yes | yes | yes | yes | yes | yes | `max_logit` |",
    "| sm80, decode | yes | yes | yes | yes | yes | no | `max_logit` |")
  local wrong, _, why = harness.glint("list", "--takes", "--format", "json")
  harness.is(wrong, 2)
  harness.has(why, "--takes is a format of its own")
end)

harness.case("docs/limits.md has the table that list --takes prints", function()
  local status, out = harness.glint("list", "--takes", "--spec", harness.root .. "/tests/specs/takes.lua")
  harness.is(status, 0)
  local page = assert(harness.read(harness.root .. "/docs/limits.md"))
  harness.is(page:match("\n(| rows | lengths on the device |.-\n)\n"), out)
end)
