/* Softmax over rows that come block by block. s[rt][nt][2 * side + ...]: scores of query rt * 16 + side * 8 + lane /
 * 4 of a warp, as fragment.h says; a number of each query is x[rt][side], in each of the four lanes that hold the
 * query, or a lane's part of it. */
#ifndef GLINT_DEVICE_SOFTMAX_H
#define GLINT_DEVICE_SOFTMAX_H

#include "lib/device/steps.h"
#include "lib/device/unrolled.h"

/* ---- warps that have the same queries ---------------------------------------------------------------------------- */

/* A warp that has its queries for itself. */
struct lone_warp {
};

/* One of two warps with the same queries and half of the keys each. `room`: in shared memory, where they leave each
 * other numbers; `group`: the number of the pair, which has named barrier 1 + group; `part`: which of the two. */
struct paired_warp {
    uint32_t room, group, part;
};

GLINT_DEVICE bool any_of(const struct lone_warp &, bool condition)
{
    return warp_any(condition);
}

GLINT_DEVICE bool any_of(const struct paired_warp &warp, bool condition)
{
    return named_any(1 + warp.group, 64, condition);
}

/* Numbers of queries, from the lanes of a quad and then from the warps that share the queries, to all of these
 * lanes. */
template <int ROWS, class of_quad_t, class of_two_t>
GLINT_DEVICE void join_rows(float (&joint)[ROWS][2], const float (&mine)[ROWS][2], const struct paired_warp &warp,
                            of_quad_t of_quad, of_two_t of_two)
{
    const uint32_t at = warp.room + (lane_index() >> 2) * 4;

    unrolled<ROWS, 2>([&](int rt, int side) {
        joint[rt][side] = of_quad(mine[rt][side]);
        if ((lane_index() & 3) == 0)
            st_shared_f32(at + (warp.part * (16 * ROWS) + rt * 16 + side * 8) * 4, joint[rt][side]);
    });
    named_sync(1 + warp.group, 64);
    unrolled<ROWS, 2>([&](int rt, int side) {
        joint[rt][side] = of_two(joint[rt][side], ld_shared_f32(at + ((warp.part ^ 1) * (16 * ROWS) + rt * 16 + side * 8) * 4));
    });
    named_sync(1 + warp.group, 64);
}

/* A lone warp asks the quad for a number when it wants it; a pair of warps joins all numbers first. */
template <int ROWS> GLINT_DEVICE void join_maxima(float (&)[ROWS][2], const struct lone_warp &) {}

template <int ROWS> GLINT_DEVICE void join_maxima(float (&maxima)[ROWS][2], const struct paired_warp &warp)
{
    join_rows(maxima, maxima, warp, quad_max, [](float x, float y) { return fmaxf(x, y); });
}

GLINT_DEVICE float joint_maximum(float maximum, const struct lone_warp &)
{
    return quad_max(maximum);
}

GLINT_DEVICE float joint_maximum(float maximum, const struct paired_warp &)
{
    return maximum;
}

template <int ROWS> GLINT_DEVICE void join_sums(float (&)[ROWS][2], const struct lone_warp &) {}

template <int ROWS> GLINT_DEVICE void join_sums(float (&sums)[ROWS][2], const struct paired_warp &warp)
{
    join_rows(sums, sums, warp, quad_sum, [](float x, float y) { return x + y; });
}

GLINT_DEVICE float joint_sum(float sum, const struct lone_warp &)
{
    return quad_sum(sum);
}

GLINT_DEVICE float joint_sum(float sum, const struct paired_warp &)
{
    return sum;
}

/* ---- one block of keys ------------------------------------------------------------------------------------------- */

/* What a warp knows of its queries: the maximum that exponents are relative to, and the sum of the weights, this
 * lane's part of it. */
template <int ROWS> struct softmax_state {
    float sum[ROWS][2], max[ROWS][2];
};

