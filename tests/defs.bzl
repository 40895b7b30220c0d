"""One test a variant, and suites over them.

    ./bazelw test //tests:fwd_f32_d64_causal__cpu_x86_64_v3_m64n96
    ./bazelw test //tests:d80                  all of a head dim; also by dtype (f32), pass (bwd), and all_variants
"""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("//tests/hostsim:hostsim.bzl", "simulated_variant_test")
load("//tests/hostsim/deal:rooms.bzl", "dealt_to", "formats_only")
load("//tests/hostsim/ptx:ptx.bzl", "ptx_variant_tests")
load("//tools:defs.bzl", "by_cpu", "glint_cc_binary", "glint_cc_test", "needs_nvcc", "not_cross", "runs", "test_tables", "variant_library")

# The reference and the comparisons run over every number of every shape: let the compiler vectorise them, and never
# fuse.
FAST = ["-O3", "-ffp-contract=off"]

# What runs the checks (tests/checks/backend.h).
def _backend(variant):
    return "//tests/checks:backend_host" if variant["family"] == "cpu" else "//tests/cuda:backend_cuda"

def _key(variant):
    computes = variant["name"].partition("__")[0].partition("_")[2]  # all axes but the pass
    return [computes, variant["family"], variant.get("isa"), variant.get("math")]

def _linked(variant, variants):
    """The variant, and for a backward one the forward ones that its derivatives are taken of: of the CPU's one, of a GPU's all, as which
    of them the device can run is known there."""
    if variant["pass"] == "fwd":
        return [variant]
    forward = [other for other in variants if other["pass"] == "fwd" and _key(other) == _key(variant)]
    return [variant] + (forward[:1] if variant["family"] == "cpu" else forward)

# Simulated variants and variants of a CPU have their checks dealt out (tests/hostsim/deal). Two kinds share checks of rules
# instead (tests/checks/variant_checks.c): variants whose PTX is simulated, and variants of a CPU under some sanitizers (_dealt).
# Of variants that differ by their head dim and tile alone one runs a rule, and each runs everything else. Which one it is moves
# on from kind to kind. `--test_arg=--whole` runs all. What a GPU's bundle runs is always whole.
def _size(part):
    """Is a part of a name a head dim, a tile or its stages: d64, m128n64, s3?"""
    return part[1:2].isdigit() and (part[0] in "ds" or (part[0] == "m" and "n" in part))

def _kind(name):
    return "_".join([part for part in name.split("_") if not _size(part)])

def _shares(variants, most):
    """The argument --share=I/N of each variant that shares its checks out, by name; N is at most `most`."""
    groups = {}
    for variant in variants:
        groups.setdefault((_kind(variant["name"]), formats_only(variant, variants)), []).append(variant["name"])
    return {
        name: ["--share=%d/%d" % ((i + turn) % min(most, len(group)), min(most, len(group)))]
        for turn, group in enumerate(groups.values())
        for i, name in enumerate(group)
        if len(group) > 1
    }

def _dealt(checks, share):
    """The arguments and the data of a CPU variant's test. ThreadSanitizer looks at the checks that use threads, which each variant has.
    The other sanitizers see all variants of the library's spec, and few of other specs."""
    if not checks:
        return share, []
    whole = ["//tools:thread_sanitizer"] + (["//tools:address_sanitizer", "//tools:undefined_sanitizer", "//tools:memory_sanitizer"] if native.package_name() != "tests" else [])
    return (
        select(dict({setting: share for setting in whole}, **{"//conditions:default": ["--dealt=$(rootpath %s)" % checks]})),
        select(dict({setting: [] for setting in whole}, **{"//conditions:default": [checks]})),
    )

def _linked_library(name, table, variants, spec = None, package = "//generated", **kwargs):
    """variant_library() of variants of a CPU for one test, which links their objects as they are: //tests/archive has the tests of
    archives.

    Args:
      name: the target
      table: the label of their dispatch table
      variants: elements of VARIANTS
      spec: as variant_library()'s; the table is made already
      package: where glint_kernels() made their targets
      **kwargs: target_compatible_with
    """
    cc_library(
        name = name,
        testonly = True,
        linkstatic = True,
        tags = ["manual"],
        deps = ["//lib:core", table] + by_cpu(variants, package + ":"),
        **kwargs
    )

