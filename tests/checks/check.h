/* The vocabulary of the checks. A check is a named function over a subject (a variant on a backend) and a shape; it
 * either returns or calls check_fail, which says what was wrong and never returns. Memory from check_memory lives
 * until the check ends. */
#ifndef GLINT_TESTS_CHECK_H
#define GLINT_TESTS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/glint.h"
#include "tests/checks/backend.h"

/* How the tensors lie in memory. */
enum layout {
    LAYOUT_BSHD,
    LAYOUT_BHSD,
    LAYOUT_SBHD,      /* sequence first */
    LAYOUT_PADDED,    /* BHSD with gaps between rows, heads and batches */
    LAYOUT_MIXED,     /* every tensor another one */
    LAYOUT_FUSED,     /* Q, K, V are views of one [batch, seqlen, heads_q + 2 heads_kv, head_dim]; so are dQ, dK, dV */
    LAYOUT_BROADCAST, /* inputs share batches or heads: stride 0 */
    LAYOUT_ONE_ROW,   /* all keys are one row of memory, and all queries: row stride 0 */
    LAYOUTS
};

/* What the tensors hold. V and dO are normal unless said. */
enum data {
    DATA_NORMAL,
    DATA_GRID,           /* multiples of `step`, so that adding `step` is exact in every dtype */
    DATA_LOW,            /* logits about -100: exp(LSE) underflows, exp(-LSE) overflows */
    DATA_HIGH,           /* logits about +100 */
    DATA_BELOW_SENTINEL, /* logits about -61440, exact in every dtype; below the -5e4 that some kernels use as -infinity */
    DATA_RISING,         /* logits grow by about 3 a key: the running maximum changes in every tile */
    DATA_FALLING,        /* and the reverse: all later tiles are negligible */
    DATA_ONE_HOT,        /* few keys matter: logits of +-30 */
    DATA_KINDS
};

struct shape {
    int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
    enum glint_mask mask;
    int64_t window_left, window_right, diagonal;
    enum layout layout;
    enum data data;
    float softmax_scale; /* 0: 1 / sqrt(head_dim); `zero_scale` for a real 0 */
    bool zero_scale;
    float softcap;  /* 0: none */
    bool sinks;     /* a logit a query head in the denominators, about 1 */
    bool dlse;      /* backward: LSE has a gradient, too */
    bool max_logit; /* forward: the largest logits are written */
    enum { NO_ALIBI, ZERO_SLOPES, SLOPES } alibi;
    enum { NO_BIAS, ZERO_BIAS, BIAS, ALIBI_AS_BIAS } bias; /* a tensor */
    unsigned bias_shared;                                  /* set of SHARED_*: dimensions that it broadcasts */
    bool bias_narrow;                                      /* of the row's dtype */
    bool bias_turned;                                      /* in memory queries follow one another, not keys */
    bool dbias;                                            /* backward: with its gradient */
    enum { NO_INTERVALS, MASK_AS_INTERVALS, WIDE_INTERVALS, OWN_INTERVALS } intervals; /* own: as `pattern` says, beside the mask */
    enum {
        PATTERN_ANY,
        PATTERN_PREFIX,
        PATTERN_BLOCKS,
        PATTERN_CHUNKS,
        PATTERN_PADDING,
        PATTERNS,
        PATTERN_APART,
        PATTERN_FAR,
        PATTERN_MIDDLE
    } pattern;
    /* All bits, or what the mask says, which is in the intervals then, or in both; a chain; guesses; any bits; all but a few. */
    enum { NO_TREE, WIDE_TREE, MASK_AS_TREE, CHAIN_TREE, OWN_TREE, ANY_TREE, HOLES_TREE } tree;
    float step; /* DATA_GRID */
    uint64_t seed;
    int64_t detail; /* what the check makes of it; of PATTERN_APART and _FAR: queries with one interval */
    int way;        /* decode on a GPU: 0: plans are the device's; else of experiment_share_out */
};

/* How to run: the bits of the results must not depend on any of it. */
enum lanes { LANES_SERIAL, LANES_REVERSED_2, LANES_THREADS_5, LANES_KINDS };
enum poison { POISON_AA, POISON_SIGNALLING_NAN };
struct how {
    enum lanes lanes;
    enum poison poison;
    enum fence fence;
};

/* The variant under test. */
struct subject {
    const struct backend *backend;
    struct glint_variant_info info;
    uint32_t variant;
    struct glint_context *context[LANES_KINDS];
    uint32_t multiprocessors; /* of a GPU that plans are made for; 0: as many as it has */
    bool reads_lengths;       /* a forward row of a GPU that takes lengths of the device; variant_checks sets it */
};

struct check {
    char name[64];
    struct subject *subject;
    void (*run)(struct subject *subject, const struct shape *shape);
    struct shape shape;
    bool threads; /* it uses several */
};

struct check_list {
    struct subject *subject; /* of the checks that are added; NULL when they need no variant (then target is given) */
    const char *target;      /* the Bazel target, for messages; NULL: the variant's own */
    struct check *at;
    size_t count, capacity;
};

void checks_add(struct check_list *list, void (*run)(struct subject *, const struct shape *), const struct shape *shape,
                const char *name, ...) __attribute__((format(printf, 4, 5)));
void checks_free(struct check_list *list);

