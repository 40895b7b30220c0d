/* For probe_qemu.sh: the instruction sets that the library sees, a line each, and whether a context opens on them. */
#include <stdio.h>

#include "lib/cpu/cpu.h"
#include "lib/cpu/isa.h"

int main(void)
{
#define SEEN(name, id)                                   \
    if ((glint_cpu_probe() & 1u << (uint32_t)(id)) != 0) \
        puts(#name);
    GLINT_CPU_ISAS_X86_64(SEEN)
    return 0;
}
