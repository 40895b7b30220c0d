/* What a GPU is told to do: blocks, sections, parts and the workspace of some twenty problems of each kind of row, as
 * launches.txt keeps them, on 16 multiprocessors, and on 132 where that is another plan. The table is written here, so
 * that no spec changes them; no driver is called.
 *
 * A line a row is the sum of the plans of DRAWN more problems, sizes beside powers of two, with numbers of a tuner,
 * too: it says that some rule or bound has moved. `launches drawn` prints those plans, to be compared with what another
 * checkout's program prints.
 *
 * launches launches.txt; without an argument it prints what that file is to be. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/check.h"
#include "lib/cpu/cpu.h"
#include "lib/cuda/cuda.h"
#include "lib/takes.h"
#include "lib/text.h"
#include "tests/support/golden.h"
#include "tests/support/rand.h"

extern const struct glint_family glint_family_sm80, glint_family_sm90a;
const struct glint_family *const glint_families[] = {&glint_family_sm80, &glint_family_sm90a};
enum { SM80, SM90A };

void glint_cpu_run_task(uint32_t kernel, uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    (void)kernel, (void)phase, (void)call, (void)scratch, (void)task; /* the table has no row of the CPU */
}

const unsigned char *glint_gpu_image_bytes(uint32_t image)
{
    (void)image; /* nothing is loaded */
    abort();
}

const struct glint_gpu_image glint_gpu_images[] = {{"80"}};
const uint32_t glint_gpu_rows_image = 0, glint_gpu_rows_count = 1;
const struct glint_gpu_map glint_gpu_maps[] = {
    /* 0: tiles of queries in slabs, and without; 4: a step's, whose query heads are packed */
    {GLINT_GPU_Q, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 128}, {GLINT_GPU_K, TENSOR_MAP_SWIZZLE_128B, 2, 0, 64, 64},
    {GLINT_GPU_V, TENSOR_MAP_SWIZZLE_64B, 0, 0, 128, 64},  {GLINT_GPU_O, TENSOR_MAP_NO_SWIZZLE, 0, 0, 128, 64},
    {GLINT_GPU_Q, TENSOR_MAP_SWIZZLE_128B, 0, 1, 64, 16},  {GLINT_GPU_K, TENSOR_MAP_SWIZZLE_128B, 1, 0, 64, 128},
    {GLINT_GPU_V, TENSOR_MAP_NO_SWIZZLE, 0, 0, 128, 32},
};

/* Launches of each kind of row. A row's launches come in the order of whose lengths they are for: the host's, a padded
 * batch's, ragged sequences' (0, 1, 2). */
#define Q(ROWS) .grid = GLINT_GPU_QUERY_BLOCKS, .rows = ROWS, .threads = 128
#define K(ROWS, THREADS) .grid = GLINT_GPU_KEY_BLOCKS, .rows = ROWS, .threads = THREADS
#define SINKS .grid = GLINT_GPU_QUERY_HEADS, .threads = 256, .sinks = 1
const struct glint_gpu_launch glint_gpu_launches[] = {
    /* 0: split backward */
    {Q(128)},
    {SINKS},
    {K(64, 128)},
    {Q(64)},
    {Q(128), .lengths = 1},
    {SINKS, .lengths = 1},
    {K(64, 128), .lengths = 1},
    {Q(64), .lengths = 1},
    {Q(128), .lengths = 2},
    {SINKS, .lengths = 2},
    {K(64, 128), .lengths = 2},
    {Q(64), .lengths = 2},
    /* 12: fused backward with dBias */
    {Q(128)},
    {SINKS},
    {K(32, 64)},
    {.grid = GLINT_GPU_BIAS_TILES, .rows = 64, .threads = 128, .dbias = 1},
    {.grid = GLINT_GPU_BIAS_SUMS, .rows = 64, .threads = 128, .dbias = 1},
    /* 17: split backward of ragged sequences with dBias */
    {Q(128)},
    {SINKS},
    {K(32, 128)},
    {Q(32)},
    {.grid = GLINT_GPU_BIAS_TILES, .rows = 64, .threads = 128, .dbias = 1},
    {.grid = GLINT_GPU_BIAS_SUMS, .rows = 64, .threads = 128, .dbias = 1},
    {Q(128), .lengths = 2},
    {SINKS, .lengths = 2},
    {K(32, 128), .lengths = 2},
    {Q(32), .lengths = 2},
    /* 27: persistent fused backward */
    {Q(128)},
    {SINKS},
    {K(128, 384), .blocks_per_sm = 1},
    {Q(128), .lengths = 1},
    {SINKS, .lengths = 1},
    {K(128, 384), .blocks_per_sm = 1, .lengths = 1},
    {Q(128), .lengths = 2},
    {SINKS, .lengths = 2},
    {K(128, 384), .blocks_per_sm = 1, .lengths = 2},
    /* 36: forward, persistent, in clusters */
    {Q(128), .blocks_per_sm = 1, .cluster = 2},
    {Q(128), .dependent = 1, .lengths = 1},
    {Q(128), .blocks_per_sm = 1, .dependent = 1, .lengths = 2},
    /* 39: forward, a block a tile */
    {Q(64)},
    {Q(64), .lengths = 1},
    {Q(64), .lengths = 1, .pages = 1},
    {Q(64), .lengths = 2},
    {Q(64), .lengths = 2, .pages = 1},
    /* 44: decode */
    {.grid = GLINT_GPU_DECODE_ITEMS, .rows = 8, .threads = 128, .blocks_per_sm = 1},
    {.grid = GLINT_GPU_DECODE_MERGE, .rows = 2, .threads = 256},
    {.grid = GLINT_GPU_DECODE_ITEMS, .rows = 8, .threads = 128, .blocks_per_sm = 1, .lengths = 2},
    {.grid = GLINT_GPU_DECODE_MERGE, .rows = 2, .threads = 256, .lengths = 2},
    {.grid = GLINT_GPU_DECODE_ITEMS, .rows = 8, .threads = 128, .blocks_per_sm = 1, .pages = 1},
    {.grid = GLINT_GPU_DECODE_ITEMS, .rows = 8, .threads = 128, .blocks_per_sm = 1, .pages = 1, .lengths = 2},
    /* 50: decode, two blocks a multiprocessor */
    {.grid = GLINT_GPU_DECODE_ITEMS, .rows = 8, .threads = 128, .blocks_per_sm = 2},
    {.grid = GLINT_GPU_DECODE_MERGE, .rows = 2, .threads = 256},
    /* 52: a step */
    {.grid = GLINT_GPU_STEP_PLAN, .threads = 1024},
    {.grid = GLINT_GPU_STEP_UNITS, .rows = 128, .threads = 384, .blocks_per_sm = 1},
    {.grid = GLINT_GPU_STEP_MERGE, .threads = 128},
    /* 55: a step, two blocks a multiprocessor */
    {.grid = GLINT_GPU_STEP_PLAN, .threads = 1024},
    {.grid = GLINT_GPU_STEP_UNITS, .rows = 64, .threads = 128, .blocks_per_sm = 2},
    {.grid = GLINT_GPU_STEP_MERGE, .threads = 128},
};
#undef Q
#undef K
#undef SINKS

