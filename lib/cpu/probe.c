/* Which instruction sets of enum glint_isa this CPU and its operating system can run. */
#include "lib/cpu/cpu.h"
#include "lib/cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>

enum { /* bits of CPUID leaves, named as in the Intel SDM, volume 2A, CPUID */
       L1C_SSE3 = 1 << 0,
       L1C_SSSE3 = 1 << 9,
       L1C_FMA = 1 << 12,
       L1C_CX16 = 1 << 13,
       L1C_SSE4_1 = 1 << 19,
       L1C_SSE4_2 = 1 << 20,
       L1C_MOVBE = 1 << 22,
       L1C_POPCNT = 1 << 23,
       L1C_OSXSAVE = 1 << 27,
       L1C_AVX = 1 << 28,
       L1C_F16C = 1 << 29,
       L7B_BMI1 = 1 << 3,
       L7B_AVX2 = 1 << 5,
       L7B_BMI2 = 1 << 8,
       L7B_AVX512F = 1 << 16,
       L7B_AVX512DQ = 1 << 17,
       L7B_AVX512CD = 1 << 28,
       L7B_AVX512BW = 1 << 30,
       L7D_AMX_BF16 = 1 << 22,
       L7D_AMX_TILE = 1 << 24,
       L7S1A_AVX512_BF16 = 1 << 5, /* of subleaf 1 */
       E1C_LAHF = 1 << 0,
       E1C_LZCNT = 1 << 5,
       XCR0_AVX = 0x06,      /* the system saves XMM and YMM */
       XCR0_AVX512 = 0xe6,   /* and the mask registers and ZMM */
       XCR0_TILES = 3 << 17, /* and the tiles and their configuration, for processes that it permits them */
};
#define L7B_AVX512VL (1u << 31)

static bool has(uint32_t bits, uint32_t wanted)
{
    return (bits & wanted) == wanted;
}

static bool has_x86_64(void)
{
    return true;
}

/* x86-64-v3 and -v4 as the psABI lists them, and that the system saves the registers. */
static bool has_x86_64_v3(void)
{
    uint32_t a, b, c, d, leaf7b, extended, xcr0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, L1C_SSE3 | L1C_SSSE3 | L1C_FMA | L1C_CX16 | L1C_SSE4_1 | L1C_SSE4_2 | L1C_MOVBE |
                                                       L1C_POPCNT | L1C_OSXSAVE | L1C_AVX | L1C_F16C))
        return false;
    __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(d) : "c"(0));
    if (!has(xcr0, XCR0_AVX) || !__get_cpuid_count(7, 0, &a, &leaf7b, &c, &d) || !has(leaf7b, L7B_BMI1 | L7B_AVX2 | L7B_BMI2))
        return false;
    return __get_cpuid(0x80000001, &a, &b, &extended, &d) && has(extended, E1C_LAHF | E1C_LZCNT);
}

static bool has_x86_64_v4(void)
{
    uint32_t a, leaf7b, c, d, xcr0;
    if (!has_x86_64_v3() || !__get_cpuid_count(7, 0, &a, &leaf7b, &c, &d))
        return false;
    __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(d) : "c"(0));
    return has(xcr0, XCR0_AVX512) && has(leaf7b, L7B_AVX512F | L7B_AVX512DQ | L7B_AVX512CD | L7B_AVX512BW | L7B_AVX512VL);
}

static bool has_x86_64_bf16(void)
{
    uint32_t a, b, c, d;
    return has_x86_64_v4() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && has(a, L7S1A_AVX512_BF16);
}

/* Whether the process may use what this CPU has is not seen from here: glint_options.amx says it. */
static bool has_x86_64_amx(void)
{
    uint32_t a, b, c, leaf7d, d, xcr0;
    if (!has_x86_64_bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &leaf7d) || !has(leaf7d, L7D_AMX_TILE | L7D_AMX_BF16))
        return false;
    __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(d) : "c"(0));
    return has(xcr0, XCR0_TILES);
}

/* vdpbf16ps multiplies twice as many numbers as float32's multiply-add in the same time on AMD's Zen 4
 * (bench/floors/dot_rates.c). On an Intel Xeon of the Sapphire Rapids class it was half as fast as that. So it is fast
 * on AMD's CPUs, and slow where nobody timed it. */
static bool slow_x86_64_bf16(void)
{
    uint32_t a, b = 0, c = 0, d = 0;
    return !__get_cpuid(0, &a, &b, &c, &d) || b != signature_AMD_ebx || c != signature_AMD_ecx || d != signature_AMD_edx;
}

uint32_t glint_cpu_slow(void)
{
    return slow_x86_64_bf16() ? 1u << GLINT_ISA_X86_64_BF16 : 0;
}
#define HERE(X) GLINT_CPU_ISAS_X86_64(X)
#elif defined(__aarch64__)
static bool has_aarch64(void)
{
    return true;
}

uint32_t glint_cpu_slow(void)
{
    return 0;
}
#define HERE(X) GLINT_CPU_ISAS_AARCH64(X)
#else
uint32_t glint_cpu_slow(void)
{
    return 0;
}
#define HERE(X)
#endif

uint32_t glint_cpu_probe(void)
{
    uint32_t isas = 0;
#define PROBE(name, id) \
    if (has_##name())   \
        isas |= 1u << (id);
    HERE(PROBE)
#undef PROBE
    return isas;
}
