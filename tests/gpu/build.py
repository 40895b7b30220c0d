#!/usr/bin/env python3
"""Emits and compiles the sm80 kernels of a spec into .gpu/, with a list of them for check.py.

usage: tests/gpu/build.py [--spec FILE] [--arch SM] [--folder DIR] [NAME...]     NAME: a prefix of the variants to take; needs nvcc and lua5.4, no GPU
"""
import argparse, json, os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(ROOT, ".gpu") # or --folder


def glint(*args):
    done = subprocess.run(["lua5.4", "gen/glint.lua", *args], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def build(job):
    spec, arch, record = job
    path = os.path.join(OUT, record["name"])
    with open(path + ".cu", "w") as f:
        f.write(glint("emit", "--spec", spec, "--variant", record["name"]))
    done = subprocess.run(["nvcc", "-std=c++17", "-O3", "--Werror=all-warnings", "-I" + ROOT, "-I" + os.path.join(ROOT, "lib/device/ptx"), "-gencode", "arch=compute_%d,code=sm_%d" % (arch, arch), "-cubin",
                           "-lineinfo", "-Xptxas", "-v", "-o", path + ".cubin", path + ".cu"], capture_output=True, text=True)
    log = [l.strip() for l in done.stderr.splitlines() if "error" in l or "Used" in l or "warning" in l
           or ("spill" in l and " 0 bytes spill stores, 0 bytes" not in l)]
    return record, done.returncode, log


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--spec", default="spec/full.lua")
    a.add_argument("--arch", type=int, default=90)
    a.add_argument("--folder", default=OUT, help="where to leave them")
    a.add_argument("names", nargs="*")
    args = a.parse_args()
    globals()["OUT"] = args.folder
    os.makedirs(OUT, exist_ok=True)
    records = [r for r in json.loads(glint("list", "--format", "json", "--spec", args.spec))
               if r["family"] == "sm80" and args.arch in r["archs"] and (not args.names or any(r["name"].startswith(n) for n in args.names))]
    for r in records:
        r.update(symbol="glint_" + r["name"], causal=r["mask"] == "causal")
    with ThreadPoolExecutor(2) as pool:
        built = list(pool.map(build, [(args.spec, args.arch, r) for r in records]))
    failed = False
    for record, code, log in built:
        print(record["name"], "FAILED" if code else "", *log, sep="\n    ")
        failed |= code != 0
    with open(os.path.join(OUT, "variants.json"), "w") as f:
        json.dump([r for r, code, _ in built if code == 0], f, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
