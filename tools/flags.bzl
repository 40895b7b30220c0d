"""Compiler flags, in one place."""

# Every C file of ours, emitted kernels included.
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]

# What is put into the archive: it may call nothing but memcpy, memmove, memset, memcmp and dlopen's family, so neither the stack
# protector's nor the fortified calls. The sanitizers need none of this changed.
LIBRARY = STRICT + [
    "-fvisibility=hidden",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-fno-common",
    "-fno-ident",
]

# Kernels: products and sums may fuse; errno and floating-point traps are not used. Never -ffast-math: infinities and NaN count.
KERNEL = LIBRARY + [
    "-O2",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fomit-frame-pointer",
]

# What each instruction set of the CPU family adds.
ISA = {
    "x86_64": [],
    "x86_64_v3": ["-march=x86-64-v3"],
    "x86_64_v4": ["-march=x86-64-v4"],
    "aarch64": ["-march=armv8-a", "-mno-outline-atomics"],
}

# The Bazel constraint on the target's CPU that compiling for an instruction set needs.
ISA_CPU = {
    "x86_64": "@platforms//cpu:x86_64",
    "x86_64_v3": "@platforms//cpu:x86_64",
    "x86_64_v4": "@platforms//cpu:x86_64",
    "aarch64": "@platforms//cpu:aarch64",
}
