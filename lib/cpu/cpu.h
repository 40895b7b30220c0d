/* The CPU family: what its planner, its launcher and its emitted kernels share. Internal: not installed.
 *
 * A pass is one or two phases; a phase is a number of independent tasks. Every body of the executor owns one lane's
 * scratch in the workspace and draws tasks from counters that live there too, so any executor works, a serial one
 * included. No result may depend on which body runs a task, on how many there are, or on what else is in the batch. */
#ifndef GLINT_CPU_CPU_H
#define GLINT_CPU_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/cpu/scratch.h"
#include "lib/glint.h"
#include "lib/variant.h"

struct glint_family_plan;

#define GLINT_CPU_PHASES 2

/* How a problem is cut. Pure function of variant, problem and concurrency; all counts exact. glint_cpu_plan puts it
 * into the plan's words, and glint_cpu_run reads it there. */
struct glint_cpu_geometry {
    int64_t tasks[GLINT_CPU_PHASES];
    int64_t query_blocks, key_blocks;
    int64_t blocks_per_task; /* forward: query blocks that share a pass over the keys */
    int64_t tasks_per_head;  /* forward */
    int64_t key_groups;      /* backward: dQ is summed within key blocks kb = g mod key_groups, then over g in order */
    int64_t split; /* backward: key_groups when each group is a task of its own, else 1; decode: key_blocks or 1 likewise */
    uint64_t region[GLINT_CPU_REGIONS + 1]; /* offsets in a lane's scratch in floats; the last is its size */
    uint64_t partial_floats;                /* backward, split: dQ of one (group, batch, head), in the form of GLINT_BWD_DQ_T;
                                               decode, split: what a chunk leaves of one (batch, head) */
    uint64_t partials_offset; /* in the workspace, bytes; after the partials: backward, [batch][heads_q] floats of the sinks */
    uint64_t scratch_offset;  /* in the workspace, bytes: the scratches are its end */
    int64_t lanes;            /* bodies, each with a scratch */
    uint64_t dbias_offset;    /* in the workspace, bytes: struct glint_cpu_dbias says what is there */
};

/* A sequence with lengths of its own, in the workspace: where it begins in ragged tensors, its lengths, and what is
 * before it. */
struct glint_cpu_sequence {
    int32_t first_q, first_k, seqlen_q, seqlen_k;
    int64_t tasks[GLINT_CPU_PHASES];
    uint64_t partials; /* floats */
};

/* Where backward sums dS for dBias: [groups][slots][keys][pitch], transposed as GLINT_BWD_DS_T. A group is `per_group`
 * sequences, one after another, which share their sums; a slot is a query head, or a key head where heads share the
 * bias. Sums depend on the order within a group alone, and the groups on the batch: so neither threads nor lanes are
 * seen in them. */
struct glint_cpu_dbias {
    float *sums;      /* NULL: there is no dBias */
    int64_t sequence; /* of the whole call that the call's first one is */
    int64_t per_group, key_blocks, pitch;
};

#define GLINT_CPU_DBIAS_GROUPS \
    8 /* at most, where all sequences share the bias: tasks enough, and room that is no multiple of the batch */

static inline int64_t glint_cpu_dbias_per_group(const struct glint_problem *p)
{
    return p->bias.batch != 0 ? 1 : (p->batch + GLINT_CPU_DBIAS_GROUPS - 1) / GLINT_CPU_DBIAS_GROUPS;
}

static inline int64_t glint_cpu_dbias_groups(const struct glint_problem *p)
{
    return (p->batch + glint_cpu_dbias_per_group(p) - 1) / glint_cpu_dbias_per_group(p);
}

static inline int64_t glint_cpu_dbias_slots(const struct glint_problem *p)
{
    return p->bias.head != 0 ? p->heads_q : p->heads_kv;
}

