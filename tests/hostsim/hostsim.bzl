"""The GPU variants on a machine without a GPU: each emitted kernel compiled for this machine, in a library of its own.

    ./bazelw test //tests:hostsim                                        all of them
    ./bazelw test //tests:fwd_bf16_d64_causal__sm80_m128n32__hostsim     one variant's checks
"""

load("@local_host//:compiler.bzl", "GARBAGE_REGISTERS")
load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library")
load("//tools:defs.bzl", "glint_cc_test", "test_tables")

# C++ without exceptions of its own; kernels are CUDA C, whose #pragma unroll and unused parameters nobody minds.
# Position independent, but all in one program; and a fiber that goes on touches as little of its stack as can be.
_INSIDE = ["-fvisibility=hidden", "-fno-semantic-interposition", "-fno-stack-protector", "-fomit-frame-pointer"]
ENGINE = _INSIDE + ["-std=c++17", "-O3", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
KERNEL = _INSIDE + [
    "-std=c++17",
    "-O2",
    "-w",  # nvcc has the say about warnings: --Werror=all-warnings
] + GARBAGE_REGISTERS

# The image of a variant: its emitted file, and a symbol for each architecture that stands where a cubin would.
_IMAGE = """
{
    echo '#include "$(rootpath %s)"'
    echo '#include "tests/hostsim/image.h"'
    entries=$$(sed -n 's/.*[ )]\\(glint_[a-z0-9_]*\\)(GLINT_PARAMS.*/SIM_ENTRY(\\1)/p' $(location %s) | paste -s -d ,)
    for arch in %s; do echo "SIM_IMAGE(glint_%s__sm$${arch}_cubin, $$entries);"; done
} >$@
"""

def simulated_kernel(name, variant, source, copts = [], **kwargs):
    """A C++ library with the image of one emitted kernel.

    Args:
      name: the target
      variant: the element of VARIANTS, or one that has its name and archs
      source: the label of the emitted .cu
      copts: more of the compiler's flags
      **kwargs: tags and the like
    """
    archs = [str(arch) for arch in variant["archs"]]
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = [source],
        outs = [name + ".cc"],
        cmd = _IMAGE % (source, source, " ".join(archs), variant["name"]),
        **kwargs
    )
    cc_library(
        name = name,
        testonly = True,
        srcs = [name + ".cc"],
        copts = KERNEL + copts + ["-D__CUDA_ARCH__=%s0" % archs[-1].rstrip("a")] +
                (["-Wno-psabi"] if archs[-1].endswith("a") or "_step_" in variant["name"] else []),  # gcc notes that it passes a tensor map otherwise since 4.6
        linkstatic = True,
        textual_hdrs = [source],
        deps = [
            "//lib:device_library",
            "//tests/hostsim:engine",
        ],
        **kwargs
    )

def simulated_library(name, variants, spec = "@glint_spec//:spec", package = "//generated", simulated = "//tests/hostsim", kernels = {}, gpu_rows = "//tests/hostsim:gpu_rows", table = None, **kwargs):
    """The whole library over some GPU variants, their kernels simulated.

    Args:
      name: the target; depend on it in place of variant_library()'s
      variants: elements of VARIANTS
      spec: the label of the spec file
      package: where glint_kernels() made their targets
      simulated: where simulated_kernels() did
      kernels: labels of kernels that stand in for those, by the variants' names
      gpu_rows: the label of the kernels of glint_merge and glint_append
      table: the label of the dispatch table; none: it is made here
      **kwargs: tags and the like
    """
    if not table:
        table = name + "_table"
        test_tables(table + "_source", {table: variants}, spec)
    cc_library(
        name = name,
        testonly = True,
        linkstatic = True,
        deps = ["//lib:core", table, "//lib:cuda", gpu_rows] + [
            kernels.get(variant["name"], "%s:%s" % (simulated, variant["name"]))
            for variant in variants
        ],
        **kwargs
    )

def simulated_kernels(variants, package = "//generated"):
    """One target a GPU variant, in this package.

    Args:
      variants: VARIANTS of a spec's repository
      package: where glint_kernels() made their targets
    """
    for variant in variants:
        if variant["family"] != "cpu":
            simulated_kernel(
                name = variant["name"],
                source = "%s:%s.cu" % (package, variant["name"]),
                variant = variant,
                visibility = ["//visibility:public"],
            )

def _shards(variant):
    """Several of a variant that would be the last to end: it is dealt the most checks, as few variants have its mask or strategy."""
    name = variant["name"]
    if "__sm80_split_m32n64" in name and "_d64_causal_" in name:
        return 3  # in .ci/small.lua, for the sanitizers, it has all checks
    if variant["family"] == "sm90a" and variant["mask"] in ["interval", "tree"]:
        return 3
    return 2 if variant["family"] == "sm90a" and variant["mask"] == "band" and variant["pass"] == "bwd" else 1

def simulated_variant_test(variant, linked, dealt, **kwargs):
    """The gradient checks of one GPU variant in the simulator, NAME__hostsim; and NAME__trace, for //tests:hostsim_trace.

    Args:
      variant: the element of VARIANTS
      linked: the variants that the library must hold
      dealt: the label of the file that names the checks that it runs (tests/hostsim/deal)
      **kwargs: spec, package and simulated of simulated_library()
    """
    name = variant["name"] + "__hostsim"
    simulated_library(
        name = name + "_library",
        tags = ["manual"],
        variants = linked,
        **kwargs
    )
    glint_cc_test(
        name = name,
        size = "medium",
        args = [
            "--variant=" + variant["name"],
            "--dealt=$(rootpath %s)" % dealt,
        ],
        data = [dealt],
        shard_count = _shards(variant),
        tags = ["hostsim"],
        deps = [ # in the order of linking
            "//tests/checks:variant_test",
            "//tests/hostsim:backend_hostsim",
            name + "_library",
        ],
    )
    cc_binary(
        name = variant["name"] + "__trace",
        testonly = True,
        tags = ["manual"],
        deps = [
            "//tests/hostsim/trace:record",
            "//tests/hostsim:backend_hostsim",
            name + "_library",
        ],
    )
    return name
