/* What a core's vector products take, of float32 and of bf16: nanoseconds an instruction, the least of many
 * repetitions. No answer without AVX-512 BF16. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <time.h>

#include "lib/cpu/cpu.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* 16 sums, zmm0 to zmm15: X(row of A, its two sums). */
#define ROWS(X) X(0, 0, 1) X(1, 2, 3) X(2, 4, 5) X(3, 6, 7) X(4, 8, 9) X(5, 10, 11) X(6, 12, 13) X(7, 14, 15)
#define FMA(r, s, t) "vfmadd231ps %%zmm30, %%zmm31, %%zmm" #s "\n vfmadd231ps %%zmm30, %%zmm31, %%zmm" #t "\n "
#define DOT(r, s, t) "vdpbf16ps %%zmm30, %%zmm31, %%zmm" #s "\n vdpbf16ps %%zmm30, %%zmm31, %%zmm" #t "\n "
#define DOT_MEMORY(r, s, t) \
    "vdpbf16ps " #r "*64(%0)%{1to16%}, %%zmm30, %%zmm" #s "\n vdpbf16ps " #r "*64(%0)%{1to16%}, %%zmm31, %%zmm" #t "\n "
#define DOT_BROADCAST(r, s, t) \
    "vpbroadcastd " #r "*64(%0), %%zmm29\n vdpbf16ps %%zmm29, %%zmm30, %%zmm" #s "\n vdpbf16ps %%zmm29, %%zmm31, %%zmm" #t "\n "
#define CHAIN(r, s, t) "vdpbf16ps %%zmm30, %%zmm31, %%zmm0\n vdpbf16ps %%zmm30, %%zmm31, %%zmm0\n "
#define VECTORS "vmovups 512(%0), %%zmm30\n vmovups 576(%0), %%zmm31\n "

#define RATE(name, text)                                                                                                     \
    do {                                                                                                                     \
        double least = 1;                                                                                                    \
        for (int repetition = 0; repetition < 500; repetition++) {                                                           \
            const double begin = now();                                                                                      \
            for (int i = 0; i < 1000; i++)                                                                                   \
                __asm__ volatile(text                                                                                        \
                                 :                                                                                           \
                                 : "r"(memory)                                                                               \
                                 : "memory", "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", \
                                   "zmm10", "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm29", "zmm30", "zmm31");         \
            const double took = now() - begin;                                                                               \
            least = took < least ? took : least;                                                                             \
        }                                                                                                                    \
        printf("%-62s %6.3f ns\n", name, least * 1e9 / 16000);                                                               \
    } while (0)

int main(void)
{
    static const char memory[1024];
    if ((glint_cpu_probe() >> GLINT_ISA_X86_64_BF16 & 1) == 0) {
        puts("no AVX-512 BF16 here");
        return 0;
    }
    RATE("vfmadd231ps, 16 multiply-adds", ROWS(FMA));
    RATE("vdpbf16ps, 32 multiply-adds", ROWS(DOT));
    RATE("vdpbf16ps, each waits for the one before", ROWS(CHAIN));
    RATE("vdpbf16ps, 8 rows by 2 vectors, rows broadcast to a register", VECTORS ROWS(DOT_BROADCAST));
    RATE("vdpbf16ps, 8 rows by 2 vectors, rows broadcast in the operand", VECTORS ROWS(DOT_MEMORY));
    return 0;
}
