/* Which instruction sets lib/cpu/probe.c sees on CPUs that the test makes up, and whether lib/permit.c takes a system's
 * word for AMX: CPUID, XGETBV and the system call are the test's. Every bit that CPUID and XCR0 have is taken away in
 * turn, and the instruction sets that need it go, and no other. */
#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#include "lib/cpu/cpu.h"
#include "lib/cpu/isa.h"
#include "tests/contract/suite.h"

static struct {
    uint32_t leaf1[4], leaf7[2][4], extended[4], vendor[4]; /* EAX EBX ECX EDX */
    uint32_t xcr0, last, last_extended;                     /* the last leaves that there are */
    uint64_t granted;                                       /* by the system, of XCR0 */
    long code[4], result;                                   /* of the system call, in their order */
    uint64_t asked;
    int calls;
} cpu;

static int cpuid(uint32_t leaf, uint32_t subleaf, uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
    const uint32_t *const from = leaf == 0                            ? cpu.vendor
                                 : leaf == 1 && subleaf == 0          ? cpu.leaf1
                                 : leaf == 7 && subleaf < 2           ? cpu.leaf7[subleaf]
                                 : leaf == 0x80000001 && subleaf == 0 ? cpu.extended
                                                                      : NULL;
    if (leaf > (leaf >= 0x80000000 ? cpu.last_extended : cpu.last))
        return 0;
    EXPECT(from != NULL, "leaf %#x, subleaf %u", leaf, subleaf);
    *a = from[0], *b = from[1], *c = from[2], *d = from[3];
    return 1;
}

/* Before the system saves any registers XGETBV is no instruction. */
static uint32_t xgetbv(void)
{
    EXPECT((cpu.leaf1[2] & 1u << 27) != 0, "XGETBV without OSXSAVE");
    return cpu.xcr0;
}

static long system_call(long code, uint64_t argument)
{
    EXPECT(cpu.calls < 4, "more system calls");
    cpu.code[cpu.calls++] = code;
    if (code == 0x1022 && cpu.result == 0) /* ARCH_GET_XCOMP_PERM */
        memcpy((void *)(uintptr_t)argument, &cpu.granted, sizeof cpu.granted);
    else if (code == 0x1023)
        cpu.asked = argument;
    return code == 0x1022 ? cpu.result : -1;
}

#define __get_cpuid(leaf, a, b, c, d) cpuid(leaf, 0, a, b, c, d)
#define __get_cpuid_count(leaf, subleaf, a, b, c, d) cpuid(leaf, subleaf, a, b, c, d)
#define __asm__      \
    xcr0 = xgetbv(); \
    if (0)           \
    __asm
#include "lib/cpu/probe.c"
#undef __asm__
#define __asm__                           \
    result = system_call(code, argument); \
    if (0)                                \
    __asm
#include "lib/permit.c"
#undef __asm__

/* ---- the oracle: the x86-64 psABI's levels, and the Intel SDM's names of bits ----------------------------------- */

enum { V1 = 1 << GLINT_ISA_X86_64, V3 = 1 << GLINT_ISA_X86_64_V3, V4 = 1 << GLINT_ISA_X86_64_V4 };
enum { BF16 = 1 << GLINT_ISA_X86_64_BF16, AMX = 1 << GLINT_ISA_X86_64_AMX };
enum { FROM_V3 = V3 | V4 | BF16 | AMX, FROM_V4 = V4 | BF16 | AMX, ALL = V1 | FROM_V3 };

static const struct {
    const char *name;
    uint32_t *word;
    int bit;
    uint32_t needed_by;
} bits[] = {
    {"SSE3", &cpu.leaf1[2], 0, FROM_V3},
    {"SSSE3", &cpu.leaf1[2], 9, FROM_V3},
    {"FMA", &cpu.leaf1[2], 12, FROM_V3},
    {"CMPXCHG16B", &cpu.leaf1[2], 13, FROM_V3},
    {"SSE4.1", &cpu.leaf1[2], 19, FROM_V3},
    {"SSE4.2", &cpu.leaf1[2], 20, FROM_V3},
    {"MOVBE", &cpu.leaf1[2], 22, FROM_V3},
    {"POPCNT", &cpu.leaf1[2], 23, FROM_V3},
    {"OSXSAVE", &cpu.leaf1[2], 27, FROM_V3},
    {"AVX", &cpu.leaf1[2], 28, FROM_V3},
    {"F16C", &cpu.leaf1[2], 29, FROM_V3},
    {"BMI1", &cpu.leaf7[0][1], 3, FROM_V3},
    {"AVX2", &cpu.leaf7[0][1], 5, FROM_V3},
    {"BMI2", &cpu.leaf7[0][1], 8, FROM_V3},
    {"LAHF", &cpu.extended[2], 0, FROM_V3},
    {"LZCNT", &cpu.extended[2], 5, FROM_V3},
    {"XMM", &cpu.xcr0, 1, FROM_V3},
    {"YMM", &cpu.xcr0, 2, FROM_V3},
    {"AVX512F", &cpu.leaf7[0][1], 16, FROM_V4},
    {"AVX512DQ", &cpu.leaf7[0][1], 17, FROM_V4},
    {"AVX512CD", &cpu.leaf7[0][1], 28, FROM_V4},
    {"AVX512BW", &cpu.leaf7[0][1], 30, FROM_V4},
    {"AVX512VL", &cpu.leaf7[0][1], 31, FROM_V4},
    {"opmask", &cpu.xcr0, 5, FROM_V4},
    {"ZMM's upper halves", &cpu.xcr0, 6, FROM_V4},
    {"ZMM 16 to 31", &cpu.xcr0, 7, FROM_V4},
    {"AVX512_BF16", &cpu.leaf7[1][0], 5, BF16 | AMX},
    {"AMX-BF16", &cpu.leaf7[0][3], 22, AMX},
    {"AMX-TILE", &cpu.leaf7[0][3], 24, AMX},
    {"TILECFG", &cpu.xcr0, 17, AMX},
    {"TILEDATA", &cpu.xcr0, 18, AMX},
};
enum { BITS = sizeof bits / sizeof bits[0] };

