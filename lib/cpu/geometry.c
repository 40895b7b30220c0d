/* How a problem is cut into tasks, and where everything lies in the workspace: one function counts and places. */
#include <string.h>

#include "lib/cpu/cpu.h"

/* Backward sums dQ within groups of key blocks, and the groups in order. The number of groups may depend on seqlen_k alone: the bits of a
 * sequence's gradient must not depend on what else is in its batch, nor on the number of threads. */
#define KEYS_PER_GROUP 512
#define MAX_KEY_GROUPS 4

#define TASKS_PER_BODY 4
#define MAX_BLOCKS_PER_TASK 16

#define LINE 64u /* bytes; regions start on cache lines, so that lanes share none */

static int64_t divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Gives region `index` `count` x `floats` floats at the end of the scratch, in whole cache lines. */
static bool place(struct glint_cpu_geometry *g, int index, uint64_t count, uint64_t floats)
{
    uint64_t size, end;
    if (__builtin_mul_overflow(count, floats, &size) || __builtin_add_overflow(size, LINE / 4 - 1, &size))
        return false;
    if (__builtin_add_overflow(g->region[index], size / (LINE / 4) * (LINE / 4), &end))
        return false;
    g->region[index + 1] = end;
    return true;
}

static bool forward_scratch(const struct glint_variant *variant, struct glint_cpu_geometry *g)
{
    const uint64_t pitch_m = GLINT_CPU_PITCH((uint64_t)variant->tile_m), pitch_d = GLINT_CPU_PITCH((uint64_t)variant->head_dim);
    const uint64_t blocks = (uint64_t)g->blocks_per_task, rows = blocks * variant->head_dim;
    return place(g, GLINT_FWD_Q_T, rows, pitch_m) && place(g, GLINT_FWD_O_T, rows, pitch_m) &&
           place(g, GLINT_FWD_STATS, blocks * 2, pitch_m) && place(g, GLINT_FWD_S_T, variant->tile_n, pitch_m) &&
           place(g, GLINT_FWD_K, variant->tile_n, pitch_d) && place(g, GLINT_FWD_V, variant->tile_n, pitch_d) &&
           place(g, GLINT_FWD_ROW, 8, pitch_d) && place(g, GLINT_FWD_SCALE, 1, pitch_m);
}

static bool amx_forward_scratch(const struct glint_variant *variant, const struct glint_problem *problem,
                                struct glint_cpu_geometry *g)
{
    const uint64_t dim = GLINT_AMX_DIM((uint64_t)variant->head_dim), rows = (uint64_t)g->blocks_per_task * variant->tile_m;
    return place(g, GLINT_AMX_FWD_Q, rows, dim / 2) && place(g, GLINT_AMX_FWD_O, rows, dim) &&
           place(g, GLINT_AMX_FWD_STATS, rows, 2) && place(g, GLINT_AMX_FWD_S, variant->tile_n, 32) &&
           place(g, GLINT_AMX_FWD_K, variant->tile_n, dim / 2) && place(g, GLINT_AMX_FWD_V, variant->tile_n, dim / 2) &&
           place(g, GLINT_AMX_FWD_PAGED, problem->page_rows > 0 ? variant->tile_n : 0, variant->head_dim);
}

/* Query blocks of a task share the keys that it brings into scratch; as many as leave every body a few tasks. 32 at most instead of 16
 * read the keys less often and are no faster: the blocks themselves no longer stay in the second-level cache. */
static void group_query_blocks(struct glint_cpu_geometry *g, int64_t blocks, uint32_t concurrency)
{
    int64_t most = blocks / (TASKS_PER_BODY * (int64_t)concurrency);
    most = most < 1 ? 1 : most > MAX_BLOCKS_PER_TASK ? MAX_BLOCKS_PER_TASK : most;
    g->tasks_per_head = divide_up(g->query_blocks, most);
    g->blocks_per_task = g->tasks_per_head > 0 ? divide_up(g->query_blocks, g->tasks_per_head) : 0;
    g->tasks_per_head = g->blocks_per_task > 0 ? divide_up(g->query_blocks, g->blocks_per_task) : 0;
}

