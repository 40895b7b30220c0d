/* How a problem is cut into tasks, and where everything lies in the workspace: one function counts and places. */
#include "lib/cpu/cpu.h"
#include "lib/layout.h"

/* Backward sums dQ within groups of key blocks, and the groups in order. The number of groups may depend on seqlen_k
 * alone: the bits of a sequence's gradient must not depend on what else is in its batch, nor on the number of
 * threads. */
#define KEYS_PER_GROUP 512
#define MAX_KEY_GROUPS 4

#define TASKS_PER_BODY 4
#define MAX_BLOCKS_PER_TASK 16

#define LINE 16 /* floats; regions start on cache lines, so that lanes share none */

static int64_t divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Rows of a panel of a bias: those that are brought together with the last key, too. */
static uint64_t bias_rows(const struct glint_variant *variant)
{
    return (variant->features & GLINT_FEATURE_BIAS) != 0 ? (uint64_t)variant->tile_n + 16 : 0;
}

/* Rows of a panel of a tree: a word a pair, all ones where the query sees the key. */
static uint64_t tree_rows(const struct glint_variant *variant)
{
    return (variant->features & GLINT_FEATURE_TREE) != 0 ? variant->tile_n : 0;
}

/* Query blocks of a task share the keys that it brings into scratch; as many as leave every body a few tasks, of all
 * `tiles`. 32 at most instead of 16 read the keys less often and are no faster: the blocks themselves no longer stay
 * in the second-level cache. */
static int64_t most_blocks(int64_t tiles, uint32_t concurrency)
{
    const int64_t most = tiles / (TASKS_PER_BODY * (int64_t)concurrency);
    return most < 1 ? 1 : most > MAX_BLOCKS_PER_TASK ? MAX_BLOCKS_PER_TASK : most;
}

static void group_query_blocks(struct glint_cpu_geometry *g, int64_t most)
{
    g->tasks_per_head = divide_up(g->query_blocks, most);
    g->blocks_per_task = g->tasks_per_head > 0 ? divide_up(g->query_blocks, g->tasks_per_head) : 0;
    g->tasks_per_head = g->blocks_per_task > 0 ? divide_up(g->query_blocks, g->blocks_per_task) : 0;
}

/* Blocks of a problem, or of one of its sequences. They depend on lengths and heads only. */
static void count_blocks(const struct glint_variant *variant, const struct glint_problem *p, struct glint_cpu_geometry *g)
{
    const int64_t rows = variant->queries_up_to > 0 ? p->heads_q / p->heads_kv * p->seqlen_q : p->seqlen_q;
    g->query_blocks = divide_up(rows, variant->tile_m);
    g->key_blocks = divide_up(p->seqlen_k, variant->tile_n);
    g->key_groups = divide_up(p->seqlen_k, KEYS_PER_GROUP);
    g->key_groups = g->key_groups < 1 ? 1 : g->key_groups > MAX_KEY_GROUPS ? MAX_KEY_GROUPS : g->key_groups;
    if (g->key_groups > g->key_blocks && g->key_blocks > 0)
        g->key_groups = g->key_blocks;
    g->split = 1;
}

static bool packs_tiles(const struct glint_variant *variant)
{
    return variant->isa == GLINT_ISA_X86_64_AMX || variant->isa == GLINT_ISA_X86_64_BF16;
}

/* Floats of dQ of a query block, as a split task of backward leaves it. */
static uint64_t block_of_dq(const struct glint_variant *variant)
{
    const uint64_t dim = variant->head_dim, rows = variant->tile_m;
    return packs_tiles(variant) ? GLINT_AMX_DIM(dim) * rows : dim * GLINT_CPU_PITCH(rows);
}

/* Tasks of both phases and what a split one leaves, when it is known how they are cut: blocks_per_task,
 * tasks_per_head, split. */
