/* The instruction sets of the CPU family, lowest first within an architecture: X(name, id). The name is that of a spec
 * and of a variant's name; the id is enum glint_isa's. A new one is a line here and in glint.h, its detection in
 * lib/cpu/probe.c, and its line in gen/families/cpu.lua, whose tests compare the lists. */
#ifndef GLINT_CPU_ISA_H
#define GLINT_CPU_ISA_H

#include "lib/glint.h"

#define GLINT_CPU_ISAS_X86_64(X)          \
    X(x86_64, GLINT_ISA_X86_64)           \
    X(x86_64_v3, GLINT_ISA_X86_64_V3)     \
    X(x86_64_v4, GLINT_ISA_X86_64_V4)     \
    X(x86_64_bf16, GLINT_ISA_X86_64_BF16) \
    X(x86_64_amx, GLINT_ISA_X86_64_AMX)

#define GLINT_CPU_ISAS_AARCH64(X) X(aarch64, GLINT_ISA_AARCH64)

#define GLINT_CPU_ISAS(X) GLINT_CPU_ISAS_X86_64(X) GLINT_CPU_ISAS_AARCH64(X)

#endif
