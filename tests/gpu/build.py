#!/usr/bin/env python3
"""Emits and compiles candidate kernels of the sm80 family into .gpu/, with a list of them for check.py.

usage: tests/gpu/build.py [NAME...]     from the root of the checkout; needs nvcc and lua5.4, no GPU
"""
import json, os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OUT = os.path.join(ROOT, ".gpu")
EMIT = """
package.path = ROOT .. "/?.lua;" .. package.path
local template = require("gen.template")
local function read(file)
  local path = ROOT .. "/gen/templates/" .. file
  local f = assert(io.open(path)); local s = f:read("a"); f:close()
  return s, "gen/templates/" .. file
end
local source, name = read(TEMPLATE)
io.write(template.render(source, name, VALUES, { read = read }))
"""


def lua(value):
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else '"%s"' % value


def padded(d):
    return (d + 15) // 16 * 16


def fwd_smem(c, element=2):
    return (c["tile_m"] + 4 * c["tile_n"]) * padded(c["head_dim"]) * element


def bwd_smem(c, element=2):
    d, m, n = padded(c["head_dim"]), c["tile_m"], c["tile_n"]
    return (2 * n * d + 4 * m * d + (c["d_split"] + 1) * n * m) * element + 4 * m * 4


def compile_one(c):
    c = dict(c)
    fwd = c["pass"] == "fwd"
    c.setdefault("symbol", "glint_" + c["name"])
    c["command"] = "tests/gpu/build.py " + c["name"]
    element = 4 if c["dtype"] == "f32" else 2
    c["smem_bytes"] = fwd_smem(c, element) if fwd else bwd_smem(c, element)
    template = "sm80_fwd.cu.lua" if fwd else "sm80_bwd.cu.lua"
    values = ", ".join("%s = %s" % (k, lua(v)) for k, v in c.items())
    script = "ROOT = %s\nTEMPLATE = %s\nVALUES = { %s }\n%s" % (lua(ROOT), lua(template), values, EMIT)
    path = os.path.join(OUT, c["name"])
    text = subprocess.run(["lua5.4", "-"], input=script, capture_output=True, text=True)
    if text.returncode:
        return c, text.stderr
    with open(path + ".cu", "w") as f:
        f.write(text.stdout)
    done = subprocess.run(["nvcc", "-std=c++17", "-O3", "-I" + ROOT, "-gencode", "arch=compute_90,code=sm_90", "-cubin", "-lineinfo",
                           "-Xptxas", "-v", "-o", path + ".cubin", path + ".cu"], capture_output=True, text=True)
    log = [l for l in done.stderr.splitlines() if "error" in l or "Used" in l or "spill" in l or "warning" in l]
    c["ok"] = done.returncode == 0
    return c, "\n".join(log)


def main():
    sys.path.insert(0, HERE)
    from candidates import CANDIDATES
    os.makedirs(OUT, exist_ok=True)
    chosen = [c for c in CANDIDATES if len(sys.argv) < 2 or any(c["name"].startswith(a) for a in sys.argv[1:])]
    with ThreadPoolExecutor(2) as pool:
        built = list(pool.map(compile_one, chosen))
    for c, log in built:
        print(c["name"], c["smem_bytes"])
        for line in log.splitlines():
            print("   ", line.strip())
    with open(os.path.join(OUT, "variants.json"), "w") as f:
        json.dump([c for c, _ in built if c.get("ok")], f, indent=1)
    return 0 if all(c.get("ok") for c, _ in built) else 1


if __name__ == "__main__":
    sys.exit(main())