static bool count_tasks(const struct glint_variant *variant, const struct glint_problem *p, struct glint_cpu_geometry *g)
{
    const int64_t pairs = p->batch * p->heads_kv, heads = p->batch * p->heads_q;
    g->tasks[1] = 0;
    g->partial_floats = 0;
    if (variant->queries_up_to > 0) {
        if (__builtin_mul_overflow(pairs, g->query_blocks, &g->tasks[0]))
            return false;
        if (g->split > 1) {
            g->tasks[1] = g->tasks[0];
            g->partial_floats = (uint64_t)p->seqlen_q * GLINT_DEC_PITCH((uint64_t)variant->head_dim);
        }
        return !__builtin_mul_overflow(g->tasks[0], g->split, &g->tasks[0]);
    }
    if (variant->pass == GLINT_FORWARD)
        return !__builtin_mul_overflow(heads, g->tasks_per_head, &g->tasks[0]);
    g->tasks[0] = pairs * g->split;
    if (g->split > 1)
        g->partial_floats = (uint64_t)g->query_blocks * block_of_dq(variant);
    return g->split == 1 || !__builtin_mul_overflow(heads, g->query_blocks, &g->tasks[1]);
}

void glint_cpu_sequence_geometry(const struct glint_variant *variant, const struct glint_problem *sequence, int64_t most,
                                 struct glint_cpu_geometry *g)
{
    const bool split = g->split > 1;
    count_blocks(variant, sequence, g);
    if (variant->queries_up_to == 0 && variant->pass == GLINT_FORWARD)
        group_query_blocks(g, most);
    else if (split)
        g->split = variant->queries_up_to == 0 ? g->key_groups : g->key_blocks > 1 ? g->key_blocks : 1;
    (void)count_tasks(variant, sequence, g); /* no more than those of the bounds: they fit */
}

int64_t glint_cpu_most_blocks(const struct glint_cpu_geometry *g, int64_t tiles, uint32_t concurrency)
{
    const int64_t most = most_blocks(tiles, concurrency);
    return most < g->blocks_per_task || g->blocks_per_task == 0 ? most : g->blocks_per_task;
}

/* Query blocks of one head in all sequences together, at most, where a query has `rows` rows and a sequence of the
 * bounds has `blocks`. */
static int64_t blocks_of_batch(const struct glint_variant *variant, const struct glint_problem *p, int64_t rows, int64_t blocks)
{
    int64_t product;
    const int64_t all = __builtin_mul_overflow(p->batch, blocks, &product) ? INT64_MAX : product;
    const int64_t ragged = rows * p->rows_q / variant->tile_m + p->batch;
    return p->lengths == GLINT_LENGTHS_RAGGED && ragged < all ? ragged : all;
}

/* Workspace: the shares of the tasks, what bodies work on and the sequences where these have lengths of their own, what
 * split ones leave, what each head of each sequence gives to its sink's gradient, sums of dBias, the scratches. A split
 * sequence leaves `rows` of `floats` of each head and part. */
static bool lay_out_workspace(const struct glint_variant *variant, const struct glint_problem *problem, uint64_t rows,
                              uint64_t floats, struct glint_cpu_geometry *g, uint64_t *bytes)
{
    enum { SHARES, WORKS, SEQUENCES, PARTIALS, SINKS, DBIAS, SCRATCHES, ARRAYS };
    const bool own_lengths = problem->lengths != GLINT_LENGTHS_HOST;
    const uint64_t heads = (uint64_t)problem->heads_q, batch = (uint64_t)problem->batch, lanes = (uint64_t)g->lanes;
    const uint64_t bodies = lanes > 0 ? lanes : 1;
    const uint64_t partials = g->split > 1 ? (uint64_t)g->split * heads : 0;
    const bool sinks = variant->pass == GLINT_BACKWARD && problem->sinks != 0;
    uint64_t of_dbias = variant->pass == GLINT_BACKWARD && problem->dbias != 0;
    if (partials > 0 && __builtin_mul_overflow(rows, floats, &floats))
        return false;
    if (of_dbias > 0 && __builtin_mul_overflow((uint64_t)(glint_cpu_dbias_groups(problem) * glint_cpu_dbias_slots(problem)),
                                               (uint64_t)(g->key_blocks * variant->tile_n), &of_dbias))
        return false;
    const struct glint_array array[ARRAYS] = {
        [SHARES] = {bodies, LINE},
        [WORKS] = {own_lengths ? bodies : 0, sizeof(struct glint_cpu_work) / 4},
        [SEQUENCES] = {own_lengths ? batch + 1 : 0, sizeof(struct glint_cpu_sequence) / 4},
        [PARTIALS] = {partials, floats},
        [SINKS] = {!sinks        ? 0
                   : own_lengths ? batch
                                 : 1,
                   own_lengths ? GLINT_CPU_LINE(heads) : batch * heads},
        [DBIAS] = {of_dbias, (uint64_t)(g->query_blocks * GLINT_CPU_PITCH(variant->tile_m))},
        [SCRATCHES] = {lanes, g->region[GLINT_CPU_REGIONS]},
    };
    uint64_t at[ARRAYS + 1] = {0};
    if (!glint_place_arrays(array, ARRAYS, LINE, at))
        return false;
    g->partials_offset = 4 * at[PARTIALS];
    g->dbias_offset = 4 * at[DBIAS];
    g->scratch_offset = 4 * at[SCRATCHES];
    *bytes = 4 * at[ARRAYS];
    return true;
}