template <int ROWS> GLINT_DEVICE void begin_softmax(struct softmax_state<ROWS> &rows)
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt) {
        rows.max[rt][0] = rows.max[rt][1] = -GLINT_INFINITY;
        rows.sum[rt][0] = rows.sum[rt][1] = 0.0f;
    }
}

/* The greatest score of each query that this lane holds. */
template <int ROWS, int COLUMNS> GLINT_DEVICE void find_maxima(float (&maxima)[ROWS][2], const float (&s)[ROWS][COLUMNS][4])
{
    unrolled<ROWS, 2>([&](int rt, int side) {
        float m = fmaxf(s[rt][0][2 * side], s[rt][0][2 * side + 1]);
#pragma unroll
        for (int nt = 1; nt < COLUMNS; ++nt)
            m = fmaxf(m, fmaxf(s[rt][nt][2 * side], s[rt][nt][2 * side + 1]));
        maxima[rt][side] = m;
    });
}

/* The maximum that exponents are relative to follows the true one only when that has grown by more than 2^4: O and
 * the sums carry the same factor, so the result is the same, and most blocks need no rescaling; a quad's lanes need
 * not even know each other's maxima. What is done to a row depends on that row alone. shift is what scaled scores
 * are shifted by: the maximum times the scale, rounded, and what the rounding leaves over is an exponent that all
 * weights of the row have in common. So that it stays below 1, scores beyond 10^7 are made relative to the maximum
 * here, before they are scaled; so are those of a row that has seen nothing yet (-inf). */
template <int ROWS, int KEYS, int COLUMNS, class Warp>
GLINT_DEVICE void follow_maxima(float (&s)[ROWS][KEYS][4], float (&o)[ROWS][COLUMNS][4], struct softmax_state<ROWS> &rows,
                                float (&shift)[ROWS][2], float scale, const Warp &warp)
{
    float maxima[ROWS][2];
    bool wanted = false;

    find_maxima(maxima, s);
    unrolled<ROWS, 2>([&](int rt, int side) {
        shift[rt][side] = -rows.max[rt][side] * scale;
        wanted |= !(fmaf(maxima[rt][side], scale, shift[rt][side]) <= 4.0f) || !(fabsf(shift[rt][side]) < 1e7f);
    });
    if (!any_of(warp, wanted))
        return;
    join_maxima(maxima, warp);
    unrolled<ROWS, 2>([&](int rt, int side) {
        const float before = rows.max[rt][side], maximum = joint_maximum(maxima[rt][side], warp);
        const bool grown = !(fmaf(maximum, scale, shift[rt][side]) <= 4.0f);
        const float now = grown ? fmaxf(before, maximum) : before;
        const float factor = before != -GLINT_INFINITY && grown ? ex2((before - now) * scale) : 1.0f;
        const bool moderate = fabsf(now) * scale < 1e7f;

        rows.max[rt][side] = now;
        rows.sum[rt][side] *= factor;
        shift[rt][side] = moderate ? -now * scale : 0.0f;
#pragma unroll
        for (int dt = 0; dt < COLUMNS; ++dt) {
            o[rt][dt][2 * side] *= factor;
            o[rt][dt][2 * side + 1] *= factor;
        }
        if (!moderate && now != -GLINT_INFINITY) {
#pragma unroll
            for (int nt = 0; nt < KEYS; ++nt) {
                s[rt][nt][2 * side] -= now;
                s[rt][nt][2 * side + 1] -= now;
            }
        }
    });
}

/* What O of a query is multiplied by. A sum of zero is that of a query that sees no key, whose O is 0; or its scores
 * are all -inf, and O, 0 / 0, is NaN, beside infinities of V too. sees_some(): whether it sees a key. */
template <class Sees> GLINT_DEVICE float inverse_of(float sum, const Sees &sees_some)
{
    return sum == 0.0f ? (sees_some() ? float_of(0x7fc00000u) : 0.0f) : 1.0f / sum;
}

