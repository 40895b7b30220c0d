/* O += P V: weights in a warp's accumulators times a tile of values. */
#ifndef GLINT_DEVICE_VALUES_H
#define GLINT_DEVICE_VALUES_H

#include "lib/device/fragment.h"
#include "lib/device/softmax.h"

template <class V, int ROWS, int KEYS, int COLUMNS>
GLINT_DEVICE void add_values(float (&o)[ROWS][COLUMNS][4], const float (&p)[ROWS][KEYS][4], uint32_t v_lane)
{
    typedef typename V::element element;

#pragma unroll
    for (int kk = 0; kk < KEYS * 8 / (int)element::K_STEP; ++kk) {
        uint32_t a[ROWS][4];

        to_operand<element>(a, p, kk);
        multiply_step<V>(o, a, v_lane, kk);
    }
}

/* Where two warps have the same queries: a warp's weights are of its half of the keys and go to the other one through
 * its tile P, and it sums its half of the columns, first over its own keys. */
template <class V, class P, int ROWS, int KEYS, int COLUMNS>
GLINT_DEVICE void add_values(float (&o)[ROWS][COLUMNS][4], const float (&p)[ROWS][KEYS][4], uint32_t v_lane, uint32_t p_tiles,
                             uint32_t group, uint32_t part)
{
    typedef typename V::element element;
    const int STEPS = KEYS * 8 / (int)element::K_STEP;
    const uint32_t own =
        p_tiles + part * P::BYTES + tile_offset(lane_index() >> 2, 0, P::ROWS, P::PAGE_CHUNKS) + (lane_index() & 3) * 4;
    const uint32_t other = p_tiles + (part ^ 1) * P::BYTES + lane_offset_a<P>(lane_index());
    const uint32_t v_own = v_lane + part * (KEYS * 8 * V::PAGE_ROW), v_other = v_lane + (part ^ 1) * (KEYS * 8 * V::PAGE_ROW);
    uint32_t a[STEPS][ROWS][4];

#pragma unroll
    for (int kk = 0; kk < STEPS; ++kk) {
        to_operand<element>(a[kk], p, kk);
        unrolled<ROWS, 4>(
            [&](int rt, int i) { st_shared_u32(tile_move<P>(own, rt * 16 + (i & 1) * 8, 2 * kk + (i >> 1)), a[kk][rt][i]); });
    }
#pragma unroll
    for (int kk = 0; kk < STEPS; ++kk)
        multiply_step<V>(o, a[kk], v_own, kk);
    named_sync(1 + group, 64);
#pragma unroll
    for (int kk = 0; kk < STEPS; ++kk) {
#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt)
            ldmatrix_x4(a[kk][rt], tile_move<P>(other, rt * 16, 2 * kk));
        multiply_step<V>(o, a[kk], v_other, kk);
    }
}

#endif
