/* The names of the instruction sets. */
#include "lib/cpu/isa.h"

const char *glint_isa_name(uint32_t isa)
{
    switch (isa) {
#define NAME(name, id) \
    case id: return #name;
        GLINT_CPU_ISAS(NAME)
#undef NAME
    default: return NULL;
    }
}