/* Every check of list->subject: the files of checks add theirs. */
void gradient_checks(struct check_list *list, const struct subject *subject);
void laws_checks(struct check_list *list, const struct subject *subject);
void special_values_checks(struct check_list *list, const struct subject *subject);
void far_checks(struct check_list *list, const struct subject *subject);
void lengths_checks(struct check_list *list, struct subject *subject);
void ragged_checks(struct check_list *list, struct subject *subject);
/* Those that came later: a check's numbers are drawn by its place in the list, and those before them keep theirs. */
void later_gradient_checks(struct check_list *list, const struct subject *subject);
void later_laws_checks(struct check_list *list, const struct subject *subject);
void later_special_values_checks(struct check_list *list, const struct subject *subject);
void intervals_checks(struct check_list *list, struct subject *subject);
void bad_pages_checks(struct check_list *list, struct subject *subject);
void apart_checks(struct check_list *list, const struct subject *subject);
void each_key_checks(struct check_list *list, const struct subject *subject);
void divided_laws_checks(struct check_list *list, struct subject *subject);
void divided_lengths_checks(struct check_list *list, struct subject *subject);
void divided_ragged_checks(struct check_list *list, struct subject *subject);
void many_rows_checks(struct check_list *list, struct subject *subject);
void edges_checks(struct check_list *list, const struct subject *subject);
void blind_rows_checks(struct check_list *list, const struct subject *subject);
void edge_columns_checks(struct check_list *list, const struct subject *subject);
void each_end_checks(struct check_list *list, struct subject *subject);
void step_laws_checks(struct check_list *list, struct subject *subject);
void long_keys_checks(struct check_list *list, struct subject *subject);
void infinite_values_checks(struct check_list *list, const struct subject *subject);
void partial_tiles_checks(struct check_list *list, const struct subject *subject);
void later_step_laws_checks(struct check_list *list, struct subject *subject);
void alone_checks(struct check_list *list, const struct subject *subject);
void ragged_ends_checks(struct check_list *list, struct subject *subject);
void intervals_ends_checks(struct check_list *list, struct subject *subject);
void interval_laws_checks(struct check_list *list, struct subject *subject);
void logit_checks(struct check_list *list, struct subject *subject);
void tree_checks(struct check_list *list, struct subject *subject);
void tree_special_checks(struct check_list *list, const struct subject *subject);
void tree_laws_checks(struct check_list *list, const struct subject *subject);
void tree_sequences_checks(struct check_list *list, struct subject *subject);
void variant_checks(struct check_list *list);
/* The checks whose outcome the format of the numbers decides: for a variant whose kernel is, but for the format, the
 * text of a variant that has every check. */
void formats_checks(struct check_list *list);
/* Of several variants that differ by their sizes alone, the checks that the one of number `share` of `shares` runs:
 * all, but of the rules (laws, special values, derivatives) only those that fall to it by their names. */
void share_checks(struct check_list *list, uint32_t share, uint32_t shares);
/* Only the checks that a file names, one a line, in the list's order. False, with a message: the file cannot be read, or
 * names a check that the list has not. */
bool dealt_checks(struct check_list *list, const char *path);

/* The library's row with this name. False: no such row. */
bool subject_open(struct subject *subject, const struct backend *backend, const char *variant_name);
void subject_open_index(struct subject *subject, const struct backend *backend, uint32_t index);
void subject_close(struct subject *subject);
struct glint_context *subject_context(struct subject *subject, enum lanes lanes);
/* A forward variant of the subject's dtype, head dim, mask, family and arithmetic that was linked and runs on the
 * device; a forward subject is its own. False: there is none. */
bool subject_forward(struct subject *subject, uint32_t *variant);
/* Whether its checks use sinks, and whether its row caps scores. */
bool subject_checks_sinks(const struct subject *subject);

/* A problem that its row computes, of one query and one key, and whether the row computes a problem. */
struct glint_problem subject_problem(const struct subject *subject);
bool subject_plans(struct subject *subject, const struct glint_problem *problem);
/* Whether it is a forward row that writes the largest logits. */
bool subject_takes_logit(struct subject *subject);

/* Is it a forward row of a GPU that takes lengths of the device, or them and K and V in pages of so many rows? */
bool subject_reads_lengths(struct subject *subject, int64_t page_rows);
bool subject_caps(const struct subject *subject);
/* A server's step plans for all sequences at once. */
bool subject_is_step(const struct subject *subject);
enum { SHARED_BATCH = 1, SHARED_HEAD = 2, SHARED_QUERY = 4, SHARED_KEY = 8, BIAS_OF_LINES = 16 };

/* Whether its row reads intervals, whether it reads a tree, whether it has ALiBi, and whether it has a bias. */
bool subject_intervals(const struct subject *subject);
bool subject_tree(const struct subject *subject);
bool subject_alibi(const struct subject *subject);
bool subject_bias(const struct subject *subject);

/* Bands of both alignments whose sides are unbounded or narrow: sets mask and window of the `which`th that the row
 * serves; false: it serves no more. Beside more queries than keys their diagonal begins before the first key. */
bool subject_band(const struct subject *subject, int which, struct shape *shape);

/* Two of these bands, of a row that has a diagonal, with the diagonal elsewhere: a few keys away, or beyond all of
 * them. */
bool subject_diagonal(const struct subject *subject, int which, struct shape *shape);

/* Runs one check. True when it passed; otherwise message holds a few lines that say why and how to run it again. A
 * check that compared nothing fails. */
bool check_run(const struct check_list *list, const struct check *check, char *message, size_t message_bytes);

/* ---- for use inside checks --------------------------------------------------------------------------------------- */

void check_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void *check_memory(size_t bytes); /* zeroed */
void *check_device_memory(const struct backend *backend, size_t bytes, size_t alignment, enum fence fence);
void check_device_release_all(void);

/* Counts one comparison of `error` with `bound` in a category, for "zero comparisons" and for --margins. Returns
 * error <= bound, and false when either is NaN. */
bool check_within(const char *category, double error, double bound);

/* The name of the check that is running, "" when none is. */
const char *check_running(void);
/* Prints the worst error / bound of every category seen by this process. */
void check_print_margins(void);

#endif
