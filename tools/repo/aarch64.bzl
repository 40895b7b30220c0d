"""@local_aarch64//:toolchain compiles for AArch64 on another machine, with Debian's cross compiler; `--config=aarch64` uses it.

What it compiles runs under qemu-user (@local_aarch64//:run). Without the cross compiler the toolchain exists, and says what to install when used.
"""

_BUILD = """
load("@bazel_tools//tools/cpp:unix_cc_toolchain_config.bzl", "cc_toolchain_config")
load("@rules_cc//cc:defs.bzl", "cc_toolchain")

package(default_visibility = ["//visibility:public"])

filegroup(name = "empty")

filegroup(
    name = "missing",
    srcs = glob(["missing.sh"], allow_empty = True),
)

sh_binary(
    name = "run",
    srcs = ["run.sh"],
)

cc_toolchain_config(
    name = "config",
    abi_libc_version = "local",
    abi_version = "local",
    compile_flags = ["-fstack-protector", "-Wall", "-fno-omit-frame-pointer"],
    compiler = "gcc",
    cpu = "aarch64",
    cxx_builtin_include_directories = {includes},
    dbg_compile_flags = ["-g"],
    host_system_name = "local",
    link_flags = ["-Wl,-z,relro,-z,now", "-pass-exit-codes"],
    link_libs = ["-lm"],
    opt_compile_flags = ["-g0", "-O2", "-DNDEBUG", "-ffunction-sections", "-fdata-sections"],
    opt_link_flags = ["-Wl,--gc-sections"],
    target_libc = "glibc",
    target_system_name = "aarch64-linux-gnu",
    tool_paths = {tools},
    toolchain_identifier = "local_aarch64",
    unfiltered_compile_flags = [
        "-fno-canonical-system-headers",
        "-Wno-builtin-macro-redefined",
        "-D__DATE__=\\"redacted\\"",
        "-D__TIMESTAMP__=\\"redacted\\"",
        "-D__TIME__=\\"redacted\\"",
    ],
)

cc_toolchain(
    name = "cc_toolchain",
    all_files = ":missing",
    ar_files = ":missing",
    as_files = ":missing",
    compiler_files = ":missing",
    dwp_files = ":empty",
    linker_files = ":missing",
    objcopy_files = ":empty",
    strip_files = ":empty",
    supports_param_files = 1,
    toolchain_config = ":config",
    toolchain_identifier = "local_aarch64",
)

toolchain(
    name = "toolchain",
    exec_compatible_with = {exec_cpu},
    target_compatible_with = [
        "@platforms//cpu:aarch64",
        "@platforms//os:linux",
    ],
    toolchain = ":cc_toolchain",
    toolchain_type = "@bazel_tools//tools/cpp:toolchain_type",
)
"""

_RUN = """#!/bin/sh
# Runs an AArch64 program under qemu-user, with the cross compiler's C library; a script of this machine as it is.
case $(od -An -tx1 -j18 -N2 "$1") in
*"b7 00"*) exec {qemu} -L {sysroot} "$@" ;;
*) exec "$@" ;;
esac
"""

_MISSING = """#!/bin/sh
echo "--config=aarch64 needs a cross compiler. Debian and Ubuntu: apt install g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" >&2
exit 1
"""

_PREFIX = "aarch64-linux-gnu-"
_TOOLS = ["ar", "cpp", "gcc", "gcov", "ld", "nm", "objcopy", "objdump", "strip"]

def _include_directories(ctx, gcc):
    text = ctx.execute([gcc, "-E", "-xc", "-v", "/dev/null"]).stderr
    text = text.partition("#include <...> search starts here:\n")[2].partition("End of search list")[0]
    directories = []
    for line in text.splitlines():
        if line.strip():
            directories.append(str(ctx.path(line.strip()).realpath))
    return directories

def _local_aarch64_impl(ctx):
    gcc = ctx.which(_PREFIX + "gcc")
    tools = {}
    for tool in _TOOLS:
        tools[tool] = str(ctx.which(_PREFIX + tool) or "missing.sh") if gcc else "missing.sh"
    tools["llvm-cov"] = "/bin/false"  # the configuration asks for the name
    if not gcc:
        ctx.file("missing.sh", _MISSING)
    ctx.file("run.sh", _RUN.format(
        qemu = ctx.which("qemu-aarch64") or ctx.which("qemu-aarch64-static") or "qemu-aarch64",
        sysroot = "/usr/aarch64-linux-gnu",
    ))
    native = ctx.execute(["uname", "-m"]).stdout.strip() == "aarch64"
    ctx.file("BUILD", _BUILD.format(
        includes = repr(_include_directories(ctx, gcc) if gcc else []),
        tools = repr(tools),
        # On an AArch64 machine the system's own compiler is the one to use: this toolchain never matches there.
        exec_cpu = repr(["@platforms//cpu:x86_32" if native else "@platforms//os:linux"]),
    ))

local_aarch64 = repository_rule(
    implementation = _local_aarch64_impl,
    local = True,
    configure = True,
    environ = ["PATH"],
)