static bool decode_scratch(const struct glint_variant *variant, struct glint_cpu_geometry *g)
{
    const uint64_t rows = variant->tile_m, dim = GLINT_DEC_PITCH((uint64_t)variant->head_dim);
    return place(g, GLINT_DEC_Q, rows, dim) && place(g, GLINT_DEC_O, rows, dim) &&
           place(g, GLINT_DEC_S, rows, (uint64_t)variant->tile_n + 16) && place(g, GLINT_DEC_STATS, 4, rows) &&
           place(g, GLINT_DEC_ALL_O, rows, dim) && place(g, GLINT_DEC_ROW, 1, dim);
}

static bool backward_scratch(const struct glint_variant *variant, struct glint_cpu_geometry *g)
{
    const uint64_t pitch_m = GLINT_CPU_PITCH((uint64_t)variant->tile_m), pitch_d = GLINT_CPU_PITCH((uint64_t)variant->head_dim);
    const uint64_t blocks = (uint64_t)g->query_blocks, head = blocks * variant->head_dim, rows = blocks * variant->tile_m;
    const uint64_t keys = (uint64_t)divide_up(g->key_blocks, g->split) * variant->tile_n;
    const uint64_t dq_copies = g->split > 1 ? 0 : g->key_groups > 1 ? 2 : 1;
    return place(g, GLINT_BWD_Q_T, head, pitch_m) && place(g, GLINT_BWD_DO_T, head, pitch_m) &&
           place(g, GLINT_BWD_DQ_T, dq_copies * head, pitch_m) && place(g, GLINT_BWD_Q, rows, pitch_d) &&
           place(g, GLINT_BWD_DO, rows, pitch_d) && place(g, GLINT_BWD_STATS, blocks * 2, pitch_m) &&
           place(g, GLINT_BWD_DK, keys, pitch_d) && place(g, GLINT_BWD_DV, keys, pitch_d) &&
           place(g, GLINT_BWD_K, variant->tile_n, pitch_d) && place(g, GLINT_BWD_V, variant->tile_n, pitch_d) &&
           place(g, GLINT_BWD_P_T, variant->tile_n, pitch_m) && place(g, GLINT_BWD_DS_T, variant->tile_n, pitch_m) &&
           place(g, GLINT_BWD_ROW, 8, pitch_d) && place(g, GLINT_BWD_O_T, variant->head_dim, 16);
}

static bool amx_backward_scratch(const struct glint_variant *variant, struct glint_cpu_geometry *g)
{
    const uint64_t dim = GLINT_AMX_DIM((uint64_t)variant->head_dim), rows = (uint64_t)g->query_blocks * variant->tile_m;
    const uint64_t keys = (uint64_t)divide_up(g->key_blocks, g->split) * variant->tile_n;
    const uint64_t dq_copies = g->split > 1 ? 0 : g->key_groups > 1 ? 2 : 1;
    return place(g, GLINT_AMX_BWD_Q, rows, dim / 2) && place(g, GLINT_AMX_BWD_DOUT, rows, dim / 2) &&
           place(g, GLINT_AMX_BWD_Q_PAIRS, rows, dim / 2) && place(g, GLINT_AMX_BWD_DOUT_PAIRS, rows, dim / 2) &&
           place(g, GLINT_AMX_BWD_STATS, rows, 3) && place(g, GLINT_AMX_BWD_DQ, dq_copies * rows, dim) &&
           place(g, GLINT_AMX_BWD_DK, keys, dim) && place(g, GLINT_AMX_BWD_DV, keys, dim) &&
           place(g, GLINT_AMX_BWD_K, variant->tile_n, dim / 2) && place(g, GLINT_AMX_BWD_V, variant->tile_n, dim / 2) &&
           place(g, GLINT_AMX_BWD_K_T, variant->tile_n, dim / 2) && place(g, GLINT_AMX_BWD_S, variant->tile_n, 2 * 32) &&
           place(g, GLINT_AMX_BWD_P, variant->tile_n, variant->tile_m);
}