enum {
    SPLIT,
    FUSED,
    FUSED_BIAS,
    SPLIT_BIAS,
    PERSISTS,
    PERSISTS_64,
    MAPS,
    MAPS_SHORT,
    PLAIN,
    DECODE,
    DECODE_TWO,
    STEP,
    STEP_TWO,
    STEP_THREE
};
const struct glint_gpu_kernel glint_gpu_kernels[] = {
    [SPLIT] = {.strategy = GLINT_GPU_SPLIT, .first_launch = 0, .launch_count = 12, .row_dim = 64},
    [FUSED] =
        {.strategy = GLINT_GPU_FUSED, .first_launch = 12, .launch_count = 3, .part_heads = 1, .parts_from = 4096, .row_dim = 128},
    [FUSED_BIAS] =
        {.strategy = GLINT_GPU_FUSED, .first_launch = 12, .launch_count = 5, .part_heads = 1, .row_dim = 48, .block_keys = 1},
    [SPLIT_BIAS] = {.strategy = GLINT_GPU_SPLIT, .first_launch = 17, .launch_count = 10, .row_dim = 32},
    [PERSISTS] =
        {.strategy = GLINT_GPU_FUSED, .first_launch = 27, .launch_count = 9, .first_map = 0, .map_count = 4, .row_dim = 128},
    [PERSISTS_64] =
        {.strategy = GLINT_GPU_FUSED, .first_launch = 27, .launch_count = 9, .first_map = 0, .map_count = 4, .row_dim = 64},
    [MAPS] = {.strategy = GLINT_GPU_FORWARD,
              .first_launch = 36,
              .launch_count = 3,
              .first_map = 0,
              .map_count = 3,
              .row_dim = 128,
              .zero_words = 3,
              .lengths_words = 1},
    [MAPS_SHORT] =
        {.strategy = GLINT_GPU_FORWARD, .first_launch = 39, .launch_count = 5, .first_map = 0, .map_count = 3, .row_dim = 64},
    [PLAIN] = {.strategy = GLINT_GPU_FORWARD, .first_launch = 39, .launch_count = 5, .row_dim = 64},
    [DECODE] =
        {.strategy = GLINT_GPU_DECODE, .first_launch = 44, .launch_count = 6, .row_dim = 128, .chunk_steps = 4, .span_chunks = 8},
    [DECODE_TWO] =
        {.strategy = GLINT_GPU_DECODE, .first_launch = 50, .launch_count = 2, .row_dim = 64, .chunk_steps = 8, .span_chunks = 4},
    [STEP] = {.strategy = GLINT_GPU_STEP,
              .first_launch = 52,
              .launch_count = 3,
              .first_map = 4,
              .map_count = 3,
              .row_dim = 128,
              .chunk_steps = 2},
    [STEP_TWO] = {.strategy = GLINT_GPU_STEP, .first_launch = 55, .launch_count = 3, .row_dim = 64, .chunk_steps = 1, .folded = 1},
    [STEP_THREE] = {.strategy = GLINT_GPU_STEP,
                    .first_launch = 52,
                    .launch_count = 3,
                    .first_map = 4,
                    .map_count = 3,
                    .row_dim = 256,
                    .chunk_steps = 3,
                    .folded = 1},
};

enum {
    CAUSAL = GLINT_FEATURE_RIGHT_BOUND,
    BAND = GLINT_FEATURE_RIGHT_BOUND | GLINT_FEATURE_LEFT_BOUND,
    INTERVAL = BAND | GLINT_FEATURE_INTERVALS,
    TREE = INTERVAL | GLINT_FEATURE_TREE,
    TENSOR = GLINT_FEATURE_BIAS,
    LENGTHS = GLINT_TAKES_LENGTHS,
    RAGGED = GLINT_TAKES_RAGGED,
    PAGES = GLINT_TAKES_PAGES | GLINT_TAKES_RAGGED_PAGES
};
#define ROW(...) ROW_OF(0, __VA_ARGS__)
#define ROW_OF(kv_dtype, name, pass, dtype, features, head_dim, m, n, queries_up_to, takes, family, kernel)                    \
    {                                                                                                                          \
        name, GLINT_##pass, GLINT_##dtype, kv_dtype, GLINT_MATH_NATIVE, features, head_dim, head_dim, m, n, 0, 80, 0, 0, 0, 0, \
            queries_up_to, 0, 0, 16, takes, takes, 0, family, kernel                                                           \
    }