/* What a task has in its scratch: blocks, and copies of dQ, two where it sums key groups. */
struct cut {
    uint64_t query_blocks, key_blocks, dq_copies;
};

/* The lines of scratch.h, of each kind of kernel: of vectors of float32, then of packed tiles. */
struct region {
    uint16_t times;
    uint8_t shift; /* so many bits to the right, numbers are words of 4 bytes */
    uint8_t extent[3];
};

enum kind { FORWARD, BACKWARD, DECODE, KINDS };
enum { F32, BF16 };
enum extent {
#define EXTENT(name, value) name,
    GLINT_CPU_EXTENTS(EXTENT)
#undef EXTENT
        EXTENTS
};

#define REGION(name, shift, times, ...) {times, shift, {__VA_ARGS__}},
/* clang-format off */
static const struct region regions[2][KINDS][GLINT_CPU_LOGITS] = {
    {
        [FORWARD] = {GLINT_CPU_FORWARD_SCRATCH(REGION)},
        [BACKWARD] = {GLINT_CPU_BACKWARD_SCRATCH(REGION)},
        [DECODE] = {GLINT_CPU_DECODE_SCRATCH(REGION)},
    }, {
        [FORWARD] = {GLINT_CPU_AMX_FORWARD_SCRATCH(REGION)},
        [BACKWARD] = {GLINT_CPU_AMX_BACKWARD_SCRATCH(REGION)},
        [DECODE] = {GLINT_CPU_AMX_DECODE_SCRATCH(REGION)},
    },
};
/* clang-format on */
#undef REGION

static const struct region *regions_of(const struct glint_variant *variant, enum kind kind)
{
    return regions[packs_tiles(variant)][kind];
}

/* Words of 4 bytes of a region. False: they do not fit in 64 bits. */
static bool words_of(const struct region *region, const uint64_t *extent, uint64_t *words)
{
    uint64_t lines, rows, numbers;
    if (__builtin_mul_overflow(region->times, extent[region->extent[0]], &lines) ||
        __builtin_mul_overflow(lines, extent[region->extent[1]], &rows) ||
        __builtin_mul_overflow(rows, extent[region->extent[2]], &numbers))
        return false;
    *words = numbers >> region->shift;
    return true;
}

/* Where each region of a lane's scratch begins, and its size. A kind with fewer regions has empty ones behind them. */
static bool lay_out_scratch(const struct region *region, const struct glint_variant *row, const struct glint_problem *problem,
                            const struct cut *cut, struct glint_cpu_geometry *g)
{
#define EXTENT(name, value) value,
    const uint64_t extent[EXTENTS] = {GLINT_CPU_EXTENTS(EXTENT)};
#undef EXTENT
    struct glint_array array[GLINT_CPU_REGIONS] = {[GLINT_CPU_LOGITS] = {1, extent[LOGITS]}};
    for (int i = 0; i < GLINT_CPU_LOGITS; i++) {
        array[i].each = 1;
        if (!words_of(&region[i], extent, &array[i].count))
            return false;
    }
    return glint_place_arrays(array, GLINT_CPU_REGIONS, LINE, g->region);
}

/* What a split sequence leaves of one head and part: rows of so many floats. */
struct remains {
    uint64_t rows, floats;
};

