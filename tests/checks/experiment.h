/* One problem with its data: dense host arrays, where each tensor lies on the device, and the answers.
 *
 * Host arrays are float, in the order [batch, heads, seqlen, head_dim] (LSE: [batch, heads_q, seqlen_q]), and hold
 * values that the dtype represents. experiment_run scatters them into device buffers of the layout and gathers the
 * results back. */
#ifndef GLINT_TESTS_EXPERIMENT_H
#define GLINT_TESTS_EXPERIMENT_H

#include "tests/checks/check.h"
#include "tests/oracle/ref.h"
#include "tests/support/tensor.h"

struct view {
    int buffer; /* tensors with the same number share memory */
    int64_t offset;
    struct glint_strides strides;
};

/* 8-bit K or V: in[] holds what they stand for, bits * scale, and experiment_store makes them of it. */
struct scaled {
    bool given;    /* the scales are the check's; else they follow from in[] */
    uint8_t *bits; /* [batch, heads_kv, seqlen_k, head_dim]; NULL: not of 8 bits */
    float *scale;  /* [batch, heads_kv, seqlen_k], all of a head or tensor the same where kv_scales says so */
};

struct experiment {
    struct subject *subject;
    struct shape shape;
    enum glint_dtype dtype;
    enum glint_math math;
    struct ref_shape ref;
    struct glint_problem problem;
    struct view view[TENSORS];
    int64_t buffer_elements[TENSORS];
    float *in[TENSORS];     /* Q K V O LSE DOUT */
    struct scaled cache[2]; /* 8-bit K and V */
    double *exact[TENSORS]; /* O LSE DQ DK DV of the reference, after experiment_reference */
    float *sinks;           /* [heads_q]; NULL when the shape has none */
    double *exact_dsinks;   /* [heads_q], after experiment_reference; NULL without sinks */
    float *dlse;            /* as LSE, read by the backward pass; NULL when the shape has none */
    int32_t *interval[2];   /* key_begin and key_end, [batch, seqlen_q]; NULL when the shape has none */
    uint32_t *tree;         /* tree_bits, [batch, seqlen_q, words]; NULL when the shape has no tree */
    float *slopes;          /* [heads_q]; NULL when the shape has no ALiBi */
    double *exact_logit;    /* [heads_q], after experiment_reference; NULL when the shape does not ask for it */
    float *bias;            /* [batch, heads_q, seqlen_q, seqlen_k], as memory has it; NULL when the shape has none */
    double *exact_dbias;    /* as bias, after experiment_reference, summed over what is shared; NULL without dbias */
};

struct results {
    float *at[TENSORS]; /* forward: O LSE; backward: DQ DK DV */
    float *dsinks;      /* backward, with sinks: [heads_q] */
    float *max_logit;   /* forward, where the problem asks for it: [heads_q] */
    float *dbias;       /* backward, with dbias: [batch, heads_q, seqlen_q, seqlen_k] */
};

/* Extents of a tensor. LSE has dim 1. */
int64_t tensor_heads(const struct experiment *e, enum tensor t);
int64_t tensor_rows(const struct experiment *e, enum tensor t);
int64_t tensor_dim(const struct experiment *e, enum tensor t);
int64_t tensor_count(const struct experiment *e, enum tensor t);
enum glint_dtype tensor_dtype(const struct experiment *e, enum tensor t);
float *tensor_row(const struct experiment *e, float *dense, enum tensor t, int64_t b, int64_t h, int64_t row);

/* Row i of a tree after those before it: the path to a guess that follows one of the last five queries or begins anew,
 * or bits at random, sometimes none. */
enum tree_kind { TREE_OF_GUESSES, TREE_OF_ANY };
struct rand;
void experiment_tree_row(uint32_t *row, int64_t i, enum tree_kind kind, const uint32_t *rows, int64_t words, struct rand *r);

/* The slopes of a shape with ALiBi: of either sign, or zeros. */
float experiment_slope(const struct shape *shape, int64_t head);

/* Pairs of a query and a key of all heads and batches; the element of the bias that a pair has, as a pair: the first
 * that shares it. */
int64_t pair_count(const struct experiment *e);
int64_t pair_of_bias(const struct experiment *e, int64_t pair);

/* Sums [batch, heads_q, seqlen_q, seqlen_k] over what the bias shares: every pair gets the sum. */
void experiment_sum_pairs(const struct experiment *e, double *pairs);

/* Draws Q, K, V and dO of the shape. */
struct experiment *experiment_new(struct subject *subject, const struct shape *shape);

/* The same with arrays of its own, to be changed. */
struct experiment *experiment_copy(const struct experiment *e);

/* Makes in[] hold what memory will hold when inputs share it (stride 0); after changing in[] by hand in such a
 * layout. */
void experiment_share(struct experiment *e);

/* Of every `nth` query all scores are -inf: every eighth element is an infinity, of one such query from the first on,
 * of the next one from the second on, and so on, and all numbers of K are below 0. */
void experiment_put_minus_infinity(struct experiment *e, int64_t nth);

/* Rounds in[K] and in[V] to what 8 bits hold, if they have them. Done by experiment_new, _reference and _run; what can
 * be held stays as it is. A row of int8 with NaN or inf is all NaN, and infinities of e4m3 are NaN. */
void experiment_store(struct experiment *e);

/* Computes exact[] from in[Q], in[K], in[V], in[DOUT], and sets in[O] and in[LSE], the backward's inputs, to the exact
 * ones, rounded. Gradients are computed when `gradients`. */
void experiment_reference(struct experiment *e, bool gradients);

/* A plan of that variant for the problem; the check fails unless there is one. */
struct glint_plan experiment_plan(struct subject *subject, const struct glint_problem *problem, enum glint_pass pass,
                                  uint32_t variant, enum lanes lanes);

/* In which ways decode on a GPU shares the keys of a problem out to blocks, on devices of 1 to 1,024 multiprocessors:
 * not at all, then those that leave more and more in the workspace. Of each way the smallest device and the largest. */
enum { MOST_WAYS = 8 };
struct ways {
    int count;
    uint32_t smallest[MOST_WAYS], largest[MOST_WAYS];
};
struct ways experiment_ways(struct subject *subject, const struct glint_problem *problem);

/* A bound of few keys that decode of one head shares out in so many ways. 3: the second is by chunks of steps; 4: the
 * second is by spans of chunks. */
int64_t experiment_divisible_keys(struct subject *subject, int ways);

/* Plans are from now on those of the smallest device that shares the keys out in this way, from 1 on; below 0 of the
 * largest one. */
void experiment_share_out(struct subject *subject, const struct glint_problem *problem, int way);

/* One call of it to its end, with the tensors at these device addresses, NULL for those that the pass has not, and
 * `others`, of which the sinks, their gradient, that of LSE and the scales are taken; the check fails unless both are
 * well. */
void experiment_call(const struct subject *subject, enum glint_pass pass, const struct glint_plan *plan, void *const at[TENSORS],
                     const struct glint_tensors *others, void *workspace);

/* Runs the variant of that pass, and fails the check unless it says GLINT_OK, leaves every byte alone that is not an
 * element of an output (inputs, gaps between rows, both sides of every buffer and of the workspace), and accepts a
 * workspace of exact size. */
struct results experiment_run(struct experiment *e, enum glint_pass pass, struct how how);

/* The variant under test, serial, workspace full of 0xAA. */
struct results experiment_run_plainly(struct experiment *e);

/* The forward pass for use inside a check of the backward: by the linked forward variant if there is one, else by the
 * reference. */
struct results experiment_forward(struct experiment *e);

#endif