/* LSE of a query, in natural units. Weights, and so their sum, have a factor of 2^-below. */
template <int below = 0> GLINT_DEVICE float log_sum(float max, float sum, float softmax_scale)
{
    const float log = below != 0 ? lg2(sum) + (float)below : lg2(sum);

    return sum == 0.0f ? -GLINT_INFINITY : fmaf(log, 0.693147180559945309f, max * fabsf(softmax_scale));
}

/* A sink is one more term of the sum, in natural units: inverse, what O is multiplied by, and lse are those without it.
 * -inf changes no bit: so products and sums that a compiler could join in one place and not in the other are written as
 * fma, and own is rounded by one too. */
template <int below = 0>
GLINT_DEVICE void add_sink(float &inverse, float &lse, float max, float sum, float softmax_scale, float sink)
{
    const float log2_e = 1.44269504088896340736f, own = fmaf(max, fabsf(softmax_scale), 0.0f), top = fmaxf(own, sink);
    const float of_sink = below != 0 ? fmaf(sink - top, log2_e, (float)-below) : (sink - top) * log2_e;
    const float kept = ex2((own - top) * log2_e), total = fmaf(sum, kept, ex2(of_sink));

    if (sum == 0.0f &&
        /* a query that sees no key; or no score above -inf, and no sink */
        (inverse == 0.0f || sink == -GLINT_INFINITY)) {
        lse = sink;
        return;
    }
    inverse = 1.0f / total * kept;
    lse = own >= sink ? log_sum<below>(max, total, softmax_scale)
                      : fmaf(below != 0 ? lg2(total) + (float)below : lg2(total), 0.693147180559945309f, top);
}

/* ---- the largest logit ------------------------------------------------------------------------------------------- */

/* Raises a head's largest logit to x, in whatever order blocks do so: floats from 0 on are ordered as integers, and
 * those below as unsigned integers the other way round. NaN and -inf raise nothing, and -0 counts as 0. */
GLINT_DEVICE void raise_logit(float *logit, float x)
{
    const float own = x + 0.0f;

    if (own >= 0.0f)
        atomicMax((int32_t *)logit, (int32_t)bits_of(own));
    else if (own > -GLINT_INFINITY)
        atomicMin((uint32_t *)logit, bits_of(own));
}

/* The largest score that a lane has met, of the first `rows` queries of its warp. */
template <int ROWS, int COLUMNS> GLINT_DEVICE void follow_largest(float &largest, const float (&s)[ROWS][COLUMNS][4], int32_t rows)
{
    const int32_t own = (int32_t)(thread_index_anew() % 32 >> 2);
    float maxima[ROWS][2];

    find_maxima(maxima, s);
    unrolled<ROWS, 2>(
        [&](int rt, int side) { largest = own + rt * 16 + side * 8 < rows ? fmaxf(largest, maxima[rt][side]) : largest; });
}

/* All lanes of a warp call it with what they have met, less the scale. */
GLINT_DEVICE void raise_largest(float *logit, float largest, float scale)
{
#pragma unroll
    for (uint32_t lanes = 1; lanes < 32; lanes *= 2)
        largest = fmaxf(largest, shfl_xor(largest, lanes));
    if (lane_index() == 0)
        raise_logit(logit, largest * fabsf(scale));
}

/* P = 2^(scale (S - max)), in place of S; a query that has seen nothing yet keeps zeros. */
template <int ROWS, int KEYS>
GLINT_DEVICE void make_weights(float (&s)[ROWS][KEYS][4], struct softmax_state<ROWS> &rows, const float (&shift)[ROWS][2],
                               float scale)
{
    unrolled<ROWS, 2, KEYS>([&](int rt, int side, int nt) {
        s[rt][nt][2 * side] = ex2(fmaf(s[rt][nt][2 * side], scale, shift[rt][side]));
        s[rt][nt][2 * side + 1] = ex2(fmaf(s[rt][nt][2 * side + 1], scale, shift[rt][side]));
        rows.sum[rt][side] += s[rt][nt][2 * side] + s[rt][nt][2 * side + 1];
    });
}

#endif
