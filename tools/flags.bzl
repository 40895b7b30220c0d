"""Compiler flags, in one place."""

# Every C file of ours, emitted kernels included.
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]

# Which products and sums are fused is written in the source (glint_fma of lib/cpu/vector.h) and left to no compiler.
NO_CONTRACTION = ["-ffp-contract=off"]

# What is put into the archive: it may call nothing but memcpy, memmove, memset, memcmp and dlopen's family, so neither
# the stack protector's nor the fortified calls.
LIBRARY = STRICT + NO_CONTRACTION + [
    "-fvisibility=hidden",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-fno-common",
    "-fno-ident",
]

# Kernels: errno and floating-point traps are not used. Never -ffast-math: infinities and NaN count. The generator adds
# what an instruction set needs: `copts` of a variant.
KERNEL = LIBRARY + [
    "-O2",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fomit-frame-pointer",
]
