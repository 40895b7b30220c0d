/* In place of lib/cpu/probe.c: a machine that has AVX-512 BF16, which is fast or not. */
#include "lib/cpu/cpu.h"

extern uint32_t slow_isas;
uint32_t slow_isas = 0;

uint32_t glint_cpu_probe(void)
{
    return 1u << GLINT_ISA_X86_64 | 1u << GLINT_ISA_X86_64_V3 | 1u << GLINT_ISA_X86_64_V4 | 1u << GLINT_ISA_X86_64_BF16;
}

uint32_t glint_cpu_slow(void)
{
    return slow_isas;
}