bool glint_cpu_geometry(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                        struct glint_cpu_geometry *geometry)
{
    struct glint_cpu_geometry g;
    memset(&g, 0, sizeof g);
    g.query_blocks = divide_up(problem->seqlen_q, variant->tile_m);
    g.key_blocks = divide_up(problem->seqlen_k, variant->tile_n);
    g.key_groups = g.split = 1;

    const bool amx = variant->isa == GLINT_ISA_X86_64_AMX && variant->queries_up_to == 0;
    int64_t heads, tiles;
    int last;
    if (variant->queries_up_to > 0) {
        const int64_t group = problem->heads_q / problem->heads_kv, rows = group * problem->seqlen_q;
        heads = problem->batch * problem->heads_kv;
        g.query_blocks = divide_up(rows, variant->tile_m);
        if (__builtin_mul_overflow(heads, g.query_blocks, &g.tasks[0]) || !decode_scratch(variant, &g))
            return false;
        /* Chunks of keys are tasks of their own where bodies would be idle otherwise; never of many queries, whose partial results would
         * take more than linear room. The bits are the same. */
        if (concurrency > 1 && g.key_blocks > 1 && g.tasks[0] < TASKS_PER_BODY * (int64_t)concurrency &&
            problem->seqlen_q <= (int64_t)variant->queries_up_to) {
            g.split = g.key_blocks;
            g.tasks[1] = g.tasks[0];
            g.tasks[0] *= g.split;
            g.partial_floats = (uint64_t)problem->seqlen_q * GLINT_DEC_PITCH((uint64_t)variant->head_dim);
        }
        last = GLINT_DEC_REGIONS;
    } else if (variant->pass == GLINT_FORWARD) {
        heads = problem->batch * problem->heads_q;
        if (__builtin_mul_overflow(heads, g.query_blocks, &tiles))
            return false;
        group_query_blocks(&g, tiles, concurrency);
        if (!(amx ? amx_forward_scratch(variant, problem, &g) : forward_scratch(variant, &g)))
            return false;
        g.tasks[0] = heads * g.tasks_per_head;
        last = amx ? (int)GLINT_AMX_FWD_REGIONS : (int)GLINT_FWD_REGIONS;
    } else {
        heads = problem->batch * problem->heads_kv;
        g.key_groups = divide_up(problem->seqlen_k, KEYS_PER_GROUP);
        g.key_groups = g.key_groups < 1 ? 1 : g.key_groups > MAX_KEY_GROUPS ? MAX_KEY_GROUPS : g.key_groups;
        if (g.key_groups > g.key_blocks && g.key_blocks > 0)
            g.key_groups = g.key_blocks;
        if (concurrency > 1 && heads < TASKS_PER_BODY * (int64_t)concurrency)
            g.split = g.key_groups;
        if (!(amx ? amx_backward_scratch(variant, &g) : backward_scratch(variant, &g)))
            return false;
        g.tasks[0] = heads * g.split;
        if (g.split > 1) {
            if (__builtin_mul_overflow(problem->batch * problem->heads_q, g.query_blocks, &tiles))
                return false;
            g.tasks[1] = tiles;
            g.partial_floats = (uint64_t)g.query_blocks * (amx ? GLINT_AMX_DIM((uint64_t)variant->head_dim) * variant->tile_m
                                                               : variant->head_dim * GLINT_CPU_PITCH((uint64_t)variant->tile_m));
        }
        last = amx ? (int)GLINT_AMX_BWD_REGIONS : (int)GLINT_BWD_REGIONS;
    }

    /* Never more scratches than tasks that need one: the second phase makes do with the lanes of the first. */
    g.lanes = g.tasks[0] < (int64_t)concurrency ? g.tasks[0] : (int64_t)concurrency;
    g.region[GLINT_CPU_REGIONS] = g.region[last];

    /* Workspace: the shares of the tasks, the partial sums of dQ and of the sinks' gradients, the scratches. */
    uint64_t partials, scratches;
    if (__builtin_mul_overflow((uint64_t)g.split * (uint64_t)(problem->batch * problem->heads_q), g.partial_floats, &partials) ||
        __builtin_mul_overflow((uint64_t)g.lanes, g.region[GLINT_CPU_REGIONS], &scratches))
        return false;
    if (variant->pass == GLINT_BACKWARD &&
        problem->sinks != 0) { /* and what each head of each sequence gives to its sink's gradient */
        const uint64_t heads_lines = ((uint64_t)(problem->batch * problem->heads_q) + LINE / 4 - 1) / (LINE / 4);
        if (__builtin_add_overflow(partials, heads_lines * (LINE / 4), &partials))
            return false;
    }
    g.partials_offset = (uint64_t)(g.lanes > 0 ? g.lanes : 1) * LINE;
    if (__builtin_add_overflow(partials, scratches, &scratches) || scratches > (uint64_t)INT64_MAX / 4 - LINE)
        return false;
    g.scratch_offset = g.partials_offset + 4 * partials;
    g.workspace_bytes = g.partials_offset + 4 * scratches;
    *geometry = g;
    return true;
}
