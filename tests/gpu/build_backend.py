#!/usr/bin/env python3
"""Builds the GPU tests without Bazel, in seconds, over the cubins that tests/gpu/build.py left in .gpu/: on_device
(tests/cuda/on_device.c) and variant_test with the GPU backend. tests/gpu/run_backend.sh runs them on a machine with a GPU.

usage: tests/gpu/build_backend.py [--spec FILE] [--arch SM] [--folder DIR] [NAME...]     NAME: a prefix of the variants to take; needs gcc and lua5.4
The spec and the architecture are those that build.py was given. Everything goes to backend/ in the folder, which is .gpu.
"""
import argparse, glob, json, os, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CUBINS = ".gpu" # or --folder
OUT = CUBINS + "/backend"
FLAGS = "-std=c11 -O2 -g -Wall -Wextra -Wpedantic -Wconversion -Werror -I. -DGLINT_TESTS_WITHOUT_CHECK".split()
VARIANT_TEST = """variant_test variant_checks check gradient_check laws special_values far accuracy experiment executors plain ref half
    runner runner_plain cuda/backend_cuda cuda/device"""
ON_DEVICE = "cuda/on_device cuda/job cuda/device"


def run(*command):
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    if done.returncode:
        sys.exit("%s\n%s%s" % (" ".join(command), done.stdout, done.stderr))
    return done.stdout


def embed(records, arch):
    """Every cubin in read-only data. The table names one for each architecture of the spec; those not built are nothing, which the
    driver refuses."""
    lines = ['.section .rodata.cubins, "a"']
    for r in records:
        for sm in r["archs"]:
            data = '.incbin "%s/%s.cubin"' % (CUBINS, r["name"]) if sm == arch else ".zero 64"
            symbol = "glint_%s__sm%d_cubin" % (r["name"], sm)
            lines += [".balign 64", ".globl " + symbol, symbol + ":", data]
    path = OUT + "/cubins.S"
    with open(os.path.join(ROOT, path), "w") as f:
        f.write("\n".join(lines + ['.section .note.GNU-stack, "", @progbits', ""]))
    return path


def link(name, sources):
    """The kernels are in one library beside the programs, for they are most of the bytes that travel."""
    library = [p for p in sorted(glob.glob("lib/*.c", root_dir=ROOT) + glob.glob("lib/c*/*.c", root_dir=ROOT)) if p != "lib/pool.c"]
    tests = ["tests/%s.c" % s for s in sources.split()]
    run("gcc", *FLAGS, *library, *tests, "-o", "%s/%s" % (OUT, name), "-L" + OUT, "-ltable", "-Wl,-rpath,$ORIGIN", "-ldl", "-lm", "-pthread")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", default="spec/full.lua")
    parser.add_argument("--arch", type=int, default=90)
    parser.add_argument("--folder", default=CUBINS, help="where build.py left the cubins, from the repository's root")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    globals().update(CUBINS=options.folder, OUT=options.folder + "/backend")
    os.makedirs(os.path.join(ROOT, OUT), exist_ok=True)
    with open(os.path.join(ROOT, CUBINS, "variants.json")) as f:
        records = [r for r in json.load(f) if not options.names or any(r["name"].startswith(n) for n in options.names)]
    if not records:
        sys.exit("tests/gpu/build.py has built none of these")
    chosen = [word for r in records for word in ("--variant", r["name"])]
    run("lua5.4", "gen/glint.lua", "emit", "--table", "--spec", options.spec, "--out", OUT + "/table.c", *chosen)
    run("gcc", *FLAGS, "-fPIC", "-shared", OUT + "/table.c", embed(records, options.arch), "-o", OUT + "/libtable.so")
    link("on_device", ON_DEVICE)
    link("variant_test", VARIANT_TEST)
    print("%d variants for sm_%d in %s: on_device, variant_test, libtable.so" % (len(records), options.arch, OUT))


main()
