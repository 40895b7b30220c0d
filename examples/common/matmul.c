/* The classic blocked product (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008), kept
 * small:
 * pack a block of A and a panel of B so that the inner loop reads both straight through, then keep a 6 x 16 tile of C
 * in registers. The inner loop is compiled three times for x86-64 and the best one is chosen by what the CPU has. */
#include "examples/common/matmul.h"

#include <string.h>

enum {
    TILE_M = 6,         /* rows of C in registers */
    LANES = 8,          /* floats in a vector */
    TILE_N = 2 * LANES, /* columns of C in registers */
    BLOCK_M = 96,       /* rows of A packed at a time: 96 * 256 floats stay in L2 */
    BLOCK_K = 256,      /* depth packed at a time: 16 * 256 floats of B stay in L1 */
    BLOCK_N = 256       /* columns of B packed at a time */
};

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));

/* acc = A tile * B panel, both packed: a[k][TILE_M], b[k][TILE_N]. */
static inline __attribute__((always_inline)) void tile_body(float out[TILE_M][TILE_N], const float *a, const float *b, size_t depth)
{
    vector acc[TILE_M][2] = {{{0}}};
    for (size_t k = 0; k < depth; k++, a += TILE_M, b += TILE_N) {
        vector b0, b1;
        memcpy(&b0, b, sizeof b0);
        memcpy(&b1, b + LANES, sizeof b1);
#pragma GCC unroll 6
        for (int i = 0; i < TILE_M; i++) {
            acc[i][0] += a[i] * b0;
            acc[i][1] += a[i] * b1;
        }
    }
    memcpy(out, acc, sizeof acc);
}

typedef void tile_fn(float out[TILE_M][TILE_N], const float *a, const float *b, size_t depth);

static void tile_baseline(float out[TILE_M][TILE_N], const float *a, const float *b, size_t depth)
{
    tile_body(out, a, b, depth);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void tile_avx2(float out[TILE_M][TILE_N], const float *a, const float *b, size_t depth)
{
    tile_body(out, a, b, depth);
}

__attribute__((target("avx512f,avx512vl"))) static void tile_avx512(float out[TILE_M][TILE_N], const float *a, const float *b,
                                                                    size_t depth)
{
    tile_body(out, a, b, depth);
}

static tile_fn *best_tile(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        return tile_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return tile_avx2;
    return tile_baseline;
}
#else
static tile_fn *best_tile(void)
{
    return tile_baseline;
}
#endif

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* to[strip][k][width] from `rows` x `depth` elements at m, strips of `width` rows, the last one filled up with
 * zeros. */
static void pack(float *to, struct matrix m, size_t rows, size_t depth, size_t width)
{
    for (size_t r = 0; r < rows; r += width, to += width * depth) {
        size_t live = smaller(width, rows - r);
        const float *from = m.data + r * m.row;
        if (live < width)
            memset(to, 0, width * depth * sizeof *to);
        if (m.row == 1) {
            for (size_t k = 0; k < depth; k++)
                memcpy(to + k * width, from + k * m.column, live * sizeof *to);
        } else {
            for (size_t i = 0; i < live; i++)
                for (size_t k = 0; k < depth; k++)
                    to[k * width + i] = from[i * m.row + k * m.column];
        }
    }
}

enum { SCRATCH_FLOATS = BLOCK_M * BLOCK_K + BLOCK_N * BLOCK_K }; /* a thread */

size_t matmul_scratch_bytes(uint32_t concurrency)
{
    return (size_t)concurrency * SCRATCH_FLOATS * sizeof(float);
}

struct product {
    float *c, *scratch;
    struct matrix a, b;
    size_t m, n, k, rows_a_part, columns_a_part, parts_n;
    int add;
    tile_fn *tile;
};

static void add_tile(float *c, size_t stride, float tile[TILE_M][TILE_N], size_t rows, size_t columns, int add)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            c[i * stride + j] = add ? c[i * stride + j] + tile[i][j] : tile[i][j];
}

/* One thread's rectangle of C. */
static void product_part(void *argument, uint32_t index)
{
    const struct product *p = argument;
    size_t m0 = index / p->parts_n * p->rows_a_part, n0 = index % p->parts_n * p->columns_a_part;
    if (m0 >= p->m || n0 >= p->n)
        return;
    size_t m1 = smaller(m0 + p->rows_a_part, p->m), n1 = smaller(n0 + p->columns_a_part, p->n);
    float *packed_a = p->scratch + index * SCRATCH_FLOATS, *packed_b = packed_a + BLOCK_M * BLOCK_K;
    struct matrix transposed_b = {p->b.data, p->b.column, p->b.row};

    for (size_t n = n0; n < n1; n += BLOCK_N)
        for (size_t k = 0; k < p->k; k += BLOCK_K) {
            size_t columns = smaller(BLOCK_N, n1 - n), depth = smaller(BLOCK_K, p->k - k);
            transposed_b.data = p->b.data + k * p->b.row + n * p->b.column;
            pack(packed_b, transposed_b, columns, depth, TILE_N);
            for (size_t m = m0; m < m1; m += BLOCK_M) {
                size_t rows = smaller(BLOCK_M, m1 - m);
                struct matrix block_a = {p->a.data + m * p->a.row + k * p->a.column, p->a.row, p->a.column};
                pack(packed_a, block_a, rows, depth, TILE_M);
                for (size_t j = 0; j < columns; j += TILE_N)
                    for (size_t i = 0; i < rows; i += TILE_M) {
                        float tile[TILE_M][TILE_N];
                        p->tile(tile, packed_a + i * depth, packed_b + j * depth, depth);
                        add_tile(p->c + (m + i) * p->n + n + j, p->n, tile, smaller(TILE_M, rows - i), smaller(TILE_N, columns - j),
                                 p->add || k > 0);
                    }
            }
        }
}

void matmul(const struct glint_executor *executor, float *c, struct matrix a, struct matrix b, size_t m, size_t n, size_t k,
            int add, float *scratch)
{
    /* The longer side of C is cut, in whole tiles. */
    size_t threads = executor->concurrency, tiles_m = (m + TILE_M - 1) / TILE_M, tiles_n = (n + TILE_N - 1) / TILE_N;
    struct product p = {.c = c, .scratch = scratch, .a = a, .b = b, .m = m, .n = n, .k = k, .add = add, .tile = best_tile()};
    if (m >= n) {
        p.rows_a_part = (tiles_m + threads - 1) / threads * TILE_M;
        p.columns_a_part = n;
        p.parts_n = 1;
    } else {
        p.rows_a_part = m;
        p.columns_a_part = (tiles_n + threads - 1) / threads * TILE_N;
        p.parts_n = threads;
    }
    executor->parallel_for(executor->user, (uint32_t)threads, product_part, &p);
}
