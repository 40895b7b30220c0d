/* What attention is. Two implementations, both on dense arrays in the order [batch, heads, seqlen, head_dim]:
 *
 *   reference_*  in double: the truth that every variant is measured against. Written for reading; keep it free of
 *                tricks.
 *   plain_*      in float, storing to the variant's dtype what a plain implementation would store: the yardstick. A
 *                variant passes when its error is at most twice (backward: three times) that of plain attention,
 *                plus one ulp.
 *
 * The yardstick is the stricter of the plain implementations in use: scores and dP = dO V^T stay in float (as in any
 * fused kernel); P, dS and the results are rounded to the dtype, and dS is made of the P that forward stored. Sums run
 * in order, without fused multiply-add. Factors of products are rounded to what the variant's arithmetic takes them as
 * (factor_round), so that tf32 is measured against plain attention in tf32. */
#ifndef GLINT_TESTS_REF_H
#define GLINT_TESTS_REF_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/glint.h"

struct ref_shape {
    int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k, head_dim;
    float softmax_scale;
    int64_t first, last; /* query i sees key j iff i + first <= j <= i + last */
    float softcap;       /* 0: none; else a score s becomes softcap tanh(s / softcap) */
    const float *sinks;  /* [heads_q]: a logit in each denominator of the head; NULL: none */
    const double *k_scale,
        *v_scale;               /* [batch, heads_kv, seqlen_k]: of 8-bit K and V, used in glint.h's order, forward; NULL: none */
    const int32_t *begin, *end; /* [seqlen_q]: of each query's interval, beside the band, alike in all batches; NULL: none */
    const float *slopes;        /* [heads_q] of ALiBi: a capped score has - slope |i + offset - j| added; NULL: none */
    int64_t offset;
    double *max_logit;    /* [heads_q], written by reference_forward: the largest score of each head; NULL: not asked for */
    const float *bias;    /* [batch, heads_q, seqlen_q, seqlen_k]: added to a capped score; NULL: none */
    const uint32_t *tree; /* [seqlen_q, tree_words]: bits of the last seqlen_q keys, alike in all batches; NULL: none */
    int64_t tree_words;
};

/* Sets first, last and offset of a shape whose lengths are set, as glint.h defines the mask; the windows count for bands
 * only, and the diagonal for all masks but GLINT_MASK_NONE. */
void ref_mask(struct ref_shape *s, enum glint_mask mask, int64_t window_left, int64_t window_right, int64_t diagonal);

/* Whether a query sees a key. */
bool ref_sees(const struct ref_shape *s, int64_t query, int64_t key);

/* Query i sees the keys ref_first ... ref_end - 1, of a tree those of them that ref_sees says, and both ends at least;
 * none when the two are the same. */
int64_t ref_first(const struct ref_shape *s, int64_t query);
int64_t ref_end(const struct ref_shape *s, int64_t query);

void reference_forward(const struct ref_shape *s, const double *q, const double *k, const double *v, double *o, double *lse);

/* o and lse are those of reference_forward. dlse: the gradient of LSE, NULL where it is 0. dsinks: [heads_q], NULL
 * without sinks. dbias: [batch, heads_q, seqlen_q, seqlen_k], of each pair, 0 where it is hidden, or NULL. */
void reference_backward(const struct ref_shape *s, const double *q, const double *k, const double *v, const double *o,
                        const double *lse, const double *dout, const float *dlse, double *dq, double *dk, double *dv,
                        double *dsinks, double *dbias);

void plain_forward(const struct ref_shape *s, enum glint_dtype dtype, enum glint_math math, const float *q, const float *k,
                   const float *v, float *o, float *lse);

/* o and lse are the inputs that the variant gets too: already rounded. */
void plain_backward(const struct ref_shape *s, enum glint_dtype dtype, enum glint_math math, const float *q, const float *k,
                    const float *v, const float *o, const float *lse, const float *dout, const float *dlse, float *dq, float *dk,
                    float *dv, float *dsinks, float *dbias);

#endif