const struct glint_variant glint_variants[] = {
    ROW("bwd_bf16_d128_causal__sm90a_fused_m64n128", BACKWARD, BF16, CAUSAL, 128, 64, 128, 0, LENGTHS | RAGGED, SM90A, PERSISTS),
    ROW("bwd_bf16_d128_none__sm90a_fused_m64n128", BACKWARD, BF16, 0, 128, 64, 128, 0, LENGTHS | RAGGED, SM90A, PERSISTS),
    ROW("bwd_bf16_d32_causal_tensor__sm80_split_m32n32", BACKWARD, BF16, CAUSAL | TENSOR, 32, 32, 32, 0, RAGGED, SM80, SPLIT_BIAS),
    ROW("bwd_bf16_d64_band__sm90a_fused_m128n128", BACKWARD, BF16, BAND, 64, 128, 128, 0, LENGTHS | RAGGED, SM90A, PERSISTS_64),
    ROW("bwd_bf16_d64_none__sm90a_fused_m128n128", BACKWARD, BF16, 0, 64, 128, 128, 0, LENGTHS | RAGGED, SM90A, PERSISTS_64),
    ROW("bwd_f16_d128_causal__sm80_fused_m64n128", BACKWARD, F16, CAUSAL, 128, 64, 128, 0, 0, SM80, FUSED),
    ROW("bwd_f16_d128_none__sm80_fused_m64n128", BACKWARD, F16, 0, 128, 64, 128, 0, 0, SM80, FUSED),
    ROW("bwd_f16_d64_none__sm80_split_m64n64", BACKWARD, F16, 0, 64, 64, 64, 0, LENGTHS | RAGGED, SM80, SPLIT),
    ROW("bwd_f32_d40_interval_tensor__sm80_fused_m32n32", BACKWARD, F32, INTERVAL | TENSOR, 40, 32, 32, 0, 0, SM80, FUSED_BIAS),
    ROW("dec_bf16_d128_causal__sm80_m8n128", FORWARD, BF16, CAUSAL, 128, 8, 128, 8, LENGTHS | RAGGED | PAGES, SM80, DECODE),
    ROW("dec_bf16_d64_band__sm80_m8n64", FORWARD, BF16, BAND, 64, 8, 64, 8, 0, SM80, DECODE_TWO),
    ROW("fwd_bf16_d128_band__sm90a_step_s128_m128n128", FORWARD, BF16, BAND, 128, 128, 128, 0, LENGTHS | RAGGED | PAGES, SM90A,
        STEP),
    ROW("fwd_bf16_d128_causal__sm90a_m128n128", FORWARD, BF16, CAUSAL, 128, 128, 128, 0, LENGTHS | RAGGED, SM90A, MAPS),
    ROW_OF(GLINT_E4M3, "fwd_bf16_e4m3_d128_causal__sm90a_step_s128_m128n128", FORWARD, BF16, CAUSAL, 128, 128, 128, 0,
           LENGTHS | RAGGED | PAGES, SM90A, STEP),
    ROW_OF(GLINT_I8, "dec_bf16_i8_d64_none__sm80_m8n64", FORWARD, BF16, 0, 64, 8, 64, 8, LENGTHS | RAGGED | PAGES, SM80, DECODE),
    ROW("fwd_bf16_d256_none__sm90a_step_s128_m128n64", FORWARD, BF16, 0, 256, 128, 64, 0, LENGTHS | RAGGED | PAGES, SM90A,
        STEP_THREE),
    ROW("fwd_bf16_d64_causal__sm80_step_s128_m64n128", FORWARD, BF16, CAUSAL, 64, 64, 128, 0, LENGTHS | RAGGED | PAGES, SM80,
        STEP_TWO),
    ROW("fwd_bf16_d64_interval__sm80_step_s128_m64n128", FORWARD, BF16, INTERVAL, 64, 64, 128, 0, LENGTHS | RAGGED | PAGES, SM80,
        STEP_TWO),
    ROW("fwd_bf16_d64_tree__sm80_step_s128_m64n64", FORWARD, BF16, TREE, 64, 64, 64, 0, LENGTHS | RAGGED | PAGES, SM80, STEP_TWO),
    ROW("fwd_bf16_d128_none_tensor__sm90a_m192n80", FORWARD, BF16, TENSOR, 128, 192, 80, 0, LENGTHS | RAGGED, SM90A, MAPS),
    ROW("fwd_f16_d64_causal__sm90a_short_m64n64", FORWARD, F16, CAUSAL, 64, 64, 64, 0, LENGTHS | RAGGED | PAGES, SM90A, MAPS_SHORT),
    ROW("fwd_f32_d64_causal__sm80_m64n64", FORWARD, F32, CAUSAL, 64, 64, 64, 0, LENGTHS | RAGGED | PAGES, SM80, PLAIN),
};
enum { ROWS = sizeof glint_variants / sizeof glint_variants[0] };
const uint32_t glint_variants_count = ROWS;

struct extents {
    int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
    uint32_t lengths, page_rows;
};

static const struct extents shapes[] = {
    {1, 1, 1, 1, 1, 0, 0},
    {2, 4, 4, 128, 128, 0, 0},
    {1, 32, 8, 4096, 4096, 0, 0},
    {16, 16, 16, 512, 512, 0, 0},
    {1, 40, 8, 2048, 2048, 0, 0},
    {4, 8, 1, 1000, 8192, 0, 0},
    {1, 16, 16, 16384, 16384, 0, 0},
    {3, 6, 2, 0, 100, 0, 0},
    {3, 6, 2, 100, 0, 0, 0},
    {64, 32, 8, 1, 4096, 0, 0},
    {1, 32, 8, 8, 65536, 0, 0},
    {5, 12, 4, 3, 300, 0, 0},
    {1, 8, 8, 129, 1025, 0, 0},
    {200, 8, 1, 2, 20000, 0, 0},
    {4, 8, 2, 300, 700, 1, 0},
    {9, 24, 8, 5, 3000, 1, 0},
    {4, 8, 2, 0, 0, 1, 0},
    {4, 8, 2, 300, 700, 2, 0},
    {70, 16, 16, 1000, 1000, 2, 0},
    {6, 12, 4, 2500, 2500, 2, 0},
    {4, 8, 2, 300, 700, 1, 64},
    {12, 8, 2, 6, 4000, 2, 16},
    {1 << 20, 1 << 14, 1, 7, 7, 0, 0},
    {1 << 20, 1 << 14, 1, 7, 7, 2, 0},
    {32, 32, 32, 1 << 16, 1 << 16, 0, 0},
    {1 << 20, 1 << 12, 1 << 12, 1, 1, 0, 0},
    {1 << 16, 1 << 15, 1 << 15, 1, 1, 0, 0},
    {(1 << 16) - 1, 1 << 15, 1 << 15, 1, 1, 0, 0},
    {1, 1 << 16, 1, 1 << 14, 64, 0, 0},
    {1, 1 << 16, 1, (1 << 14) + 1, 64, 0, 0},
    {64, 64, 64, 1 << 16, 1 << 16, 0, 0},
    {8, 8, 8, 1 << 28, 64, 0, 0},
    {1 << 12, 4, 4, 64, 1 << 28, 0, 0},
    {1 << 20, 64, 64, 0, 0, 1, 0},
    {1, 1, 1, 3, 4096, 0, 0},
};

/* Where arrays begin, in words, and where the last one ends. */
static void put_arrays(FILE *out, const uint64_t at[], int arrays)
{
    fprintf(out, " arrays");
    for (int i = 0; i <= arrays; i++)
        fprintf(out, " %" PRIu64, at[i]);
}

