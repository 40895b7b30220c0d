-- Each entry of known.lua means one place of its file, no more and no less; and what finds the place is not mistaken.
package.path = "./?.lua"
local known = require("tests.mutants.known")
local place = require("tests.mutants.place")
local failed = 0

local function expect(right, message)
  if right then return end
  failed = failed + 1
  print("known_test: " .. message)
end

for _, entry in ipairs(known) do
  local file = assert(io.open(entry.file, "rb"))
  local offsets = place.find(file:read("a"), entry)
  file:close()
  expect(#offsets == 1, ("%s: `%s` of `%s` is at %d places, not one: say `within`, `after` and `number`, or take the entry away"):format(
    entry.file, entry.old, entry.line, #offsets))
  expect(entry.class == "equivalent" or entry.class == "speed", entry.file .. ": the class " .. tostring(entry.class) .. " is none")
end

local TEXT = "int f(int a)\n{\n    return a + a + 1;\n}\n\nint ff(int a)\n{\n    return a + a + 1;\n}\n"
local function found(within, number, old, after)
  local offsets = place.find(TEXT, { line = "return a + a + 1;", old = old or "+", within = within, number = number, after = after })
  return table.concat(offsets, " ")
end
expect(found() == "29 33 70 74", "all places: " .. found())
expect(found("f") == "29 33", "of one function: " .. found("f"))
expect(found("ff", 2) == "74", "the second of a function: " .. found("ff", 2))
expect(found("f", 3) == "", "the third, where there are two: " .. found("f", 3))
expect(found("g") == "", "of a function that is not there: " .. found("g"))
expect(found(nil, 1, nil, "{") == "29 70", "after a line: " .. found(nil, 1, nil, "{"))
expect(found("f", 1, nil, "}") == "", "after a line that it does not follow: " .. found("f", 1, nil, "}"))
expect(found(nil, nil, "a + b") == "", "another text: " .. found(nil, nil, "a + b"))

-- A mutant is known where its entry lies, and nowhere else.
local function of_mutant(first, new, entry)
  entry.file, entry.line, entry.old, entry.new = "f.c", "return a + a + 1;", "+", "-"
  return place.entry_of({ entry }, { file = "f.c", old = "+", new = new, first = first }, TEXT) ~= nil
end
expect(of_mutant(29, "-", { within = "f", number = 1 }), "a mutant is not known where it lies")
expect(not of_mutant(33, "-", { within = "f", number = 1 }), "a mutant is known at another place of the line")
expect(not of_mutant(70, "-", { within = "f", number = 1 }), "a mutant is known in another function")
expect(not of_mutant(29, "*", { within = "f", number = 1 }), "another change is known")
expect(not of_mutant(29, "-", { within = "f" }), "an entry of two places makes a mutant known")
if failed > 0 then os.exit(1) end
print(("known_test: %d entries mean one place each"):format(#known))
