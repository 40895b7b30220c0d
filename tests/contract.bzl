"""The tests of the API's promises (glint.h, README.md): refusals, guard pages, allocation, the archive, the tar, the pool, the self test."""

load("@glint_spec//:variants.bzl", "SPEC", "VARIANTS")
load("@local_cuda//:cuda.bzl", "HAS_NVCC")
load("//tools:defs.bzl", "by_cpu", "glint_cc_library", "glint_cc_test", "not_cross", "without_sanitizer")
load("//tools:kernel.bzl", "glint_emit_table")
load("//tools:lua.bzl", "lua_test")

def _promise(name, src, deps = [], library = ["//:glint"], **kwargs):
    glint_cc_test(
        name = name,
        srcs = [src],
        deps = deps + [":contract_world", ":contract_suite"] + library,
        **kwargs
    )

def _script(name, src, file, args = [], **kwargs):
    # a filegroup, because the runfiles of a test take the files of one, and of other rules only their runfiles
    native.filegroup(
        name = name + "_file",
        testonly = True,
        srcs = [file],
    )
    native.sh_test(
        name = name,
        size = "small",
        srcs = [src],
        args = args + ["$(location :%s_file)" % name],
        data = [":%s_file" % name],
        **kwargs
    )

def promise_tests():
    """All of them, in the package //tests."""
    glint_cc_library(
        name = "contract_suite",
        testonly = True,
        srcs = ["contract_suite.c"],
        hdrs = ["contract_suite.h"],
        deps = ["@check//:check"],
    )
    glint_cc_library(
        name = "contract_world",
        testonly = True,
        srcs = ["contract_world.c"],
        hdrs = [
            "contract_suite.h",
            "contract_world.h",
        ],
        visibility = ["//tests:__subpackages__"],
        deps = ["//lib:header"],
    )
    glint_cc_library(
        name = "refusal_oracle",
        testonly = True,
        srcs = ["refusal_oracle.c"],
        hdrs = ["refusal_oracle.h"],
        visibility = ["//tests:__subpackages__"],
        deps = [":contract_world"],
    )

    # The reference in double, for the fuzz target.
    glint_cc_library(
        name = "contract_reference",
        testonly = True,
        srcs = [
            "half.c",
            "ref.c",
        ],
        hdrs = [
            "half.h",
            "ref.h",
        ],
        visibility = ["//tests:__subpackages__"],
        deps = ["//lib:header"],
    )

    # Refusals: what glint.h says of each field and argument, and that nothing changes.
    _promise("refusal_plan_test", "refusal_plan.c", [":refusal_oracle"], size = "medium", tags = ["no-tsan"])
    _promise("refusal_call_test", "refusal_call.c", [":refusal_oracle"], size = "medium", tags = ["no-tsan"])
    _promise("explain_test", "explain.c", [":refusal_oracle"], tags = ["no-tsan"])

    # What is promised of correct calls.
    _promise("contract_context_test", "contract_context.c", tags = ["no-tsan"])
    _promise("contract_plan_test", "contract_plan.c", size = "medium", tags = ["no-tsan"])
    _promise("contract_stack_test", "contract_stack.c", linkopts = ["-pthread"], size = "medium", tags = ["no-tsan"])
    _promise(
        "contract_threads_test",
        "contract_threads.c",
        library = ["//lib:glint_pool", "//:glint"],
        linkopts = ["-pthread"],
        size = "medium",
    )
    _promise("pool_test", "pool_test.c", library = ["//lib:glint_pool", "//:glint"], linkopts = ["-pthread"], size = "medium")
    _promise("guard_test", "guard.c", size = "large", tags = ["no-tsan"])
    _promise("alloc_test", "alloc.c", size = "medium", tags = ["no-tsan"])

    # The self test, over a table that the test may break.
    glint_emit_table(
        name = "selftest_table_source",
        testonly = True,
        out = "selftest_table.c",
        spec = "@glint_spec//:spec",
        variants = by_cpu(VARIANTS),
    )
    glint_cc_library(
        name = "selftest_table",
        testonly = True,
        srcs = ["selftest_table.c"],
        copts = [
            "-Dglint_variants=genuine_variants",
            "-Dglint_variants_count=genuine_variants_count",
        ],
        deps = ["//lib:table_headers"],
    )
    _promise(
        "selftest_test",
        "selftest.c",
        library = [":selftest_table"] + by_cpu(VARIANTS, "//generated:") + ["//lib:glint_core"],
        size = "medium",
        tags = ["no-tsan"],
    )

    # The archive and the tar, from outside.
    outside = without_sanitizer() + not_cross()
    _script("symbols_test", "symbols.sh", "//lib:glint", ["library"], target_compatible_with = without_sanitizer())
    _script("symbols_pool_test", "symbols.sh", "//lib:glint_pool", ["pool"], target_compatible_with = without_sanitizer())
    gpu_variants = [variant for variant in VARIANTS if variant["family"] != "cpu" and HAS_NVCC]
    archs = {arch: True for variant in gpu_variants for arch in variant["archs"]}
    lua_test(
        name = "architectures_test",
        src = "architectures.lua",
        args = ["$(rootpath :architectures_test_file)"] + select({
            "@platforms//cpu:" + cpu: [cpu]
            for cpu in ["x86_64", "aarch64"]
        }) + [str(number) for number in [len(gpu_variants)] + sorted(archs.keys())],
        data = [":architectures_test_file"],
    )
    if SPEC == "spec/attention.lua":  # of the default spec: CPU kernels and SASS for three architectures
        lua_test(
            name = "archive_size_test",
            src = "archive_size.lua",
            args = ["$(rootpath :architectures_test_file)", "25000000"],
            data = [":architectures_test_file"],
            target_compatible_with = without_sanitizer(),
        )
    native.filegroup(
        name = "architectures_test_file",
        testonly = True,
        srcs = ["//lib:glint"],
    )
    _script("symbols_selfcheck_test", "symbols_selfcheck.sh", "symbols.sh", target_compatible_with = outside)
    _script("dist_test", "dist.sh", "//:dist", target_compatible_with = outside)