static inline float *glint_cpu_dbias_sums(const struct glint_problem *p, const struct glint_cpu_dbias *d, int64_t group,
                                          int64_t slot, int64_t tile_n)
{
    return d->sums + (group * glint_cpu_dbias_slots(p) + slot) * d->key_blocks * tile_n * d->pitch;
}

/* One launch: read by all tasks, written by none. Where sequences have lengths of their own a task is given the problem
 * that its sequence is by itself: a batch of one, with its tensors, its part of the workspace and its geometry. */
struct glint_cpu_call {
    const struct glint_problem *problem;
    const struct glint_tensors *tensors;
    int64_t queries;        /* rows of LSE from head to head: seqlen_q, a bound of it, or all rows of ragged sequences */
    int64_t keys;           /* scales of rows from head to head: seqlen_k, a bound of it, or all rows of ragged sequences */
    struct glint_band band; /* a kernel uses the sides that its mask bounds */
    float *partials;        /* backward: [key_groups][batch][heads_q][partial_floats]
                        decode:   [batch][heads_kv][rows][key_blocks][GLINT_DEC_PITCH(head_dim)]: O, its maximum, its sum of a chunk */
    struct glint_cpu_geometry geometry;
    struct glint_cpu_dbias dbias;
    int64_t tree_words; /* of a query's bits: those of seqlen_q, or of its bound */
};

/* What a body works on where sequences have lengths of their own, in the workspace: the problem that a sequence is, and
 * which tasks of the call are its. */
struct glint_cpu_work {
    _Alignas(64) struct glint_cpu_call call;
    struct glint_problem problem;
    struct glint_tensors tensors;
    int64_t first, end;
};

/* The queries [first, end) see a key; none when that is empty. */
struct glint_cpu_rows {
    int64_t first, end;
};

static inline struct glint_cpu_rows glint_cpu_rows_with_keys(const struct glint_cpu_call *call)
{
    const struct glint_problem *p = call->problem;
    const int64_t end = p->seqlen_k - call->band.first;
    if (p->seqlen_k == 0 || call->band.first > call->band.last)
        return (struct glint_cpu_rows){0, 0};
    return (struct glint_cpu_rows){call->band.last < 0 ? -call->band.last : 0, end < p->seqlen_q ? end : p->seqlen_q};
}

/* The keys [first, end) that a query sees by its band and its interval, which `begin` and `end` have where they are not
 * NULL; none when that is empty. */
struct glint_cpu_keys_seen {
    int64_t first, end;
};

static inline struct glint_cpu_keys_seen glint_cpu_seen_by(const struct glint_problem *p, struct glint_band band,
                                                           const int32_t *begin, const int32_t *end, int64_t query)
{
    struct glint_cpu_keys_seen seen = {glint_between(query + band.first, 0, p->seqlen_k),
                                       glint_between(query + band.last + 1, 0, p->seqlen_k)};
    if (begin && begin[query] > seen.first)
        seen.first = begin[query];
    if (end && end[query] < seen.end)
        seen.end = end[query];
    return seen;
}

/* The bits of a tree, of a sequence: those of query i are the `words` words from bits + i * words on. NULL: none. */
struct glint_cpu_tree {
    const uint32_t *bits;
    int64_t words;
};

static inline bool glint_cpu_tree_has(const uint32_t *row, int64_t slot)
{
    return (row[slot / 32] >> slot % 32 & 1) != 0;
}

/* Word `word` of a row, of which the first `slots` bits count, and how many of its bits are set. */
static inline uint32_t glint_cpu_tree_word(const uint32_t *row, int64_t slots, int64_t word)
{
    const int64_t left = slots - word * 32;
    return left < 32 ? row[word] & ((UINT32_C(1) << left) - 1) : row[word];
}

static inline int64_t glint_cpu_bits_of(uint32_t word)
{
    word -= word >> 1 & 0x55555555;
    word = (word & 0x33333333) + (word >> 2 & 0x33333333);
    return (int64_t)(((word + (word >> 4)) & 0x0f0f0f0f) * UINT32_C(0x01010101) >> 24);
}

