-- headers_test.lua NVCC FLAG...: nvcc makes the same PTX of a kernel with lib/device/nvcc/cuda_runtime.h as with CUDA's
-- own header of that name, and the same PTX for each architecture whose machine code is made of sm_80's PTX
-- (tools/cuda.bzl).
local SOURCES = { -- kernels of each family, and an architecture of it
  { "lib/cuda/rows.cu", "90" },
  { "generated/golden/dec_bf16_d64_band__sm80_s2_m8n256.cu", "80" },
  { "generated/golden/fwd_bf16_d64_causal__sm90a_short_m64n64.cu", "90a" },
}
local OF_SM80 = { "87", "89" }

local failures = 0
local function expect(holds, what)
  if not holds then
    failures = failures + 1
    print(what)
  end
end

-- The PTX of a source, without the line that names the architecture.
local function ptx(source, arch, without)
  local words = {}
  for i = 1, #arg do
    if arg[i] ~= "-cubin" and not (without and arg[i] == "-Ilib/device/nvcc") then words[#words + 1] = arg[i] end
  end
  local out = os.getenv("TEST_TMPDIR") .. "/kernel.ptx"
  local done = os.execute(("TMPDIR='%s' %s -ptx -arch=compute_%s -o '%s' '%s'"):format(os.getenv("TEST_TMPDIR"), table.concat(words, " "), arch, out, source))
  assert(done, source .. " does not compile")
  local file <close> = assert(io.open(out))
  local text, targets = file:read("a"):gsub("\n%.target [^\n]*", "")
  assert(targets == 1 and text:find("\n.visible .entry", 1, true), out)
  return text
end

local seen = false
for _, word in ipairs(arg) do seen = seen or word == "-Ilib/device/nvcc" end
expect(seen, "nvcc is not told of lib/device/nvcc")
local of_sm80
for _, pair in ipairs(SOURCES) do
  local source, arch = table.unpack(pair)
  local text = ptx(source, arch)
  expect(text == ptx(source, arch, true), ("%s: the PTX for sm_%s is another with CUDA's cuda_runtime.h"):format(source, arch))
  if arch == "80" then of_sm80 = text end
end
for _, arch in ipairs(OF_SM80) do
  expect(ptx(SOURCES[2][1], arch) == of_sm80, ("%s: the PTX for sm_%s is not that for sm_80"):format(SOURCES[2][1], arch))
end

if failures > 0 then os.exit(1) end
print("headers_test: all right")