/* How the tasks of decode, of forward and of backward are cut, and a lane's scratch. */
static bool share_decode(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                         struct glint_cpu_geometry *g, struct remains *remains)
{
    const int64_t few = TASKS_PER_BODY * (int64_t)concurrency, group = problem->heads_q / problem->heads_kv;
    int64_t tiles = blocks_of_batch(variant, problem, group, g->query_blocks);
    if (__builtin_mul_overflow(problem->heads_kv, tiles, &tiles))
        return false;
    /* Chunks of keys are tasks of their own where bodies would be idle otherwise; never of many queries, whose
     * partial results would take more than linear room. The bits are the same. */
    if (concurrency > 1 && g->key_blocks > 1 && tiles < few && problem->seqlen_q <= (int64_t)variant->queries_up_to)
        g->split = g->key_blocks;
    remains->rows = (uint64_t)(problem->batch * problem->seqlen_q);
    if (problem->lengths == GLINT_LENGTHS_RAGGED && remains->rows > (uint64_t)problem->rows_q)
        remains->rows = (uint64_t)problem->rows_q;
    remains->floats = GLINT_DEC_PITCH((uint64_t)variant->head_dim);
    const struct cut cut = {0, 0, 0};
    return lay_out_scratch(regions_of(variant, DECODE), variant, problem, &cut, g);
}

static bool share_forward(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                          struct glint_cpu_geometry *g)
{
    int64_t tiles = blocks_of_batch(variant, problem, 1, g->query_blocks);
    if (__builtin_mul_overflow(problem->heads_q, tiles, &tiles))
        return false;
    group_query_blocks(g, most_blocks(tiles, concurrency));
    const struct cut cut = {(uint64_t)g->blocks_per_task, 0, 0};
    return lay_out_scratch(regions_of(variant, FORWARD), variant, problem, &cut, g);
}

static bool share_backward(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                           struct glint_cpu_geometry *g, struct remains *remains)
{
    const bool own_lengths = problem->lengths != GLINT_LENGTHS_HOST;
    const int64_t few = TASKS_PER_BODY * (int64_t)concurrency, pairs = problem->batch * problem->heads_kv;
    /* One sequence may be much longer than the others: it is split as it would be alone. With dBias it is not, as key
     * groups of sequences of several lengths would meet in the sums. */
    if (concurrency > 1 && (own_lengths ? problem->heads_kv : pairs) < few && !(own_lengths && problem->dbias != 0))
        g->split = g->key_groups;
    /* A sequence shorter than its bound may have fewer groups, and more blocks in each; with one group it is not
     * split. */
    const int64_t of_group = divide_up(KEYS_PER_GROUP, variant->tile_n),
                  shorter = of_group < g->key_blocks ? of_group : g->key_blocks;
    int64_t blocks = divide_up(g->key_blocks, g->split);
    if (own_lengths && blocks < shorter)
        blocks = shorter;
    const struct cut cut = {(uint64_t)g->query_blocks, (uint64_t)blocks, g->split > 1 ? own_lengths : g->key_groups > 1 ? 2 : 1};
    remains->rows = (uint64_t)blocks_of_batch(variant, problem, 1, g->query_blocks);
    remains->floats = block_of_dq(variant);
    return lay_out_scratch(regions_of(variant, BACKWARD), variant, problem, &cut, g);
}

/* Everything but where arrays lie in the workspace. */
static bool share_out(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                      struct glint_cpu_geometry *g, struct remains *remains)
{
    count_blocks(variant, problem, g);
    const bool fits = variant->queries_up_to > 0       ? share_decode(variant, problem, concurrency, g, remains)
                      : variant->pass == GLINT_FORWARD ? share_forward(variant, problem, concurrency, g)
                                                       : share_backward(variant, problem, concurrency, g, remains);
    if (!fits || !count_tasks(variant, problem, g))
        return false;
    /* Never more scratches than tasks that need one: the second phase makes do with the lanes of the first. */
    g->lanes = g->tasks[0] < (int64_t)concurrency ? g->tasks[0] : (int64_t)concurrency;
    return true;
}

bool glint_cpu_geometry(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                        struct glint_cpu_geometry *geometry, uint64_t *bytes)
{
    struct glint_cpu_geometry g = {0};
    struct remains remains = {0, 0};
    if (!share_out(variant, problem, concurrency, &g, &remains) ||
        !lay_out_workspace(variant, problem, remains.rows, remains.floats, &g, bytes))
        return false;
    *geometry = g;
    return true;
}
