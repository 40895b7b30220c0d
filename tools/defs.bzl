"""The rules of this build, for BUILD files. What each is for, with an example: tools/README.md."""

load("@local_cuda//:cuda.bzl", "CUDA_INCLUDE", "HAS_NVCC")
load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")
load(":archive.bzl", "glint_archive")
load(":cuda.bzl", "cuda_cubin")
load(":flags.bzl", "KERNEL", "LIBRARY", "STRICT")
load(":kernel.bzl", "glint_emit_all", "glint_emit_table", "glint_gpu_kernel", "glint_gpu_modules", "glint_kernel")

# ---- conditions, for target_compatible_with: a target whose condition does not hold is SKIPPED -----------------------

def without_sanitizer():
    """The target makes no sense in a build with a sanitizer."""
    return select({"//tools:no_sanitizer": [], "//conditions:default": ["//tools:build_without_sanitizer"]})

def needs_gpu():
    """The target needs a GPU to run: --config=gpu."""
    return select({"//tools:has_gpu": needs_nvcc(), "//conditions:default": ["//tools:gpu_to_run_on"]})

def needs_nvcc():
    """The target needs CUDA's compiler to be built."""
    return [] if HAS_NVCC else ["//tools:cuda_compiler"]

def needs_cuda_h():
    """The target needs CUDA's header of the driver to be built."""
    return [] if CUDA_INCLUDE else ["//tools:cuda_compiler"]

def not_cross():
    """The target runs the compiler's output in a way that qemu-user does not carry, or runs the system's own tools on it."""
    return select({"//tools:cross": ["//tools:build_for_this_machine"], "//conditions:default": []})

def runs(variant):
    """The target runs this variant's kernel: this machine (or the one that qemu shows) has its instruction set.

    Args:
      variant: an element of VARIANTS
    """
    if variant["family"] != "cpu":
        return needs_gpu()
    return ["//tools/isa:" + variant["isa"]]

# ---- our C -----------------------------------------------------------------------------------------------------------

def glint_cc_library(name, copts = [], **kwargs):
    """A C library of ours (not of the archive: tests, benchmarks, examples)."""
    cc_library(name = name, copts = STRICT + copts, linkstatic = True, **kwargs)

def glint_cc_binary(name, copts = [], **kwargs):
    cc_binary(name = name, copts = STRICT + copts, **kwargs)

def glint_cc_test(name, copts = [], size = "small", **kwargs):
    cc_test(name = name, copts = STRICT + copts, linkstatic = True, size = size, **kwargs)

def glint_core_library(name, copts = [], **kwargs):
    """A part of the archive: the strict warnings, and the flags that keep its undefined symbols to the few that are allowed."""
    # On AArch64 gcc calls libgcc for atomics unless told not to.
    inline_atomics = select({"@platforms//cpu:aarch64": ["-mno-outline-atomics"], "//conditions:default": []})
    cc_library(name = name, copts = LIBRARY + inline_atomics + copts, linkstatic = True, **kwargs)

# ---- variants --------------------------------------------------------------------------------------------------------

def source_of(variant):
    """The file with the source of a variant, in the package of its kernel."""
    return variant["name"] + (".c" if variant["family"] == "cpu" else ".cu")

def _kernel(variant, tags):
    name = variant["name"]
    record = json.encode(variant)
    if variant["family"] == "cpu":
        glint_kernel(
            name = name,
            src = source_of(variant),
            copts = KERNEL + variant["copts"],
            record = record,
            target_compatible_with = ["@platforms//cpu:" + variant["arch"]],
            visibility = ["//visibility:public"],
            deps = ["//lib:kernel_headers"],
        )
        return

    cuda_cubin(
        name = name + "_cubin",
        src = source_of(variant),
        out = name,
        archs = [str(arch) for arch in variant["archs"]],
        hdrs = ["//lib:%s_headers" % variant["family"]],
        spills = variant.get("spills", ""),
        tags = tags,
        target_compatible_with = needs_nvcc(),
    )
    glint_gpu_kernel(
        name = name,
        src = source_of(variant),
        cubins = name + "_cubin",
        compress = variant.get("compress", "size"),
        record = record,
        tags = ["manual"],  # who links it packs it
        target_compatible_with = needs_nvcc(),
        visibility = ["//visibility:public"],
    )

def _archs(variants):
    """The architectures of the GPU variants."""
    return {
        str(arch): True
        for variant in variants
        if variant["family"] != "cpu"
        for arch in variant["archs"]
    }.keys()

def _gpu_rows(archs, compress):
    """gpu_rows, the kernels of glint_merge and glint_append, which no variant has."""
    cuda_cubin(
        name = "gpu_rows_cubin",
        src = "//lib:cuda/rows.cu",
        out = "gpu_rows",
        archs = archs,
        hdrs = ["//lib:gpu_rows_headers"],
        nvccopts = ["-fmad=false"],  # the bits of the CPU
        tags = ["manual"],
        target_compatible_with = needs_nvcc(),
    )
    glint_gpu_kernel(
        name = "gpu_rows",
        src = "//lib:cuda/rows.cu",
        cubins = "gpu_rows_cubin",
        compress = compress,
        tags = ["manual"],
        target_compatible_with = needs_nvcc(),
        visibility = ["//visibility:public"],
    )

