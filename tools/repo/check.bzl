"""@check//:check is the system's Check, the unit test framework, found through pkg-config.

A cross compiler has no Check to link: there the tests are compiled with GLINT_TESTS_WITHOUT_CHECK.
"""

_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_library")

# The header is in the compiler's own include path.
cc_library(
    name = "check",
    defines = select({{
        "@platforms//cpu:{cpu}": {defines},
        "//conditions:default": ["GLINT_TESTS_WITHOUT_CHECK"],
    }}),
    linkopts = select({{
        "@platforms//cpu:{cpu}": {linkopts},
        "//conditions:default": [],
    }}),
    visibility = ["//visibility:public"],
)
"""

def _local_check_impl(ctx):
    pkg_config = ctx.which("pkg-config")
    if not pkg_config:
        fail("pkg-config is needed to find Check. Debian and Ubuntu: apt install pkg-config")
    result = ctx.execute([pkg_config, "--print-errors", "--cflags", "--libs", "check"])
    if result.return_code != 0:
        fail("Check, the unit test framework, was not found by pkg-config. Debian and Ubuntu: apt install check\n" + result.stderr)
    defines, linkopts = [], []
    for flag in result.stdout.split(" "):
        flag = flag.strip()
        if flag.startswith("-D"):
            defines.append(flag[2:])
        elif flag.startswith("-I"):
            fail("Check's header is in %s, which is outside of the compiler's include path: this build expects the system's package" % flag[2:])
        elif flag:
            linkopts.append(flag)
    cpu = ctx.execute(["uname", "-m"]).stdout.strip()
    ctx.file("BUILD", _BUILD.format(cpu = cpu, defines = repr(defines), linkopts = repr(linkopts)), executable = False)

local_check = repository_rule(
    implementation = _local_check_impl,
    local = True,
    configure = True,
    environ = ["PATH", "PKG_CONFIG_PATH"],
)
