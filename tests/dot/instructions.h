/* The instructions of AVX-512 BF16 that lib/cpu/dot.h and lib/cpu/tiles.h ask for by name, VDPBF16PS and
 * VCVTNE2PS2BF16, said in C as the Intel SDM, volume 2, defines them. Put in front of the emitted kernels, it lets them
 * run on a machine that has AVX-512 without BF16. Both take denormals for zero, make none, and round to nearest even,
 * whatever MXCSR says. */
#ifndef GLINT_TESTS_DOT_INSTRUCTIONS_H
#define GLINT_TESTS_DOT_INSTRUCTIONS_H

#include <stdint.h>
#include <string.h>

#define EMULATED static inline __attribute__((always_inline))

typedef float emulated_vec __attribute__((vector_size(64)));
typedef int32_t emulated_mask __attribute__((vector_size(64)));
typedef uint32_t emulated_words __attribute__((vector_size(64)));

/* Zero with the sign of x in the lanes of the mask. */
EMULATED emulated_vec emulated_flush(emulated_mask tiny, emulated_vec x)
{
    return (emulated_vec)((emulated_words)x & ~((emulated_words)tiny & 0x7fffffff));
}

EMULATED emulated_vec emulated_without_denormals(emulated_vec x)
{
    return emulated_flush(((emulated_words)x & 0x7f800000) == 0, x);
}

EMULATED emulated_vec emulated_fma(emulated_vec sum, emulated_vec x, emulated_vec y)
{
#if defined(__clang__)
#pragma clang fp contract(on)
    return x * y + sum;
#else
    return __builtin_ia32_vfmaddps512_mask(x, y, sum, -1, 4);
#endif
}

/* sum + x y. A result is tiny when it is below 2^-126 after it was rounded as if the exponent had no bound: that is
 * seen of the same sum 2^60 times as large, which does not overflow where the sum is as small. */
EMULATED emulated_vec emulated_multiply_add(emulated_vec sum, emulated_vec x, emulated_vec y)
{
    const emulated_vec result = emulated_fma(sum, x, y), larger = emulated_fma(sum * 0x1p60f, x * 0x1p60f, y);
    const emulated_mask tiny = (larger < 0x1p-66f) & (larger > -0x1p-66f) & (result <= 0x1p-126f) & (result >= -0x1p-126f);
    return emulated_flush(tiny, result);
}

EMULATED emulated_vec emulated_dot(emulated_vec sum, emulated_words a, emulated_words b)
{
    sum = emulated_without_denormals(sum);
    sum = emulated_multiply_add(sum, emulated_without_denormals((emulated_vec)(a & 0xffff0000)),
                                emulated_without_denormals((emulated_vec)(b & 0xffff0000)));
    return emulated_multiply_add(sum, emulated_without_denormals((emulated_vec)(a << 16)),
                                 emulated_without_denormals((emulated_vec)(b << 16)));
}

/* The upper half of each word is the number in bf16. */
EMULATED emulated_words emulated_rounded(emulated_vec x)
{
    const emulated_words bits = (emulated_words)emulated_without_denormals(x), nan = (emulated_words)(x != x);
    return (nan & (bits | 0x00400000)) | (~nan & (bits + 0x7fff + (bits >> 16 & 1)));
}

/* to: 32 numbers, `first` before `second`. */
EMULATED void emulated_round_pair(void *to, emulated_vec first, emulated_vec second)
{
    const emulated_words x[2] = {emulated_rounded(first), emulated_rounded(second)};
    uint16_t halves[32];
    for (int i = 0; i < 32; i++)
        halves[i] = (uint16_t)(x[i / 16][i % 16] >> 16);
    memcpy(to, halves, sizeof halves);
}

#if !defined(GLINT_DOT)
#define GLINT_DOT(sum, a, b) ((sum) = emulated_dot(sum, a, b))
#define GLINT_ROUND_PAIR(to, first, second) emulated_round_pair(&(to), first, second)
#endif

#endif
