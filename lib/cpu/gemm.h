/* The one loop that does the work: C (+)= A B, where B and C have vectors along their rows and A is read one float at a
 * time and broadcast. Every product of attention has this form with one of its operands transposed, so nothing is
 * packed for it:
 *
 *   S^T [key][query]   = K [key][d]        Q^T [d][query]        dP^T = V dO^T
 *   O^T [d][query]    += V^T [d][key]      P^T [key][query]      dQ^T += K^T dS^T      (A is V or K read along its columns)
 *   dV  [key][d]      += P^T [key][query]  dO [query][d]         dK  += dS^T Q
 *
 * An element of C is one chain of multiply-adds in the order of k, whatever the tile, so tails and masks never change
 * its bits. Included by emitted kernels only, after vector.h and after they define GLINT_CPU_ROWS and GLINT_CPU_VECS,
 * the register tile. */
#ifndef GLINT_CPU_GEMM_H
#define GLINT_CPU_GEMM_H

#include <stdbool.h>

#include "lib/cpu/vector.h"

/* Strides count floats; b and c are contiguous along their vectors. */
struct glint_gemm {
    float *c;
    const float *a, *b;
    ptrdiff_t ldc, a_row, a_k, ldb;
    int64_t rows, depth;
    int64_t first_k;    /* row r starts at k = max(0, first_k + r), rounded down to that of its group of rows: A is 0 before */
    const float *scale; /* NULL: C is overwritten. Otherwise C is multiplied by these (one a lane) and added to */
    bool add;           /* C is added to */
};

/* A register tile: acc[r][v] += sum over k < depth of a[r][k] b[k][v]. Unrolled by 2 or 4 it is no faster (Zen 3). */
GLINT_INLINE void glint_multiply_add(const int rows, const int vecs, glint_vec acc[][GLINT_CPU_VECS], const float *a,
                                     ptrdiff_t a_row, ptrdiff_t a_k, const float *b, ptrdiff_t ldb, int64_t depth)
{
    for (int64_t k = 0; k < depth; k++) {
        glint_vec bv[GLINT_CPU_VECS];
        GLINT_UNROLL
        for (int v = 0; v < vecs; v++)
            bv[v] = glint_load(b + v * GLINT_CPU_LANES);
        GLINT_UNROLL
        for (int r = 0; r < rows; r++) {
            const glint_vec ar = glint_splat(a[r * a_row]);
            GLINT_UNROLL
            for (int v = 0; v < vecs; v++)
                acc[r][v] = glint_fma(ar, bv[v], acc[r][v]);
        }
        a += a_k;
        b += ldb;
    }
}

GLINT_INLINE void glint_gemm_tile(const int rows, const int vecs, const struct glint_gemm *g, int64_t row)
{
    glint_vec acc[GLINT_CPU_ROWS][GLINT_CPU_VECS];
    float *c = g->c + row * g->ldc;
    const ptrdiff_t ldc = g->ldc;
    if (g->scale) {
        GLINT_UNROLL
        for (int v = 0; v < vecs; v++) {
            const glint_vec scale = glint_load(g->scale + v * GLINT_CPU_LANES);
            GLINT_UNROLL
            for (int r = 0; r < rows; r++)
                acc[r][v] = glint_load(c + r * ldc + v * GLINT_CPU_LANES) * scale;
        }
    } else if (g->add) {
        GLINT_UNROLL
        for (int r = 0; r < rows; r++) {
            GLINT_UNROLL
            for (int v = 0; v < vecs; v++)
                acc[r][v] = glint_load(c + r * ldc + v * GLINT_CPU_LANES);
        }
    } else {
        GLINT_UNROLL
        for (int r = 0; r < rows; r++) {
            GLINT_UNROLL
            for (int v = 0; v < vecs; v++)
                acc[r][v] = (glint_vec){0};
        }
    }
    const int64_t start = g->first_k + row > 0 ? g->first_k + row : 0;
    glint_multiply_add(rows, vecs, acc, g->a + row * g->a_row + start * g->a_k, g->a_row, g->a_k, g->b + start * g->ldb, g->ldb,
                       g->depth - start);
    GLINT_UNROLL
    for (int r = 0; r < rows; r++) {
        GLINT_UNROLL
        for (int v = 0; v < vecs; v++)
            glint_store(c + r * ldc + v * GLINT_CPU_LANES, acc[r][v]);
    }
}

/* Rows of a register tile that is not full, beside 1. */
enum { GLINT_CPU_FEW_ROWS = GLINT_CPU_ROWS >= 4 ? 4 : 1 };

/* Rows of the next register tile when `left` rows are left: as many full tiles as leave no two rows behind, then 4 and
 * 1. */
GLINT_INLINE int64_t glint_tile_rows(int64_t left)
{
    return left >= GLINT_CPU_ROWS && left != GLINT_CPU_ROWS + 2 ? GLINT_CPU_ROWS : left >= 4 ? GLINT_CPU_FEW_ROWS : 1;
}

/* All rows of C in one panel of `vecs` vectors. */
GLINT_INLINE void glint_gemm_panel(const int vecs, const struct glint_gemm *g)
{
    int64_t rows;
    for (int64_t row = 0; row < g->rows; row += rows) {
        rows = glint_tile_rows(g->rows - row);
        if (rows == GLINT_CPU_ROWS)
            glint_gemm_tile(GLINT_CPU_ROWS, vecs, g, row);
        else if (rows == GLINT_CPU_FEW_ROWS)
            glint_gemm_tile(GLINT_CPU_FEW_ROWS, vecs, g, row);
        else
            glint_gemm_tile(1, vecs, g, row);
    }
}

