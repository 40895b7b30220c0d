/* Loops of which nothing is left in the machine code. */
#ifndef GLINT_DEVICE_UNROLLED_H
#define GLINT_DEVICE_UNROLLED_H

#include "lib/device/device.h"

/* f(i, j) for all i < I and j < J, or f(i, j, k) for all k < K, too: the last one runs fastest. Arrays of a thread are
 * registers only where the numbers of their elements are known to the compiler, so nothing is left of these loops. */
template <int I, int J, class f_t> GLINT_DEVICE void unrolled(const f_t &f)
{
#pragma unroll
    for (int i = 0; i < I; ++i)
#pragma unroll
        for (int j = 0; j < J; ++j)
            f(i, j);
}

template <int I, int J, int K, class f_t> GLINT_DEVICE void unrolled(const f_t &f)
{
#pragma unroll
    for (int i = 0; i < I; ++i)
        unrolled<J, K>([&](int j, int k) { f(i, j, k); });
}

#endif
