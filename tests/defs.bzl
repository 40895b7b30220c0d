"""The checks of the variants: one test a variant, suites over them, and the differential test over all.

    ./bazelw test //tests:fwd_f32_d64_causal__cpu_x86_64_v3_m64n96
    ./bazelw test //tests:d80                  all of a head dim; also by dtype (f32), pass (bwd), and all_variants
"""

load("//tests/hostsim:hostsim.bzl", "simulated_variant_test")
load("//tools:defs.bzl", "glint_cc_library", "glint_cc_test", "not_cross", "runs", "variant_library")

# The reference and the comparisons run over every number of every shape: let the compiler vectorise them, and never fuse.
_FAST = ["-O3", "-ffp-contract=off"]

# The reference is one thread's, on memory of its own: ThreadSanitizer, under which fp64 takes ten times as long, has nothing to see there.
_ALONE = select({
    "//tools:thread_sanitizer": ["-fno-sanitize=thread"],
    "//conditions:default": [],
})

# What runs the checks (tests/backend.h).
def _backend(variant):
    return "//tests:backend_host" if variant["family"] == "cpu" else "//tests/cuda:backend_cuda"

def check_libraries():
    """The libraries of the checks, in the package //tests."""
    glint_cc_library(
        name = "reference",
        testonly = True,
        srcs = [
            "half.c",
            "plain.c",
            "ref.c",
        ],
        hdrs = [
            "half.h",
            "rand.h",
            "ref.h",
        ],
        copts = _FAST + _ALONE,
        visibility = ["//visibility:public"],
        deps = ["//lib:header"],
    )
    glint_cc_library(
        name = "checks",
        testonly = True,
        srcs = [
            "accuracy.c",
            "check.c",
            "executors.c",
            "experiment.c",
            "far.c",
            "gradient_check.c",
            "laws.c",
            "runner.c",
            "runner_check.c",
            "runner_plain.c",
            "special_values.c",
            "variant_checks.c",
        ],
        hdrs = [
            "accuracy.h",
            "backend.h",
            "check.h",
            "executors.h",
            "experiment.h",
            "runner.h",
        ],
        copts = _FAST,
        linkopts = ["-pthread"],
        visibility = ["//tests:__subpackages__"],
        deps = [
            ":reference",
            "//lib:header",
            "@check//:check",
        ],
    )
    glint_cc_library(
        name = "host_memory",
        testonly = True,
        srcs = ["host_memory.c"],
        hdrs = ["backend_host.h"],
        deps = [":checks"],
    )
    glint_cc_library(
        name = "backend_host",
        testonly = True,
        srcs = ["backend_host.c"],
        visibility = ["//tests:__subpackages__"],
        deps = [":host_memory"],
    )
    glint_cc_library(
        name = "variant_test",
        testonly = True,
        srcs = ["variant_test.c"],
        visibility = ["//tests:__subpackages__"],
        deps = [":checks"],
    )

def _key(variant):
    return [variant["dtype"], variant["head_dim"], variant["mask"], variant["family"], variant.get("isa"), variant.get("math")]

def _linked(variant, variants):
    """The variant, and for a backward one the forward ones that its derivatives are taken of: of the CPU's one, of a GPU's all, as which
    of them the device can run is known there."""
    if variant["pass"] == "fwd":
        return [variant]
    forward = [other for other in variants if other["pass"] == "fwd" and _key(other) == _key(variant)]
    return [variant] + (forward[:1] if variant["family"] == "cpu" else forward)

def variant_tests(variants, simulated = "//tests/hostsim", **kwargs):
    """One test a variant, by its name, in a library that has only this variant; and suites d<head_dim>, <dtype>, <pass>, all_variants.

    Args:
      variants: VARIANTS of a spec's repository
      simulated: where simulated_kernels() made the targets of that spec
      **kwargs: spec and package of variant_library(), for another spec than the library's
    """
    suites = {}
    for variant in variants:
        name = variant["name"]
        variant_library(
            name = name + "__library",
            testonly = True,
            tags = ["manual"],
            target_compatible_with = runs(variant),
            variants = _linked(variant, variants),
            **kwargs
        )
        glint_cc_test(
            name = name,
            args = ["--variant=" + name],
            target_compatible_with = runs(variant),
            deps = [ # in the order of linking
                "//tests:variant_test",
                _backend(variant),
                name + "__library",
            ],
        )
        if variant["family"] != "cpu":
            simulated_variant_test(variant, _linked(variant, variants), simulated = simulated, **kwargs)
            suites.setdefault("hostsim", []).append(name + "__hostsim")
        for suite in ["all_variants", variant["pass"], variant["dtype"], "d%d" % variant["head_dim"]]:
            suites.setdefault(suite, []).append(name)
    for suite in suites:
        native.test_suite(
            name = suite,
            tests = suites[suite],
        )

def check_tests():
    """The tests that are not of one variant, in the package //tests."""
    glint_cc_test(
        name = "differential",
        size = "medium",  # under qemu
        srcs = ["differential.c"],
        shard_count = 8,
        tags = ["no-tsan"],
        deps = [
            ":backend_host",
            "//:glint",
        ],
    )
    glint_cc_test(
        name = "differential_odd_dims",
        size = "medium",
        srcs = ["differential.c"],
        shard_count = 4,
        tags = ["no-tsan"],
        deps = [
            ":backend_host",
            "//generated/odd:glint",
        ],
    )
    glint_cc_test(
        name = "plan_rule",
        srcs = ["plan_rule.c"],
        target_compatible_with = not_cross(),
        deps = [
            "//lib:glint_core",
            "//lib:headers",
            "@check//:check",
        ],
    )
    glint_cc_test(
        name = "reference_selftest",
        srcs = ["reference_selftest.c"],
        deps = [":checks"],
    )
    glint_cc_test(
        name = "harness_selftest",
        size = "medium",  # under qemu over a minute
        srcs = [
            "harness_selftest.c",
            "stand_in.c",
            "stand_in.h",
        ],
        tags = ["no-tsan"],  # the threads of the checks run under it with every CPU variant
        deps = [":host_memory"],
    )