static void put_plan(FILE *out, const struct glint_variant *v, const struct glint_family_plan *plan)
{
    const struct glint_gpu_kernel *const kernel = glint_gpu_kernel_of(v);
    struct glint_cuda_plan own;
    memcpy(&own, plan->word, sizeof own);
    fprintf(out, " bytes %zu blocks", plan->workspace_bytes);
    for (uint32_t i = 0; i < GLINT_GPU_MAX_LAUNCHES; i++)
        if (own.blocks[i] > 0)
            fprintf(out, " %u:%u", i, own.blocks[i]);
    fprintf(out, " section %d words %u", own.shape.section, own.words);
    if (own.section_keys != 0)
        fprintf(out, " section_keys %d of %d:%d", own.section_keys, own.shape.seqlen_q, own.shape.seqlen_k);
    if (own.page_shift != 0)
        fprintf(out, " page_shift %d", own.page_shift);
    if (kernel->strategy == GLINT_GPU_DECODE) {
        const struct glint_decode_layout *const d = &own.decode;
        fprintf(out, " rows %d:%d range %d parts %d level %d entries %d items %u", d->rows, d->row_tiles, d->range, d->parts,
                d->level, d->entries, d->items);
        put_arrays(out, d->at, GLINT_GPU_DECODE_ARRAYS);
    } else if (kernel->strategy == GLINT_GPU_STEP) {
        const struct glint_step_layout *const s = &own.step;
        fprintf(out, " queries %d rows %d own %d", s->block_queries, s->partial_rows, s->own_plan);
        put_arrays(out, s->at, GLINT_GPU_STEP_ARRAYS);
    } else if (v->pass == GLINT_BACKWARD) {
        const struct glint_backward_layout *const b = &own.backward;
        fprintf(out, " heads %d parts %d padded %" PRId64, b->part_heads, b->parts, b->padded_q);
        if (b->unit_blocks != 0)
            fprintf(out, " units of %u from %u", b->unit_blocks, b->first_unit_block);
        if (b->bias_parts != 1 || b->bias_tiles != 0)
            fprintf(out, " bias %d:%d", b->bias_tiles, b->bias_parts);
        put_arrays(out, b->at, GLINT_GPU_BACKWARD_ARRAYS);
    }
}

/* The plan's text, from the heap. */
static char *plan_on(const struct glint_variant *v, const struct glint_problem *p, uint32_t multiprocessors,
                     const struct glint_gpu_tuning *tuning)
{
    char *text = NULL;
    size_t bytes = 0;
    struct glint_family_plan plan = {0};
    FILE *const out = open_memstream(&text, &bytes);
    if (tuning != NULL ? glint_cuda_plan_tuned(v, p, multiprocessors, tuning, &plan)
                       : glint_cuda_plan(v, p, multiprocessors, &plan))
        put_plan(out, v, &plan);
    else
        fprintf(out, " does not fit");
    fclose(out);
    return text;
}

static bool takes(const struct glint_variant *v, uint32_t lengths, bool paged)
{
    const uint32_t needs = lengths == GLINT_LENGTHS_DEVICE   ? LENGTHS | (paged ? GLINT_TAKES_PAGES : 0)
                           : lengths == GLINT_LENGTHS_RAGGED ? RAGGED | (paged ? GLINT_TAKES_RAGGED_PAGES : 0)
                                                             : 0;
    return (needs & ~(uint32_t)v->takes) == 0;
}

/* The number-th problem of the row, which may be too large for addresses; false where the row does not take it. */
static bool any_problem_of(const struct glint_variant *v, const struct extents *e, size_t number, struct glint_problem *p)
{
    if (!takes(v, e->lengths, e->page_rows > 0))
        return false;
    glint_problem_bshd(p, (enum glint_dtype)v->dtype, e->batch, e->seqlen_q, e->seqlen_k, e->heads_q, e->heads_kv, v->head_dim);
    p->mask = glint_mask_of(v);
    if ((v->features & GLINT_FEATURE_LEFT_BOUND) != 0)
        p->window_left = number % 3 == 0 ? GLINT_UNBOUNDED : number % 3 == 1 ? 127 : 4095, p->window_right = (int64_t)number % 2;
    p->tree = (v->features & GLINT_FEATURE_TREE) != 0;
    p->intervals = (v->features & GLINT_FEATURE_INTERVALS) != 0 && (p->tree == 0 || number % 2 == 0);
    if (p->intervals != 0 && number % 4 != 0) { /* beside one side of a window, or none */
        p->mask = number % 4 == 1 ? GLINT_MASK_NONE : p->tree != 0 ? p->mask : GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
        p->window_left = p->mask == GLINT_MASK_BAND_BOTTOM_RIGHT ? GLINT_UNBOUNDED : 0, p->window_right = 0;
    }
    p->kv_dtype = v->kv_dtype;
    p->kv_scales = v->kv_dtype == 0 ? GLINT_SCALES_NONE : number % 2 == 0 ? GLINT_SCALES_HEAD : GLINT_SCALES_ROW;
    p->sinks = number % 3 != 1;
    p->lengths = e->lengths;
    p->page_rows = e->page_rows;
    if (p->page_rows != 0)
        p->pages = 4000, p->pages_per_sequence = p->seqlen_k > 0 ? (p->seqlen_k + p->page_rows - 1) / p->page_rows : 1;
    if (p->lengths == GLINT_LENGTHS_RAGGED)
        p->rows_q = 2 * p->seqlen_q + 1, p->rows_k = p->page_rows != 0 ? 0 : 3 * p->seqlen_k;
    if ((v->features & TENSOR) != 0) { /* alike in all batches, all heads, for all queries or keys, or none of it */
        const int64_t of_head = p->seqlen_q * p->seqlen_k;
        int64_t of_batch;
        if (__builtin_mul_overflow(p->heads_q, of_head, &of_batch))
            of_batch = INT64_MAX;
        p->bias_dtype = GLINT_F32;
        p->dbias = number % 4 != 3;
        p->bias = (struct glint_bias_strides){number % 3 == 0 ? of_batch : 0, number % 5 == 1 ? 0 : of_head,
                                              number % 5 == 2 ? 0 : p->seqlen_k, number % 5 == 3 ? 0 : 1};
    }
    return true;
}

/* The same; false also where it is too large. */
static bool problem_of(const struct glint_variant *v, const struct extents *e, size_t number, struct glint_problem *p)
{
    struct glint_fault fault;
    return any_problem_of(v, e, number, p) && glint_check_problem(p, (enum glint_pass)v->pass, &fault) == GLINT_OK;
}