static inline int64_t glint_cpu_tree_count(const uint32_t *row, int64_t slots)
{
    int64_t count = 0;
    for (int64_t word = 0; word * 32 < slots; word++)
        count += glint_cpu_bits_of(glint_cpu_tree_word(row, slots, word));
    return count;
}

/* The slot of set bit n of a row, the first one is bit 0; `slots` where it has no so many. */
static inline int64_t glint_cpu_tree_slot(const uint32_t *row, int64_t slots, int64_t n)
{
    for (int64_t word = 0; word * 32 < slots; word++) {
        uint32_t bits = glint_cpu_tree_word(row, slots, word);
        const int64_t count = glint_cpu_bits_of(bits);
        for (; n < count && n > 0; n--)
            bits &= bits - 1;
        if (n == 0 && bits != 0)
            return word * 32 + __builtin_ctz(bits);
        n -= count;
    }
    return slots;
}

/* The same as glint_cpu_seen_by for a query of a tree: from the first key that it sees on, and none where it sees none.
 * Of those after the keys that are before the tree it sees the ones whose bit is set. It stands at the end of these,
 * and the sides of the band count them alone: a call's band is cut to rows and keys, and so is none for them. */
static inline struct glint_cpu_keys_seen glint_cpu_seen_in_tree(const struct glint_problem *p, const int32_t *begin,
                                                                const int32_t *end, struct glint_cpu_tree tree, int64_t query)
{
    const uint32_t *row = tree.bits + query * tree.words;
    const int64_t slots = p->seqlen_q, before = p->seqlen_k - slots, count = glint_cpu_tree_count(row, slots);
    const int64_t stands = count - 1 + (glint_bottom_right(p) ? 0 : -before); /* among the set bits, like both sides */
    const struct glint_band sides = glint_sides_of(p);
    const int64_t first = stands + sides.first, last = stands + sides.last;
    struct glint_cpu_keys_seen seen = {before + first, before + last + 1};
    if (first >= 0)
        seen.first = before + glint_cpu_tree_slot(row, slots, first);
    if (last >= 0)
        seen.end = count > 0 ? before + glint_cpu_tree_slot(row, slots, last < count ? last : count - 1) + 1 : before;
    if (begin && begin[query] > seen.first)
        seen.first = begin[query];
    if (end && end[query] < seen.end)
        seen.end = end[query];
    seen.first = glint_between(seen.first, 0, p->seqlen_k);
    seen.end = glint_between(seen.end, 0, p->seqlen_k);
    while (seen.first < seen.end && seen.first >= before && !glint_cpu_tree_has(row, seen.first - before))
        seen.first++;
    return seen;
}

/* The tree of a sequence. */
static inline struct glint_cpu_tree glint_cpu_tree_of(const struct glint_cpu_call *call, int64_t batch)
{
    const uint32_t *bits = call->tensors->tree_bits;
    return (struct glint_cpu_tree){bits ? bits + batch * call->problem->seqlen_q * call->tree_words : NULL, call->tree_words};
}

/* The intervals of a sequence's queries, or NULL. */
static inline const int32_t *glint_cpu_interval(const struct glint_cpu_call *call, const int32_t *bounds, int64_t batch)
{
    return bounds ? bounds + batch * call->problem->seqlen_q : NULL;
}

/* Where a lane keeps the largest logits that its tasks met, [heads_q], of a problem that asks for them, from the first
 * task to the last. */
static inline float *glint_cpu_max_logit(const struct glint_cpu_call *call, float *scratch)
{
    return scratch + call->geometry.region[GLINT_CPU_LOGITS];
}

/* Where backward leaves what a (batch, query head) pair gives to the gradient of its sink: after the other partial
 * sums. */
static inline float *glint_cpu_sink_delta(const struct glint_cpu_call *call, int64_t batch, int64_t head)
{
    const struct glint_problem *p = call->problem;
    const uint64_t dq = (uint64_t)call->geometry.split * (uint64_t)(p->batch * p->heads_q) * call->geometry.partial_floats;
    return call->partials + dq + batch * p->heads_q + head;
}

