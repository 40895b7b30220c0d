/* In place of lib/cpu/probe.c and lib/permit.c: a machine that has AMX and permits it, so that its rows of the table
 * are taken. */
#include "lib/cpu/cpu.h"

uint32_t glint_cpu_probe(void)
{
    return 1u << GLINT_ISA_X86_64 | 1u << GLINT_ISA_X86_64_V3 | 1u << GLINT_ISA_X86_64_V4 | 1u << GLINT_ISA_X86_64_AMX;
}

enum glint_status glint_permit_amx(struct glint_options *options)
{
    options->amx = 1;
    return GLINT_OK;
}

uint32_t glint_cpu_slow(void)
{
    return 0;
}