def gpu_rows(variants, package = "//generated:"):
    """What a table over these variants needs beside their kernels, as a list of labels: see _gpu_rows.

    Args:
      variants: elements of VARIANTS
      package: where glint_kernels() made their targets, such as "//generated:"
    """
    return [package + "gpu_rows"] if HAS_NVCC and _archs(variants) else []

def _for_cpu(variants, cpu):
    return [
        variant["name"]
        for variant in variants
        if (HAS_NVCC if variant["family"] != "cpu" else variant["arch"] == cpu)
    ]

def by_cpu(variants, prefix = ""):
    """The names of the variants that can be compiled for the target, as a select over its CPU.

    Args:
      variants: elements of VARIANTS
      prefix: put before each name, such as "//generated:"
    """
    return select({
        "@platforms//cpu:" + cpu: [prefix + name for name in _for_cpu(variants, cpu)]
        for cpu in ["x86_64", "aarch64"]
    })

def glint_kernels(variants, spec, compiled = True):
    """One target a variant, in this package: NAME is the compiled kernel, NAME.c or NAME.cu its source.

    Args:
      variants: VARIANTS of the spec's repository
      spec: the label of the spec file, such as "@glint_spec//:spec"
      compiled: `bazelw test //...` compiles the GPU kernels; False where others of the same features are compiled, and tests simulate these
    """
    glint_emit_all(
        name = "sources",
        kernels = [source_of(variant) for variant in variants],
        spec = spec,
        variants = [variant["name"] for variant in variants],
    )
    for variant in variants:
        _kernel(variant, [] if compiled else ["manual"])
    archs = _archs(variants)
    if archs:
        _gpu_rows(archs, [variant for variant in variants if variant["family"] != "cpu"][0].get("compress", "size"))

def variant_table(name, variants, spec = "@glint_spec//:spec", **kwargs):
    """A C library that is the dispatch table over some variants, without their kernels.

    Args:
      name: the target
      variants: elements of VARIANTS
      spec: the label of the spec file
      **kwargs: visibility and the like
    """
    glint_emit_table(
        name = name + "_source",
        out = name + ".c",
        spec = spec,
        variants = by_cpu(variants),
        **kwargs
    )
    glint_core_library(
        name = name,
        srcs = [name + ".c"],
        deps = ["//lib:table_headers"],
        **kwargs
    )

def test_tables(name, tables, spec = "@glint_spec//:spec"):
    """C libraries for tests, each the dispatch table over some variants, whatever CPU is theirs. One run of the generator makes all.

    Args:
      name: the target of their sources
      tables: the variants of each, by the library's name
      spec: the label of the spec file
    """
    glint_emit_all(
        name = name,
        testonly = True,
        spec = spec,
        tables = [table + ".c" for table in tables],
        rows = [" ".join([variant["name"] for variant in variants]) for variants in tables.values()],
        tags = ["manual"],
    )
    for table in tables:
        glint_core_library(
            name = table,
            testonly = True,
            srcs = [table + ".c"],
            tags = ["manual"],
            deps = ["//lib:table_headers"],
        )

def variant_library(name, variants, spec = "@glint_spec//:spec", package = "//generated", pack = False, modules = False, table = None, **kwargs):
    """A whole library with only the given variants in it: the core, their table and their kernels, in one archive.

    Args:
      name: the target; depend on it and include "lib/glint.h"
      variants: elements of VARIANTS
      spec: the label of the spec file
      package: where glint_kernels() made their targets
      pack: as small as it can be; it takes a second or two
      modules: the GPU kernels of an architecture are one module, which a context loads at once, in place of one a variant
      table: the label of the dispatch table; none: it is made here
      **kwargs: testonly, target_compatible_with, visibility and the like
    """
    if not table:
        table = name + "_table"
        variant_table(table, variants, spec, **kwargs)
    for_gpus = HAS_NVCC and [variant for variant in variants if variant["family"] != "cpu"]
    of_gpus = ([package + ":" + variant["name"] for variant in for_gpus] if for_gpus else []) + gpu_rows(variants, package + ":")
    if modules and for_gpus:
        glint_gpu_modules(name = name + "_modules", kernels = of_gpus, **kwargs)
        of_gpus = [name + "_modules"]
    of_cpus = [variant for variant in variants if variant["family"] == "cpu"]
    glint_archive(
        name = name,
        pack = pack,
        hdrs = ["//lib:headers"],
        deps = ["//lib:core", table] + (["//lib:cuda"] if for_gpus else []) + by_cpu(of_cpus, package + ":") + of_gpus,
        **kwargs
    )

# ---- golden files ----------------------------------------------------------------------------------------------------

def glint_golden(variants, spec):
    """golden_test compares the sources of some variants with golden/*, and update_golden renews those.

    Args:
      variants: VARIANTS of the spec's repository
      spec: the label of the spec file
    """
    emitted = ["golden/emitted/" + source_of(variant) for variant in variants]
    glint_emit_all(
        name = "golden_sources",
        kernels = emitted,
        spec = spec,
        variants = [variant["name"] for variant in variants],
    )
    arguments = ["$(rootpath %s)" % name for name in emitted]
    native.sh_test(
        name = "golden_test",
        size = "small",
        srcs = ["//tools:golden.sh"],
        args = ["test"] + arguments,
        data = emitted + native.glob(["golden/*.c", "golden/*.cu"]),
        target_compatible_with = without_sanitizer() + not_cross(),
    )
    native.sh_binary(
        name = "update_golden",
        srcs = ["//tools:golden.sh"],
        args = ["update"] + arguments,
        data = emitted,
    )