/* Where K and V have a key: `rows` keys from it on lie one after another, from row `row` of page `page` on. Linear K
 * and V are a page a sequence, without an end. No entry of the table is followed outside of the pool. */
struct glint_cpu_keys {
    int64_t page, row, rows;
};

static inline struct glint_cpu_keys glint_cpu_keys_at(const struct glint_problem *p, const int32_t *page_table, int64_t sequence,
                                                      int64_t key)
{
    if (p->page_rows == 0)
        return (struct glint_cpu_keys){sequence, key, INT64_MAX};
    const int64_t row = key & (p->page_rows - 1),
                  page = page_table[sequence * p->pages_per_sequence + (key >> __builtin_ctzll((uint64_t)p->page_rows))];
    return (struct glint_cpu_keys){page < 0 ? 0 : page < p->pages ? page : p->pages - 1, row, p->page_rows - row};
}

/* What an emitted kernel file defines, one a phase: glint_<variant>, and glint_<variant>_then where there is a second.
 * The planner reads everything else from the variant's row of the table. */
typedef void glint_cpu_phase_fn(const struct glint_cpu_call *call, float *scratch, int64_t task);

/* Runs a task of a phase of a row's kernel; `kernel` is glint_variant.kernel. Emitted with the table: a switch, whose
 * calls need no pointers in data. */
void glint_cpu_run_task(uint32_t kernel, uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task);

/* bytes: of the workspace. false: a byte count does not fit in 63 bits. Pure. */
bool glint_cpu_geometry(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                        struct glint_cpu_geometry *geometry, uint64_t *bytes);

/* Makes the geometry of the bounds that of a sequence, a problem with a batch of one: its blocks, tasks and
 * partial_floats. `most`: blocks that a task of forward may have, from glint_cpu_most_blocks for the `tiles` of all
 * heads that there are. Regions stay. */
void glint_cpu_sequence_geometry(const struct glint_variant *variant, const struct glint_problem *sequence, int64_t most,
                                 struct glint_cpu_geometry *geometry);
int64_t glint_cpu_most_blocks(const struct glint_cpu_geometry *bounds, int64_t tiles, uint32_t concurrency);

/* Members of glint_cpu_backend: launch.c. */
bool glint_cpu_plan(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                    struct glint_family_plan *plan);
enum glint_status glint_cpu_run(const struct glint_context *context, const struct glint_variant *variant,
                                const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace, void *stream);

/* Where sequence b begins in the rows of one side of a batch, and its length. Ragged sequences follow one another, so a
 * first row before that of the sequence before is that one's, and none lies beyond the rows. */
struct glint_cpu_side {
    const int32_t *first, *lengths; /* of the call; each may be NULL */
    int64_t bound, rows;            /* of a sequence; of all, where first is given */
    int64_t end; /* where the next sequence may begin: 0 before the first one. Sequences are asked for in order */
};
struct glint_cpu_place {
    int64_t at, length;
    int64_t given; /* the length before it was clamped to what there is */
    bool right;    /* all was in order */
};
struct glint_cpu_place glint_cpu_place_of(struct glint_cpu_side *side, int64_t b);

/* Bit mask of 1 << enum glint_isa: what this CPU and its operating system can run. Whether the process may use AMX is
 * not seen here. */
uint32_t glint_cpu_probe(void);

/* Likewise: those that this CPU runs no faster than a lower one. A plan takes them where there is nothing else. */
uint32_t glint_cpu_slow(void);

/* append.c, merge.c. */
enum glint_status glint_cpu_append(const struct glint_context *context, const struct glint_plan *plan,
                                   const struct glint_append *append, const struct glint_tensors *tensors, void *stream);
enum glint_status glint_cpu_merge(const struct glint_context *context, const struct glint_merge *merge, void *stream);

#endif
