/* In place of lib/cpu/probe.c and lib/permit.c: a CPU with every instruction set, so that a plan can be made of each
 * row. Nothing runs. */
#include "lib/cpu/cpu.h"

uint32_t glint_cpu_probe(void)
{
    return UINT32_MAX;
}

uint32_t glint_cpu_slow(void)
{
    return 0;
}

enum glint_status glint_permit_amx(struct glint_options *options)
{
    options->amx = 1;
    return GLINT_OK;
}