def variant_tests(variants, simulated = "//tests/hostsim", ptx = [], **kwargs):
    """One test a variant, by its name, in a library that has only this variant; and suites d<head_dim>, <dtype>, <pass>, all_variants.

    Args:
      variants: VARIANTS of a spec's repository
      simulated: where simulated_kernels() made the targets of that spec
      ptx: names of tests of PTX that are run with all others; the rest is manual
      **kwargs: spec and package of variant_library(), for another spec than the library's
    """
    suites = {}
    shares = _shares(variants, len(variants))
    ptx_shares = _shares(variants, 3)  # few of a kind have a test of their PTX
    linked = {variant["name"]: _linked(variant, variants) for variant in variants}
    test_tables("tables", {name + "__table": linked[name] for name in linked}, kwargs.get("spec", "@glint_spec//:spec"))
    for variant in variants:
        name = variant["name"]
        table = name + "__table"
        of_cpu = variant["family"] == "cpu"
        if of_cpu:
            _linked_library(name + "__library", table, linked[name], target_compatible_with = runs(variant), **kwargs)
        else:
            variant_library(
                name = name + "__library",
                testonly = True,
                tags = ["manual"],
                target_compatible_with = runs(variant),
                table = table,
                variants = linked[name],
                **kwargs
            )
        args, data = _dealt(of_cpu and dealt_to(native.package_name(), variant), shares.get(name, []))
        glint_cc_test(
            name = name,
            size = "medium",  # under qemu
            args = ["--variant=" + name] + args,
            data = data,
            tags = ["threads"] if of_cpu else [],
            target_compatible_with = runs(variant),
            deps = [ # in the order of linking
                "//tests/checks:variant_test",
                _backend(variant),
                name + "__library",
            ],
        )
        if not of_cpu:
            simulated_variant_test(variant, linked[name], dealt = dealt_to(native.package_name(), variant), simulated = simulated, table = table, **kwargs)
            suites.setdefault("hostsim", []).append(name + "__hostsim")
            suites.setdefault("ptx", []).extend(ptx_variant_tests(
                variant,
                linked[name],
                ptx,
                only = ["--formats"] if formats_only(variant, variants) else ptx_shares.get(name, []),
                simulated = simulated,
                table = table,
                **kwargs
            ))
        for suite in ["all_variants", variant["pass"], variant["dtype"], "d%d" % variant["head_dim"]]:
            suites.setdefault(suite, []).append(name)
    for suite in suites:
        native.test_suite(
            name = suite,
            tags = ["manual"] if suite == "ptx" else [],
            tests = suites[suite],
        )

def device_test(name, variants, **kwargs):
    """NAME --variant=VARIANT: all checks of any GPU variant of a spec, for a machine with only a driver, as //tests/cuda:variant_test.

    Args:
      name: the program
      variants: VARIANTS of the spec's repository; those of CPUs are left out
      **kwargs: spec and package of variant_library()
    """
    variant_library(
        name = name + "__library",
        testonly = True,
        tags = ["manual"],
        target_compatible_with = needs_nvcc() + not_cross(),
        variants = [variant for variant in variants if variant["family"] != "cpu"],
        **kwargs
    )
    glint_cc_binary(
        name = name,
        testonly = True,
        srcs = ["//tests/support:cases_plain.c"],
        copts = ["-DGLINT_TESTS_WITHOUT_CHECK"],
        linkopts = ["-Wl,--as-needed"],
        tags = ["manual"],
        target_compatible_with = needs_nvcc() + not_cross(),
        deps = [  # in the order of the linker
            "//tests/checks:variant_test",
            "//tests/cuda:backend_cuda",
            name + "__library",
        ],
    )
