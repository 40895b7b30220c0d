#!/usr/bin/env python3
"""Builds the GPU tests that need no Bazel: on_device (tests/cuda/on_device.c) and variant_test with the GPU backend, over a table of
kernels. tests/gpu/run_backend.sh runs them on a machine with a GPU.

usage: tests/gpu/build_backend.py [--spec FILE [--arch 90]] [NAME...]     from anywhere; needs gcc
Without --spec the kernels are the cubins that tests/gpu/build.py left in .gpu/. With it, they are emitted from the GPU rows of a spec
and compiled for one architecture: needs lua5.4 and nvcc. NAME: a prefix of the variants to take. Everything goes to .gpu/backend/.
"""
import argparse, concurrent.futures, glob, json, os, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GPU = ".gpu"
OUT = GPU + "/backend"
FLAGS = "-std=c11 -O2 -g -Wall -Wextra -Wpedantic -Wconversion -Werror -I. -DGLINT_TESTS_WITHOUT_CHECK".split()
PASSES = {"fwd": "GLINT_FORWARD", "bwd": "GLINT_BACKWARD"}
DTYPES = {"f32": "GLINT_F32", "f16": "GLINT_F16", "bf16": "GLINT_BF16"}
VARIANT_TEST = """variant_test variant_checks check gradient_check laws special_values accuracy experiment executors plain ref
    half runner runner_plain cuda/backend_cuda cuda/device"""
ON_DEVICE = "cuda/on_device cuda/job cuda/device"


def run(command, **more):
    result = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, **more)
    if result.returncode:
        sys.exit("%s\n%s%s" % (" ".join(command), result.stdout, result.stderr))
    return result.stdout


def launches(r):
    """The kernels of a candidate in launch order: entry, grid, rows, threads, shared bytes (tests/gpu/check.py launches the same)."""
    main = (r["symbol"], 32 * r["warps"], r["smem_bytes"])
    if r["pass"] == "fwd":
        return [(main[0], "QUERY", r["tile_m"], *main[1:])]
    steps = [(r["symbol"] + "_delta", "QUERY", 128, 256, 0), (main[0], "KEY", r["tile_n"], *main[1:])]
    if r["strategy"] == "split":
        steps.append((r["symbol"] + "_dq", "QUERY", r["dq_tile_m"], 32 * r["dq_warps"], r["dq_smem_bytes"]))
    return steps


def candidate_table(records, arch):
    lines = ['#include "lib/params.h"', '#include "lib/variant.h"', ""]
    for r in records:
        strategy = "FORWARD" if r["pass"] == "fwd" else r["strategy"].upper()
        steps = ", ".join('{"%s", GLINT_GPU_%s_BLOCKS, %d, %d, %d}' % step for step in launches(r))
        image = r["symbol"] + "__sm%s_cubin" % arch
        lines += [
            "extern const unsigned char %s[];" % image,
            "static const struct glint_gpu_image %s_image = {.sm = %s, .data = %s};" % (r["symbol"], arch, image),
            "static const struct glint_gpu_kernel %s = {GLINT_GPU_%s, %d, {%s}, &%s_image, 1};" % (
                r["symbol"], strategy, len(launches(r)), steps, r["symbol"]),
        ]
    lines += ["", "const struct glint_variant glint_variants[] = {"]
    for r in records:
        lines.append('    {"%s", %s, %s, %d, GLINT_FAMILY_SM80, %d, %d, %d, 0, %s, 16, &%s},' % (
            r["name"], PASSES[r["pass"]], DTYPES[r["dtype"]], r["causal"], r["head_dim"], r["tile_m"], r["tile_n"], arch, r["symbol"]))
    return "\n".join(lines + ["};", "const uint32_t glint_variants_count = %d;" % len(records), ""])


def candidates(names, arch):
    with open(os.path.join(ROOT, GPU, "variants.json")) as f:
        records = [r for r in json.load(f) if r.get("ok", True)]
    records = sorted((r for r in records if wanted(r, names)), key=lambda r: r["name"])
    with open(os.path.join(ROOT, OUT, "table.c"), "w") as f:
        f.write(candidate_table(records, arch))
    return [(r["name"], "%s/%s.cubin" % (GPU, r["name"])) for r in records]


def wanted(record, names):
    return not names or any(record["name"].startswith(n) for n in names)


def from_spec(spec, names, arch):
    generator = ["lua5.4", "gen/glint.lua"]
    records = json.loads(run(generator + ["list", "--format", "json", "--spec", spec]))
    records = records if isinstance(records, list) else records["variants"]
    records = [r for r in records if r["family"] != "cpu" and int(arch) in map(int, r["archs"]) and wanted(r, names)]
    chosen = [word for r in records for word in ("--variant", r["name"])]
    if not chosen:
        sys.exit("%s has no GPU variant for sm_%s that is wanted" % (spec, arch))
    run(generator + ["emit", "--table", "--spec", spec, "--out", OUT + "/table.c"] + chosen)

    def compile(record):
        stem = "%s/%s" % (OUT, record["name"])
        run(generator + ["emit", "--spec", spec, "--variant", record["name"], "--out", stem + ".cu"])
        run(["nvcc", "-arch=sm_" + arch, "-cubin", "-O3", "-std=c++17", "-I.", "--Werror=all-warnings", "-o", stem + ".cubin", stem + ".cu"])
        return record["name"], stem + ".cubin"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile, records))


def embed(cubins, arch):
    """One object with every cubin in read-only data; the table's images for other architectures are empty."""
    lines = ['.section .rodata.cubins, "a"']
    for name, path in cubins:
        symbol = "glint_%s__sm%s_cubin" % (name, arch)
        lines += [".balign 64", ".globl " + symbol, symbol + ":", '.incbin "%s"' % path]
    path = OUT + "/cubins.S"
    with open(os.path.join(ROOT, path), "w") as f:
        f.write("\n".join(lines + ['.section .note.GNU-stack, "", @progbits', ""]))
    return path


def link(name, sources):
    """The kernels are in one library beside the programs, for they are most of the bytes that travel."""
    library = [p for p in sorted(glob.glob("lib/*.c", root_dir=ROOT) + glob.glob("lib/c*/*.c", root_dir=ROOT)) if p != "lib/pool.c"]
    tests = ["tests/%s.c" % s for s in sources.split()]
    run(["gcc"] + FLAGS + library + tests + ["-o", "%s/%s" % (OUT, name), "-L" + OUT, "-ltable", "-Wl,-rpath,$ORIGIN", "-ldl", "-lm", "-pthread"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec")
    parser.add_argument("--arch", default="90")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    os.makedirs(os.path.join(ROOT, OUT), exist_ok=True)
    if options.spec:
        cubins = from_spec(options.spec, options.names, options.arch)
    else:
        cubins = candidates(options.names, options.arch)
    assembly = embed(cubins, options.arch)
    run(["gcc"] + FLAGS + ["-fPIC", "-shared", OUT + "/table.c", assembly, "-o", OUT + "/libtable.so"])
    link("on_device", ON_DEVICE)
    link("variant_test", VARIANT_TEST)
    print("%d variants for sm_%s in %s/on_device and variant_test" % (len(cubins), options.arch, OUT))


main()