static void put_problem(FILE *out, const struct glint_problem *p, const char *plan)
{
    fprintf(out, "    %d x %d:%d x %d:%d lengths %u pages %d:%s\n", (int)p->batch, (int)p->heads_q, (int)p->heads_kv,
            (int)p->seqlen_q, (int)p->seqlen_k, p->lengths, (int)p->page_rows, plan);
}

/* ---- what kernels are given, and what they do not take ---- */

static FILE *maps_to; /* of recorded() */

static glint_cu_result recorded(struct CUtensorMap_st *map, unsigned int type, uint32_t rank, void *address,
                                const uint64_t *extents, const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                                unsigned int interleave, unsigned int swizzle, unsigned int l2, unsigned int fill)
{
    (void)map;
    fprintf(maps_to, "        map of type %u at %p:", type, address);
    for (uint32_t i = 0; i < rank; i++) {
        fprintf(maps_to, " %" PRIu64, extents[i]);
        if (i > 0)
            fprintf(maps_to, " by %" PRIu64, strides[i - 1]);
        fprintf(maps_to, " box %u step %u%s", box[i], steps[i], i + 1 < rank ? "," : "");
    }
    fprintf(maps_to, "; %u %u %u %u\n", interleave, swizzle, l2, fill);
    return 0;
}

static void put_maps(FILE *out, const struct glint_variant *v, const struct glint_problem *p)
{
    static struct glint_cuda cuda;
    struct tensor_map maps[GLINT_GPU_MAX_MAPS];
    const struct glint_tensors tensors = {.q = (void *)0x10000,
                                          .k = (void *)0x20000,
                                          .v = (void *)0x30000,
                                          .o = (void *)0x40000,
                                          .k_scale = (void *)0x50000,
                                          .v_scale = (void *)0x60000};
    cuda.driver.tensor_map_encode = recorded;
    maps_to = out;
    const enum glint_status status = glint_cuda_encode_maps(&cuda, v, p, &tensors, maps);
    if (status != GLINT_OK)
        fprintf(out, "        maps: %s\n", glint_status_name(status));
    if (p->kv_dtype != 0) {
        const struct glint_decode_scales s = glint_cuda_scales_of(p, &tensors);
        fprintf(out, "        scales at %p %p, unit %" PRId64 " head %" PRId64 " row %" PRId64 "\n", (const void *)s.k,
                (const void *)s.v, (int64_t)s.unit, (int64_t)s.head, (int64_t)s.row);
    }
    if (glint_gpu_kernel_of(v)->strategy == GLINT_GPU_STEP) {
        struct glint_family_plan plan = {0};
        struct glint_cuda_plan own;
        /* Not on the stack: it is aligned to 64 bytes, which the stack of gcc 12's AddressSanitizer does not keep. */
        static struct glint_gpu_step step;
        char *const workspace = (char *)(uintptr_t)0x100000;
        if (!glint_cuda_plan(v, p, 132, &plan))
            return;
        memcpy(&own, plan.word, sizeof own);
        glint_step_fill(p, &own.step, workspace, &step);
        fprintf(out, "        step: group %d heads %d parts %d queries %d blocks %d rows %d own %d plan at %p results at %p\n",
                step.group, step.heads, step.parts, step.block_queries, step.blocks, step.partial_rows, step.own_plan,
                (void *)step.plan, (void *)step.partial);
    }
}

/* ---- what a call gives to the kernels ---- */

static FILE *given_to;
static const struct glint_gpu_kernel *given_kernel;
static bool given_bias, given_first;

static void put_view(const char *name, const struct glint_gpu_view *v)
{
    fprintf(given_to, " %s %p by %" PRId64 " %" PRId64 " %" PRId64, name, v->address, v->batch, v->head, v->row);
}

static void put_shape(const struct glint_gpu_shape *s)
{
    fprintf(given_to, " shape %d %d %d %d %d %d %d %d %a %a %d", s->batch, s->heads_q, s->heads_kv, s->group, s->seqlen_q,
            s->seqlen_k, s->mask_offset, s->section, (double)s->softmax_scale, (double)s->scale_log2, s->mask_first);
}

static void put_sequences(const struct glint_gpu_sequences *s)
{
    fprintf(given_to, " sequences %p %p %p %p %p %d %d %d %d %d %d %d %d", (const void *)s->first_q, (const void *)s->first_k,
            (const void *)s->seqlens_q, (const void *)s->seqlens_k, (void *)s->fault, s->rows_q, s->rows_k, s->bottom_right,
            s->left, s->right, s->bound_q, s->bound_k, s->section_keys);
}

static void put_pages(const struct glint_gpu_pages *p)
{
    fprintf(given_to, " pages %p %d %d %d", (const void *)p->table, p->count, p->per_sequence, p->shift);
}

static void put_bias(const struct glint_gpu_bias *b, const struct glint_gpu_bias_tensor *t)
{
    fprintf(given_to, " slopes %p %d %d", (const void *)b->slopes, b->from_end, b->diagonal);
    if (given_bias)
        fprintf(given_to, " bias %p %p by %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " narrow %d", t->address, t->gradient,
                t->batch, t->head, t->query, t->key, t->narrow);
    if (given_bias && t->gradient != NULL)
        fprintf(given_to, " of %d in %d to %p", t->tiles, t->parts, (void *)t->sums);
}

static void put_call(const struct glint_gpu_biased_call *biased, bool backward, bool lengths)
{
    const struct glint_gpu_call *const c = &biased->base;
    put_view("q", &c->q), put_view("k", &c->k), put_view("v", &c->v), put_view("o", &c->o);
    put_shape(&c->shape), put_sequences(&c->sequences);
    if (given_kernel->map_count > 0) /* behind the maps */
        put_bias(&c->bias, &((const struct glint_gpu_biased_maps *)(const void *)biased)->tensor);
    else
        put_bias(&c->bias, &biased->tensor);
    if (backward && lengths)
        fprintf(given_to, " units %p %u", (void *)c->units.unit, c->units.first);
    else
        put_pages(&c->pages);
    fprintf(given_to, " lse %p sinks %p cap %a %a words %p blocks", (void *)c->lse, (const void *)c->sinks, (double)c->score_ratio,
            (double)c->score_limit, (void *)c->words);
    for (int i = 0; i < GLINT_CALL_GRIDS; i++)
        fprintf(given_to, " %u", c->blocks[i]);
    fprintf(given_to, " keys %p %p rows %p bounds %p", (const void *)c->key_begin, (const void *)c->key_end,
            (const void *)c->row_keys, (const void *)c->block_keys);
    if (!backward)
        return;
    put_view("dout", &c->dout), put_view("dq", &c->dq), put_view("dk", &c->dk), put_view("dv", &c->dv);
    fprintf(given_to, " padded %" PRId64 " at %p %p %p %p parts %d of %d at %p %p dsinks %p dlse %p", c->padded_q,
            (void *)c->lse_log2, (void *)c->delta, (void *)c->dq_sum, (void *)c->turn, c->parts, c->part_heads, (void *)c->key_sum,
            (void *)c->key_turn, (void *)c->dsinks, (const void *)c->dlse);
}

