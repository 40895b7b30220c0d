-- The template engine: its three marks, and the file and line of every error.
local harness = require("gen.tests.harness")
local template = require("gen.template")

-- A name longer than Lua keeps in its own messages.
local NAME = "gen/templates/a_template_with_a_very_long_name_that_goes_on_and_on.c.lua"

local function renders(what, source, values, want)
  harness.case(what, function() harness.is(template.render(source, NAME, values), want) end)
end

local function fails(what, source, line, ...)
  local words = { ... }
  harness.case(what, function()
    local ok, why = pcall(template.render, source, NAME, { name = "n" })
    harness.yes(not ok, "it rendered")
    harness.is(why:sub(1, #NAME + 2 + #tostring(line)), NAME .. ":" .. line .. ":")
    harness.has(why, table.unpack(words))
  end)
end

renders("plain text is unchanged", "int x;\n\n  if (a) { b[1]; } // $$\n", {}, "int x;\n\n  if (a) { b[1]; } // $\n")
renders("a last line without its end gets one", "x", {}, "x\n")
renders("an empty template is an empty line", "", {}, "\n")
renders("CRLF becomes LF", "a\r\nb\r\n", {}, "a\nb\n")
renders("values", "${a}${b} ${a + 1}\n", { a = 1, b = "x" }, "1x 2\n")
renders("backslashes, quotes and percents stay", 'printf("%d\\n", \'\\0\');\n', {}, 'printf("%d\\n", \'\\0\');\n')
renders("floats read back as the same value", "${a} ${b} ${c} ${1e300}\n", { a = 0.1, b = 1.0, c = 1 / 3 },
  "0.1 1.0 0.3333333333333333 1e+300\n")
renders("a loop leaves no line of its own", "$ for i = 1, 2 do\nx${i};\n$ end\n", {}, "x1;\nx2;\n")
renders("indented Lua lines", "  $ if a then\n  yes\n  $ else\n  no\n  $ end\n", { a = true }, "  yes\n")
renders("a bare $ is an empty line of Lua", "a\n$\nb\n", {}, "a\nb\n")
renders("locals live on", "$ local n = a * 2\n${n} ${n}\n", { a = 3 }, "6 6\n")
renders("functions that write", "$ local function f(x)\n<${x}>\n$ end\n$ f(1)\n$ f(2)\n", {}, "<1>\n<2>\n")
renders("braces inside an expression", "${({ a = 5 }).a}, ${('}'):len()}\n", {}, "5, 1\n")
renders("Lua over several lines", "$ local t = {\n$   1, 2,\n$ }\n${#t}\n", {}, "2\n")
renders("false is a value of an if", "$ if causal then\nx\n$ end\ny\n", { causal = false }, "y\n")
renders("the text of a value is not a template", "${a}\n", { a = "${b} $ x $$" }, "${b} $ x $$\n")
renders("values go before functions", "${type}\n", { type = "own" }, "own\n")
renders("pure functions", "${string.format('%03d', math.max(1, 7))} ${table.concat({ 'a', 'b' }, '-')}\n", {}, "007 a-b\n")

fails("undefined name", "a\nb ${nope}\n", 2, "undefined name `nope`")
fails("undefined name in a line of Lua", "a\n\n$ local x = nope\n", 3, "undefined name `nope`")
fails("undefined function", "$ nope()\n", 1, "undefined name `nope`")
fails("a global that is set", "a\n$ x = 1\n", 2, "`x` is set as a global")
fails("a value of the record that is set", "$ name = 'y'\n", 1, "`name` is set as a global")
fails("nil", "\n\n${({}).x}\n", 3, "a nil")
fails("a boolean", "${1 == 1}\n", 1, "a boolean (true)")
fails("a table", "${ {} }\n", 1, "a table")
fails("a function", "${ipairs}\n", 1, "a function")
fails("not a number", "${0/0}\n", 1, "strings and finite numbers")
fails("infinity", "x\n${1/0}\n", 2, "strings and finite numbers")
fails("a bad expression", "x\ny ${1 +}\n", 2, "in ${...}")
fails("an empty expression", "${}\n", 1, "in ${...}")
fails("an expression that is never closed", "\n${name\n}\n", 2, "never closed")
fails("a dollar alone", "a $b\n", 1, "write $$ for a dollar")
fails("a dollar at the end of a line", "x\na$\n", 2, "write $$")
fails("a loop without its end", "$ for i = 1, 2 do\nx\n", 2, "'end' expected")
fails("an end too many", "x\n$ end\n", 2, "end")
fails("bad Lua", "x\n$ local = 3\n", 2, "<name> expected")
fails("a runtime error", "\n$ local t = nil\n$ t.x = 1\n", 3, "attempt to index")
fails("an error of the template's own", "a\n$ error('head_dim is odd')\n", 2, "head_dim is odd")
fails("a runtime error in a loop", "$ for i = 1, 3 do\n${i < 3 and i or nope}\n$ end\n", 2, "nope")
fails("a runtime error in a function", "$ local function f(x)\n${x}\n$ end\n$ f(nil)\n", 2, "a nil")
fails("a loop without end", "x\n$ while true do\n$ end\n", 2, "runs too long")
fails("recursion without end", "$ local function f() f() return 1 end\n$ f()\n", 1, "stack overflow")
fails("no pairs, whose order is not fixed", "$ for k in pairs({}) do\n$ end\n", 1, "undefined name `pairs`")
for _, name in ipairs({ "os", "io", "load", "require", "debug", "package", "_G", "dofile", "getmetatable", "setmetatable", "rawset",
  "collectgarbage", "print" }) do
  fails("no " .. name, "x\n$ local x = " .. name .. "\n", 2, "undefined name `" .. name .. "`")
end
fails("no random numbers", "${math.random(3)}\n", 1, "nil value")

harness.case("include puts in another file, with the same values", function()
  local function read(file) return file == "b" and "<${x}>\n" or nil, "dir/" .. file end
  harness.is(template.render('a\n$ include("b")\nc\n', NAME, { x = 1 }, { read = read }), "a\n<1>\nc\n")
end)

harness.case("without a way to read files nothing is included", function()
  for _, options in ipairs({ {}, { depth = 1 }, false }) do
    local ok, why = pcall(template.render, 'a\n$ include("b")\n', NAME, {}, options or nil)
    harness.yes(not ok)
    harness.has(why, ":2: include is not available here")
  end
end)

harness.case("an error in an included file has its own file and line", function()
  local function read(file) return "\n${nope}\n", "dir/" .. file end
  local ok, why = pcall(template.render, '$ include("b")\n', NAME, {}, { read = read })
  harness.yes(not ok)
  harness.is(why, "dir/b:2: undefined name `nope`")
end)

harness.case("eight includes may be nested, and no more", function()
  local function read(file)
    local left = tonumber(file)
    return left > 1 and ('$ include("%d")\n'):format(left - 1) or "end\n", file
  end
  harness.is(template.render('$ include("8")\n', NAME, {}, { read = read }), "end\n")
  local ok, why = pcall(template.render, '$ include("9")\n', NAME, {}, { read = read })
  harness.yes(not ok)
  harness.has(why, "nested too deep")
end)

harness.case("a file that includes itself is stopped", function()
  local function read(file) return '$ include("a")\n', file end
  local ok, why = pcall(template.render, '$ include("a")\n', NAME, {}, { read = read })
  harness.yes(not ok)
  harness.has(why, "nested too deep")
end)

harness.case("a template cannot change what the next one sees", function()
  pcall(template.render, "$ math.max = 1\n$ table.concat = nil\n", NAME, {})
  harness.is(template.render("${math.max(1, 2)}${table.concat({ 'x' })}\n", NAME, {}), "2x\n")
end)