/* Out of line: one copy of each width serves all products of a kernel. */
GLINT_OUTLINE void glint_gemm_1(const struct glint_gemm *g)
{
    glint_gemm_panel(1, g);
}
#if GLINT_CPU_VECS > 1
GLINT_OUTLINE void glint_gemm_2(const struct glint_gemm *g)
{
    glint_gemm_panel(2, g);
}
#endif
#if GLINT_CPU_VECS > 2
GLINT_OUTLINE void glint_gemm_full(const struct glint_gemm *g)
{
    glint_gemm_panel(GLINT_CPU_VECS, g);
}
#endif

/* Lanes rounded up to whole vectors. */
GLINT_INLINE int64_t glint_panel_columns(int64_t lanes)
{
    return (lanes + GLINT_CPU_LANES - 1) / GLINT_CPU_LANES * GLINT_CPU_LANES;
}

/* Vectors of the next panel when `lanes` lanes are left. */
GLINT_INLINE int64_t glint_panel_vecs(int64_t lanes)
{
    const int64_t left = (lanes + GLINT_CPU_LANES - 1) / GLINT_CPU_LANES;
    return left >= GLINT_CPU_VECS ? GLINT_CPU_VECS : left >= 2 ? 2 : 1;
}

GLINT_INLINE void glint_gemm(int64_t vecs, const struct glint_gemm *g)
{
#if GLINT_CPU_VECS > 2
    if (vecs == GLINT_CPU_VECS) {
        glint_gemm_full(g);
        return;
    }
#endif
#if GLINT_CPU_VECS > 1
    if (vecs == 2) {
        glint_gemm_2(g);
        return;
    }
#endif
    (void)vecs;
    glint_gemm_1(g);
}

GLINT_INLINE void glint_gemm_seen(int64_t vecs, const struct glint_gemm *g, int64_t k_begin, int64_t shift, const bool lags,
                                  int64_t lag, const int32_t *first, const int32_t *end, const int32_t *tree, int64_t tree_from)
{
    const glint_veci lane = glint_lane_index();
    for (int64_t row = 0; row < g->rows; row++) {
        for (int64_t v = 0; v < vecs; v++) {
            float *c = g->c + row * g->ldc + v * GLINT_CPU_LANES;
            glint_vec acc = glint_load(c);
            for (int64_t k = k_begin; k < g->depth; k++) {
                const glint_vec b = glint_load(g->b + k * g->ldb + v * GLINT_CPU_LANES);
                const glint_vec sum = glint_fma(glint_splat(g->a[row * g->a_row + k * g->a_k]), b, acc);
                glint_veci sees = lane >= (int32_t)(k + shift - v * GLINT_CPU_LANES);
                if (lags)
                    sees &= lane <= (int32_t)(k - lag - v * GLINT_CPU_LANES);
                if (first) {
                    glint_veci from, to;
                    memcpy(&from, first + v * GLINT_CPU_LANES, sizeof from);
                    memcpy(&to, end + v * GLINT_CPU_LANES, sizeof to);
                    sees = (from <= (int32_t)k) & (to > (int32_t)k);
                }
                if (tree && k >= tree_from) {
                    glint_veci chosen;
                    memcpy(&chosen, tree + k * g->ldb + v * GLINT_CPU_LANES, sizeof chosen);
                    sees &= chosen;
                }
                acc = glint_select(sees, sum, acc);
            }
            glint_store(c, acc);
        }
    }
}

/* C += A B over k in [k_begin, depth) where k counts only for lanes >= k + shift of the panel: for an A that holds inf
 * or NaN, whose product with the zero of a masked element of B would not be zero. The lanes that see k get the same
 * chain as from glint_gemm. */
GLINT_OUTLINE void glint_gemm_visible(int64_t vecs, const struct glint_gemm *g, int64_t k_begin, int64_t shift)
{
    glint_gemm_seen(vecs, g, k_begin, shift, false, 0, NULL, NULL, NULL, 0);
}

/* The same where k counts only for lanes <= k - lag too. */
GLINT_OUTLINE void glint_gemm_band(int64_t vecs, const struct glint_gemm *g, int64_t k_begin, int64_t shift, int64_t lag)
{
    glint_gemm_seen(vecs, g, k_begin, shift, true, lag, NULL, NULL, NULL, 0);
}

/* The same where k counts only for lanes x with first[x] <= k < end[x]. */
GLINT_OUTLINE void glint_gemm_within(int64_t vecs, const struct glint_gemm *g, int64_t k_begin, const int32_t *first,
                                     const int32_t *end)
{
    glint_gemm_seen(vecs, g, k_begin, 0, false, 0, first, end, NULL, 0);
}

/* The same where k counts from tree_from on only for lanes x of which tree[k * ldb + x] is all ones. */
GLINT_OUTLINE void glint_gemm_in_tree(int64_t vecs, const struct glint_gemm *g, int64_t k_begin, const int32_t *first,
                                      const int32_t *end, const int32_t *tree, int64_t tree_from)
{
    glint_gemm_seen(vecs, g, k_begin, 0, false, 0, first, end, tree, tree_from);
}

#endif