static void put_decode(const struct glint_decode_params *d)
{
    put_view("q", &d->q), put_view("k", &d->k), put_view("v", &d->v), put_view("o", &d->o);
    put_shape(&d->shape), put_sequences(&d->sequences), put_pages(&d->pages), put_bias(&d->bias, &d->tensor);
    fprintf(given_to,
            " lse %p sinks %p cap %a %a decode %d %d %d %d %d %d %u %u at %p %p scales %p %p %" PRId64 " %" PRId64 " %" PRId64,
            (void *)d->lse, (const void *)d->sinks, (double)d->score_ratio, (double)d->score_limit, d->rows, d->row_tiles, d->range,
            d->parts, d->level, d->entries, d->items, d->blocks, (void *)d->partial_o, (void *)d->partial_rows,
            (const void *)d->scales.k, (const void *)d->scales.v, (int64_t)d->scales.unit, (int64_t)d->scales.head,
            (int64_t)d->scales.row);
    fprintf(given_to, " keys %p %p tree %p logits %p", (const void *)d->key_begin, (const void *)d->key_end,
            (const void *)d->tree_bits, (void *)d->max_logit);
}

static void put_launch(unsigned blocks, unsigned threads, unsigned bytes, void *stream, void **parameters)
{
    fprintf(given_to, " [%u x %u, %u bytes, stream %p]", blocks, threads, bytes, stream);
    if (!given_first)
        return;
    given_first = false;
    if (given_kernel->strategy == GLINT_GPU_DECODE)
        put_decode(parameters[0]);
    else
        put_call(parameters[0], given_kernel->strategy != GLINT_GPU_FORWARD && given_kernel->strategy != GLINT_GPU_STEP,
                 given_kernel->map_count > 0 && ((const struct glint_gpu_call *)parameters[0])->units.unit != NULL);
}

static glint_cu_result launched(glint_cu_function function, unsigned x, unsigned y, unsigned z, unsigned threads,
                                unsigned threads_y, unsigned threads_z, unsigned bytes, glint_cu_stream stream, void **parameters,
                                void **extra)
{
    (void)function, (void)extra;
    if (y != 1 || z != 1 || threads_y != 1 || threads_z != 1)
        fprintf(given_to, " of %u %u %u %u", y, z, threads_y, threads_z);
    put_launch(x, threads, bytes, stream, parameters);
    return 0;
}

static glint_cu_result launched_ex(const struct CUlaunchConfig_st *given, glint_cu_function function, void **parameters,
                                   void **extra)
{
    const struct glint_cu_launch_config *const c = (const void *)given;
    (void)function, (void)extra;
    for (unsigned i = 0; i < c->attribute_count; i++)
        fprintf(given_to, " attribute %u %u", c->attributes[i].id, c->attributes[i].value[0]);
    put_launch(c->grid[0], c->block[0], c->shared_bytes, c->stream, parameters);
    return 0;
}

static glint_cu_result words_set(glint_cu_address to, unsigned value, size_t words, glint_cu_stream stream)
{
    fprintf(given_to, " [%zu words at %p are %x, stream %p]", words, (void *)(uintptr_t)to, value, (void *)stream);
    return 0;
}

static glint_cu_result nothing_current(glint_cu_context *context)
{
    *context = NULL; /* which is the fake's own context */
    return 0;
}

static glint_cu_result no_map(struct CUtensorMap_st *map, unsigned int type, uint32_t rank, void *address, const uint64_t *extents,
                              const uint64_t *strides, const uint32_t *box, const uint32_t *steps, unsigned int interleave,
                              unsigned int swizzle, unsigned int l2, unsigned int fill)
{
    (void)map, (void)type, (void)rank, (void)address, (void)extents, (void)strides, (void)box, (void)steps, (void)interleave;
    (void)swizzle, (void)l2, (void)fill;
    return 0;
}

static void put_given(FILE *out, const struct glint_variant *v, struct glint_problem *p, size_t number)
{
    static _Alignas(64) unsigned char state[1 << 14];
    struct glint_cuda *const cuda = (void *)state;
    struct glint_context context = {.state = cuda};
    struct glint_family_plan family = {0};
    struct glint_plan plan = {.pass = v->pass, .variant = (uint32_t)(v - glint_variants)};
    struct glint_tensors t = GLINT_TENSORS_INIT;
    if (sizeof state < glint_cuda_size())
        abort();
    p->softcap = number % 2 == 0 ? 20 : 0, p->softmax_scale = number % 3 == 0 ? -0.25f : 0.125f;
    p->diagonal = number % 5 == 0 ? -7 : INT64_C(1) << (number % 40);
    if (!glint_cuda_plan(v, p, 132, &family))
        return;
    plan.problem = *p;
    memcpy(plan.internal, family.word, sizeof family.word);
    /* all that there may be, as far as the members of unions go */
#define AT(n) ((void *)(uintptr_t)((uint64_t)(n) << 20))
    const bool backward = v->pass == GLINT_BACKWARD;
    t.q = AT(1), t.k = AT(2), t.v = AT(3), t.o = AT(4), t.lse = AT(5), t.sinks = AT(6), t.first_q = AT(7), t.first_k = AT(8);
    t.seqlens_q = AT(9), t.seqlens_k = AT(10), t.fault = AT(11), t.page_table = AT(12), t.k_scale = AT(13), t.v_scale = AT(14);
    t.key_begin = AT(15), t.key_end = AT(16), t.alibi_slopes = AT(17), t.bias = AT(18);
    t.max_logit = backward ? NULL : AT(19), t.tree_bits = backward ? NULL : AT(20);
    if (backward)
        t.dout = AT(21), t.dq = AT(22), t.dk = AT(23), t.dv = AT(24), t.dsinks = AT(25), t.dlse = AT(26);
    t.dbias = p->dbias != 0 ? AT(27) : NULL;
    p->max_logit = plan.problem.max_logit = !backward && number % 7 == 0;
    memset(state, 0, sizeof state);
    cuda->sm = number % 4 == 1 ? 89 : 90;
    cuda->driver.context_current = nothing_current, cuda->driver.launch = launched;
    cuda->driver.launch_ex = number % 4 == 2 ? NULL : launched_ex;
    cuda->driver.memory_set_words = words_set, cuda->driver.tensor_map_encode = no_map;
    given_to = out, given_kernel = glint_gpu_kernel_of(v), given_bias = p->bias_dtype != 0, given_first = true;
    fprintf(out, "        given:");
    const enum glint_status status = glint_cuda_run(&context, v, &plan, &t, family.workspace_bytes > 0 ? AT(1000) : NULL, AT(2000));
    fprintf(out, " %s\n", status == GLINT_OK ? "" : glint_status_name(status));
#undef AT
}

