/* What a variant makes of a score before the softmax: S' = f(S), number by number, and backward dS = dS' f'(S). Kernels
 * call these two where they have S; the identity costs nothing. */
#ifndef GLINT_DEVICE_SCORE_H
#define GLINT_DEVICE_SCORE_H

#include "lib/device/call.h"
#include "lib/device/device.h"

struct plain_score {
    static constexpr bool IDENTITY = true;

    GLINT_DEVICE struct plain_score of(const struct glint_gpu_call &)
    {
        return {};
    }
};

template <int ROWS, int COLUMNS> GLINT_DEVICE void change_scores(float (&)[ROWS][COLUMNS][4], const struct plain_score &) {}

/* A softcap c: S' = (c / a) tanh(a S / c) with a = |softmax_scale|, so that a S' is the capped score. With r = a / c
 * that is S R((r S)^2), R(u) = tanh(sqrt u) / sqrt u, by the ratio of polynomials of lib/cpu/softcap.h, which has its
 * error: relative, so that a cap far above the scores costs them no digit. tanh.approx is off by 2^-11, and 1 - 2 / (1
 * + e^2x) by 2^-23 of the cap. NaN stays NaN: the comparisons are false. */
struct capped_score {
    static constexpr bool IDENTITY = false;
    float ratio, limit; /* r; 9.02 / r */

    GLINT_DEVICE struct capped_score of(const struct glint_gpu_call &p)
    {
        return {p.score_ratio, p.score_limit};
    }
};

GLINT_DEVICE float cap_score(float s, const struct capped_score &cap)
{
    s = s > cap.limit ? cap.limit : s;
    s = s < -cap.limit ? -cap.limit : s;
    const float x = s * cap.ratio, u = x * x;
    float p = fmaf(u, 0x1.cbd272p-27f, 0x1.5a30fap-16f), q = fmaf(u, 0x1.a232d4p-21f, 0x1.58d046p-12f);
    p = fmaf(p, u, 0x1.ca68ccp-9f);
    q = fmaf(q, u, 0x1.a815bep-6f);
    p = fmaf(p, u, 0x1.121384p-3f);
    q = fmaf(q, u, 0x1.de5f0ep-2f);
    p = fmaf(p, u, 1.0f);
    q = fmaf(q, u, 1.0f);
    return s * (p / q);
}

/* dS' / dS = 1 - tanh(r S)^2 = 1 - (r S')^2, of a capped score S'. */
GLINT_DEVICE float cap_slope(float capped, const struct capped_score &cap)
{
    const float t = capped * cap.ratio;

    return fmaf(-t, t, 1.0f);
}

/* Where |r S| <= 0.7, as nearly all scores of a model are: R to a relative 1.5e-8 by a polynomial, without the
 * division. */
GLINT_DEVICE float cap_small_score(float s, const struct capped_score &cap)
{
    const float x = s * cap.ratio, u = x * x;
    float p = fmaf(u, -0x1.50c474p-8f, 0x1.492fd6p-6f);
    p = fmaf(p, u, -0x1.b6c112p-5f);
    p = fmaf(p, u, 0x1.10faeep-3f);
    p = fmaf(p, u, -0x1.5554f6p-2f);
    return s * fmaf(p, u, 1.0f);
}

GLINT_DEVICE float largest_small_score(const struct capped_score &cap)
{
    return cap.limit * (0.7f / 9.02f);
}

GLINT_DEVICE float cap_either(float s, const struct capped_score &cap)
{
    return fabsf(s) <= largest_small_score(cap) ? cap_small_score(s, cap) : cap_score(s, cap);
}

/* A thread whose scores are all small is done with half of the work; the results are cap_either's either way. */
GLINT_DEVICE bool all_small(float largest, const struct capped_score &cap)
{
    return largest <= largest_small_score(cap);
}

template <int ROWS, int COLUMNS> GLINT_DEVICE void change_scores(float (&s)[ROWS][COLUMNS][4], const struct capped_score &cap)
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int nt = 0; nt < COLUMNS; ++nt)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s[rt][nt][i] = cap_score(s[rt][nt][i], cap);
}

/* change_scores of a warpgroup's accumulator. */
template <int n> GLINT_DEVICE void change_scores(float (&)[n], const struct plain_score &) {}

template <int n> GLINT_DEVICE void change_scores(float (&s)[n], const struct capped_score &cap)
{
    enum { MOST = 16 }; /* at a time: more take registers that some tiles have not */

#pragma unroll
    for (int from = 0; from < n; from += MOST) {
        const int end = from + MOST < n ? from + MOST : n;
        float largest = 0.0f;

#pragma unroll
        for (int i = from; i < end; ++i)
            largest = fmaxf(largest, fabsf(s[i]));
        if (all_small(largest, cap)) {
#pragma unroll
            for (int i = from; i < end; ++i)
                s[i] = cap_small_score(s[i], cap);
        } else {
#pragma unroll
            for (int i = from; i < end; ++i)
                s[i] = cap_either(s[i], cap);
        }
    }
}

template <int ROWS, int COLUMNS> GLINT_DEVICE void change_few_scores(float (&)[ROWS][COLUMNS][4], const struct plain_score &) {}

/* change_scores of decode's fragments. Decode has registers for both ways; kernels with many queries spill some. */
template <int ROWS, int COLUMNS> GLINT_DEVICE void change_few_scores(float (&s)[ROWS][COLUMNS][4], const struct capped_score &cap)
{
    change_scores(reinterpret_cast<float(&)[ROWS * COLUMNS * 4]>(s), cap);
}

#endif