/* All bits that are needed, and with `rest` all others. */
static void whole(bool rest)
{
    memset(&cpu, 0, sizeof cpu);
    cpu.last = 7, cpu.last_extended = 0x80000001;
    if (rest) {
        memset(cpu.leaf1, 0xff, sizeof cpu.leaf1);
        memset(cpu.leaf7, 0xff, sizeof cpu.leaf7);
        memset(cpu.extended, 0xff, sizeof cpu.extended);
        cpu.xcr0 = UINT32_MAX;
    }
    for (int i = 0; i < BITS; i++)
        *bits[i].word |= 1u << bits[i].bit;
}

static void each_bit(void)
{
    whole(false);
    EXPECT(glint_cpu_probe() == ALL, "what is needed is not enough: %#x", glint_cpu_probe());
    for (int i = 0; i < BITS; i++) {
        whole(true);
        *bits[i].word &= ~(1u << bits[i].bit);
        EXPECT(glint_cpu_probe() == (ALL & ~bits[i].needed_by), "without %s: %#x", bits[i].name, glint_cpu_probe());
    }
    uint32_t *const words[] = {&cpu.leaf1[2], &cpu.leaf7[0][1], &cpu.leaf7[0][3], &cpu.leaf7[1][0], &cpu.extended[2], &cpu.xcr0};
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        whole(true);
        *words[w] = 0; /* all of one word */
        uint32_t gone = 0;
        for (int i = 0; i < BITS; i++)
            gone |= bits[i].word == words[w] ? bits[i].needed_by : 0;
        EXPECT(glint_cpu_probe() == (ALL & ~gone), "without word %zu: %#x", w, glint_cpu_probe());
    }
}

static void each_leaf(void)
{
    for (uint32_t last = 0; last <= 7; last++) {
        whole(true);
        cpu.last = last;
        EXPECT(glint_cpu_probe() == (last < 7 ? V1 : ALL), "leaves up to %u: %#x", last, glint_cpu_probe());
    }
    whole(true);
    cpu.last_extended = 0x80000000;
    EXPECT(glint_cpu_probe() == V1, "no leaf 0x80000001: %#x", glint_cpu_probe());
}

/* AMD's CPUs alone are fast in AVX-512 BF16. */
static void vendors(void)
{
    static const char names[][13] = {"AuthenticAMD", "GenuineIntel", "AuthenticIMD",
                                     "authenticAMD", "AuthenticAMd", "HygonGenuine"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        whole(true);
        memcpy(&cpu.vendor[1], names[i], 4); /* EBX, EDX, ECX */
        memcpy(&cpu.vendor[3], names[i] + 4, 4);
        memcpy(&cpu.vendor[2], names[i] + 8, 4);
        EXPECT(glint_cpu_slow() == (i == 0 ? 0 : BF16), "%s: %#x", names[i], glint_cpu_slow());
    }
}

static void permission(void)
{
    static const struct {
        uint64_t granted;
        long result;
        uint32_t amx;
    } answers[] = {
        {UINT64_C(1) << 18, 0, 1},    {UINT64_C(0x602e7), 0, 1},   {UINT64_C(0x202e7), 0, 0},
        {~(UINT64_C(1) << 18), 0, 0}, {UINT64_C(1) << 18, -22, 0}, {0, 0, 0},
        {UINT64_MAX, 1, 0},
    };
    EXPECT(SYSTEM_CALL_ARCH_PRCTL == SYS_arch_prctl, "system call %d", SYSTEM_CALL_ARCH_PRCTL);
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        struct glint_options options = GLINT_OPTIONS_INIT;
        whole(true);
        cpu.granted = answers[i].granted, cpu.result = answers[i].result;
        options.amx = 7;
        const enum glint_status status = glint_permit_amx(&options);
        EXPECT(options.amx == answers[i].amx && status == (answers[i].amx ? GLINT_OK : GLINT_NO_AMX), "%#llx, %ld: %s, %u",
               (unsigned long long)answers[i].granted, answers[i].result, glint_status_name(status), options.amx);
        EXPECT(cpu.calls == 2 && cpu.code[0] == 0x1023 && cpu.asked == 18 && cpu.code[1] == 0x1022,
               "%d system calls, %#lx for %llu, then %#lx", cpu.calls, cpu.code[0], (unsigned long long)cpu.asked, cpu.code[1]);
    }
}

static const struct contract_case cases[] = {
    {"each_bit", each_bit, 0},
    {"each_leaf", each_leaf, 0},
    {"vendors", vendors, 0},
    {"permission", permission, 0},
};
CONTRACT_MAIN("probe", cases)