/* What glint_explain has to say of the row's plan beside what all rows have. */
static void put_explanation(FILE *out, const struct glint_variant *v, const struct glint_problem *p)
{
    char words[2048];
    struct glint_plan plan = {.pass = v->pass, .variant = (uint32_t)(v - glint_variants), .problem = *p};
    struct glint_family_plan family = {0};
    struct glint_text text = {.buffer = words, .capacity = sizeof words};
    if (!glint_cuda_plan(v, p, 132, &family))
        return;
    memcpy(plan.internal, family.word, sizeof family.word);
    glint_family_of(v)->explain(&plan, &text);
    glint_text_end(&text);
    for (const char *at = words; *at != '\0'; at++)
        fprintf(out, *at == '\n' ? "%c        " : "%c", *at);
    fprintf(out, "\n");
}

/* What the row's family says of a problem that is as it should be but for one thing. */
static void put_refusals(FILE *out, const struct glint_variant *v)
{
    enum {
        AS_IT_IS,
        SMALL_CAP,
        LARGE_CAP,
        SMALL_SCALE,
        ODD_ROW,
        ODD_HEAD,
        ODD_BATCH,
        FAR_ROW,
        FAR_HEAD,
        FAR_BATCH,
        ONE_HEAD,
        CHANGES
    };
    static const char *const names[] = {"as it is",
                                        "a cap of 2^-126 and a scale of 1024",
                                        "a cap of 2^124 and a scale of 2^-10",
                                        "a cap of 2^-100 and a scale of 0",
                                        "rows of an odd stride",
                                        "heads of an odd stride",
                                        "batches of an odd stride",
                                        "rows far apart",
                                        "heads far apart",
                                        "batches far apart",
                                        "a head far apart from none"};
    for (int change = 0; change < CHANGES; change++) {
        const struct extents e = {3, change == ONE_HEAD ? 1 : 8, change == ONE_HEAD ? 1 : 4, 5, 70, 0, 0};
        struct glint_problem p;
        struct glint_fault fault = {.field = "", .part = NULL};
        if (!problem_of(v, &e, 2, &p))
            continue;
        const int64_t odd = 1, far = INT64_C(1) << 41;
        p.softcap = change == SMALL_CAP ? 0x1p-126f : change == LARGE_CAP ? 0x1p124f : change == SMALL_SCALE ? 0x1p-100f : 0;
        p.softmax_scale = change == SMALL_CAP     ? 1024
                          : change == LARGE_CAP   ? -0x1p-10f
                          : change == SMALL_SCALE ? 0
                                                  : p.softmax_scale;
        p.k.row += change == ODD_ROW ? odd : change == FAR_ROW ? far : 0;
        p.q.head += change == ODD_HEAD ? odd : change == FAR_HEAD || change == ONE_HEAD ? far : 0;
        p.v.batch += change == ODD_BATCH ? odd : change == FAR_BATCH ? far : 0;
        const enum glint_status status = glint_family_of(v)->fits(v, &p, NULL, &fault);
        fprintf(out, "    %s: %s", names[change], glint_status_name(status));
        if (status != GLINT_OK)
            fprintf(out, " (%s %s: %" PRId64 ", %" PRId64 ")", fault.field, fault.part != NULL ? fault.part : "-", fault.value,
                    fault.want);
        fprintf(out, "\n");
    }
}

/* Whether a row takes strides that lie beside the largest that a map holds: of each tensor and dimension, where an
 * extent is one and where it is more. Where heads are packed, a step along their groups may be a ninth of that. */
static void put_far(FILE *out, const struct glint_variant *v)
{
    enum { NINTH = 32 };                                                    /* in place of a power */
    static const int64_t heads[4][2] = {{1, 1}, {40, 5}, {12, 1}, {18, 2}}; /* and key heads */
    const int64_t ninth = ((INT64_C(1) << 40) - 1) / 2 / 9;                 /* of 16 bits; a multiple of 8 */
    uint32_t sum = 2166136261u, refused = 0;                                /* FNV-1a */
    for (int extent = 0; extent < 16; extent++)
        for (int tensor = 0; tensor < 4; tensor++)
            for (int dimension = 0; dimension < 3; dimension++)
                for (int power = NINTH; power <= 41; power++)
                    for (int beside = -16; beside <= 16; beside += 16) {
                        const int64_t *const h = heads[extent / 4];
                        const struct extents e = {extent & 1 ? 3 : 1, h[0], h[1], extent & 2 ? 5 : 1, extent & 2 ? 70 : 1, 0, 0};
                        struct glint_problem p;
                        struct glint_fault fault = {.field = "", .part = NULL};
                        if (!problem_of(v, &e, 2, &p))
                            continue;
                        struct glint_strides *const s = tensor == 0 ? &p.q : tensor == 1 ? &p.k : tensor == 2 ? &p.v : &p.o;
                        int64_t *const stride = dimension == 0 ? &s->batch : dimension == 1 ? &s->head : &s->row;
                        *stride = (power == NINTH ? ninth : INT64_C(1) << power) + beside;
                        const enum glint_status status = glint_family_of(v)->fits(v, &p, NULL, &fault);
                        sum = (sum ^ (uint32_t)status) * 16777619u;
                        refused += status != GLINT_OK;
                    }
    fprintf(out, "    far strides: %u refused, sum %08" PRIx32 "\n", refused, sum);
}

/* The largest extents that are planned, of each field of some shapes, by halves. The tuner's range divides decode's
 * keys where the rule does not. The last shape has no rows to keep, so a grid can have its most blocks, those that
 * write units among them. */
