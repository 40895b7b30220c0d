"""@local_host//:platform is this machine: its CPU, and which instruction sets that CPU can run.

A test of kernels for an instruction set that the machine lacks is incompatible with this platform; Bazel lists it as SKIPPED.
@local_host//:compiler.bzl has GARBAGE_REGISTERS: the flag with which variables that nobody set hold garbage, where the compiler has it
(gcc 12 and newer, clang).
"""

load(":main.bzl", "main_label")

_BUILD = """
platform(
    name = "platform",
    constraint_values = [
        "@platforms//cpu:{cpu}",
        "@platforms//os:linux",
    ] + {isas},
    visibility = ["//visibility:public"],
)
"""

# The microarchitecture levels of the x86-64 psABI, and what AMX adds, as the kernel spells them. Each needs those
# before it.
_LEVELS = [
    ("x86_64_v3", ["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"]),
    ("x86_64_v4", ["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]),
    ("x86_64_bf16", ["avx512_bf16"]),
    ("x86_64_amx", ["amx_tile", "amx_bf16"]),
]

_GARBAGE = "-ftrivial-auto-var-init=pattern"

def _local_host_impl(ctx):
    cpuinfo = ctx.execute(["grep", "-m1", "^flags", "/proc/cpuinfo"]).stdout
    flags = {flag: True for flag in cpuinfo.split(" ")}
    isas = []
    for isa, needed in _LEVELS:
        if [flag for flag in needed if flag not in flags]:
            break
        isas.append(main_label("//tools/isa:" + isa))
    cpu = ctx.execute(["uname", "-m"]).stdout.strip()
    compiler = ctx.os.environ.get("CC", "gcc")
    knows = ctx.execute([compiler, _GARBAGE, "-x", "c++", "-fsyntax-only", "/dev/null"]).return_code == 0
    ctx.file("compiler.bzl", "GARBAGE_REGISTERS = %r\n" % ([_GARBAGE] if knows else []), executable = False)
    ctx.file("BUILD", _BUILD.format(cpu = cpu, isas = repr(isas)), executable = False)

local_host = repository_rule(
    implementation = _local_host_impl,
    local = True,
    configure = True,
)
