/* The system's permission to use AMX: the one system call that Glint has, and so in libglint_pool.a. */
#include "lib/glint.h"

#if defined(__x86_64__) && defined(__linux__)
enum { /* asm/unistd_64.h; asm/prctl.h; a bit of XCR0, Intel SDM, volume 1, 13.1 */
       SYSTEM_CALL_ARCH_PRCTL = 158,
       ARCH_GET_XCOMP_PERM = 0x1022,
       ARCH_REQ_XCOMP_PERM = 0x1023,
       XFEATURE_XTILEDATA = 18,
};

/* Not through the C library: syscall() sets errno, which a firmware may have no room for. */
static long arch_prctl(long code, uint64_t argument)
{
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"((long)SYSTEM_CALL_ARCH_PRCTL), "D"(code), "S"(argument)
                     : "rcx", "r11", "memory");
    return result;
}

static uint32_t permitted(void)
{
    uint64_t granted = 0;
    (void)arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA); /* what came of it is asked, not taken from the result */
    if (arch_prctl(ARCH_GET_XCOMP_PERM, (uint64_t)(uintptr_t)&granted) != 0)
        return 0;
    return (uint32_t)(granted >> XFEATURE_XTILEDATA & 1u);
}
#else
static uint32_t permitted(void)
{
    return 0;
}
#endif

enum glint_status glint_permit_amx(struct glint_options *options)
{
    if (!options)
        return GLINT_NULL_ARGUMENT;
    if (options->struct_size != sizeof *options)
        return GLINT_STRUCT_SIZE;
    options->amx = permitted();
    return options->amx ? GLINT_OK : GLINT_NO_AMX;
}