static void put_limits(FILE *out, const struct glint_variant *v)
{
    static const struct extents from[] = {
        {1, 8, 2, 40, 300, 0, 0},
        {1, 8, 2, 40, 300, 1, 0},
        {1, 8, 2, 40, 300, 2, 0},
        {1 << 10, 1 << 10, 1 << 10, 1, 257, 1, 0},
        {1, 1, 1, 1, 513, 0, 0},
        {1 << 20, 1, 1, 1, 1 << 12, 2, 0},
        {2, GLINT_MAX_EXTENT, 1, 0, 700, 1, 0},
    };
    static const struct glint_gpu_tuning tuning[] = {{0}, {.range = 1}};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
        for (size_t tuned = 0; tuned < 1 + (glint_gpu_kernel_of(v)->strategy == GLINT_GPU_DECODE); tuned++) {
            bool any = false;
            for (int field = 0; field < 5; field++) {
                int64_t low = 0, high = GLINT_MAX_EXTENT + INT64_C(1);
                while (high - low > 1) {
                    const int64_t middle = low + (high - low) / 2;
                    struct extents e = from[i];
                    struct glint_problem p;
                    struct glint_family_plan plan = {0};
                    *(field == 0   ? &e.batch
                      : field == 1 ? &e.heads_q
                      : field == 2 ? &e.heads_kv
                      : field == 3 ? &e.seqlen_q
                                   : &e.seqlen_k) = middle;
                    if (field == 1) /* heads that share a key head */
                        e.heads_kv = 1;
                    if (field == 2)
                        e.heads_q = middle;
                    if (!any_problem_of(v, &e, i, &p))
                        break;
                    if (glint_cuda_plan_tuned(v, &p, 132, &tuning[tuned], &plan))
                        low = middle;
                    else
                        high = middle;
                }
                if (high - low > 1)
                    break;
                if (!any)
                    fprintf(out, "    shape %zu%s is planned up to", i, tuned != 0 ? ", keys divided," : "");
                fprintf(out, " %" PRId64, low);
                any = true;
            }
            if (any)
                fprintf(out, "\n");
        }
}

/* Where the parts of dBias change with its tiles, by sequences. */
static void put_bias_parts(FILE *out)
{
    fprintf(out, "parts of dBias\n");
    for (int64_t batch = 0; batch <= 18; batch++) {
        fprintf(out, "    %" PRId64 " sequences:", batch);
        for (int64_t tiles = 0; tiles <= 600; tiles++)
            if (tiles == 0 || glint_gpu_bias_parts(tiles, batch) != glint_gpu_bias_parts(tiles - 1, batch))
                fprintf(out, " %" PRId64 ":%d", tiles, glint_gpu_bias_parts(tiles, batch));
        fprintf(out, "\n");
    }
}

/* A power of two up to 2^most, or beside one. */
static int64_t drawn_size(struct rand *r, uint32_t most)
{
    const int64_t power = INT64_C(1) << rand_below(r, (int64_t)most + 1), times = rand_below(r, 4) == 0 ? 3 : 1;
    return times * power + (int64_t)rand_below(r, 3) - 1;
}

enum { DRAWN = 3000 };

static void put_drawn(FILE *out, const struct glint_variant *v, bool each)
{
    static const uint32_t multiprocessors[] = {1, 4, 8, 16, 78, 132, 160};
    struct rand r = rand_stream(v->head_dim, v->tile_n);
    uint32_t sum = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < DRAWN; i++) {
        struct extents e = {.heads_kv = 1 + (int64_t)rand_below(&r, 8)};
        struct glint_problem p;
        e.batch = 1 + drawn_size(&r, 7), e.heads_q = e.heads_kv * (1 + (int64_t)rand_below(&r, 17));
        e.seqlen_q = drawn_size(&r, v->queries_up_to > 0 ? 5 : 14), e.seqlen_k = drawn_size(&r, 17);
        e.lengths = (uint32_t)rand_below(&r, 3),
        e.page_rows = e.lengths != 0 && rand_below(&r, 4) == 0 ? 16u << rand_below(&r, 5) : 0;
        const struct glint_gpu_tuning tuning = {.part_heads = (int32_t)rand_below(&r, 9),
                                                .section = (int32_t)(rand_below(&r, 2) * rand_below(&r, 40)),
                                                .range = 1 + (int32_t)rand_below(&r, 80)};
        if (!problem_of(v, &e, i, &p))
            continue;
        char *text = plan_on(v, &p, multiprocessors[rand_below(&r, 7)], i % 4 == 0 ? &tuning : NULL);
        for (const char *at = text; *at != '\0'; at++)
            sum = (sum ^ (uint8_t)*at) * 16777619u;
        if (each)
            put_problem(out, &p, text);
        free(text);
        if (i % 4 != 1)
            continue;
        char *maps = NULL;
        size_t bytes = 0;
        FILE *const to = open_memstream(&maps, &bytes);
        put_maps(to, v, &p);
        put_given(to, v, &p, i);
        fclose(to);
        for (const char *at = maps; *at != '\0'; at++)
            sum = (sum ^ (uint8_t)*at) * 16777619u;
        free(maps);
    }
    fprintf(out, "    drawn: sum %08" PRIx32 "\n", sum);
}

static void put_row(FILE *out, const struct glint_variant *v, bool each)
{
    fprintf(out, "%s\n", v->name);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct glint_problem p;
        if (!problem_of(v, &shapes[i], i, &p))
            continue;
        char *small = plan_on(v, &p, 16, NULL), *large = plan_on(v, &p, 132, NULL);
        put_problem(out, &p, small);
        if (strcmp(small, large) != 0)
            fprintf(out, "        on 132 multiprocessors:%s\n", large);
        free(small), free(large);
        if (i % 3 == 2)
            put_maps(out, v, &p);
        if (i % 4 == 2)
            put_explanation(out, v, &p);
        if (i % 5 == 2)
            put_given(out, v, &p, i);
    }
    put_refusals(out, v);
    put_far(out, v);
    put_limits(out, v);
    put_drawn(out, v, each);
}

int main(int argc, char **argv)
{
    char *have = NULL;
    size_t bytes = 0;
    const bool each = argc > 1 && strcmp(argv[1], "drawn") == 0;
    FILE *const out = open_memstream(&have, &bytes);
    for (uint32_t i = 0; i < ROWS; i++)
        put_row(out, &glint_variants[i], each);
    put_bias_parts(out);
    return golden_finish(out, &have, argc < 2 || each ? NULL : argv[1]);
}
