/* What the kernels are made of whose products are a warpgroup's (sm_90a): tiles as the copy engine leaves them,
 * copies of them, products, and what becomes of NaN and infinity. wgmma.h says which thread holds what of an
 * accumulator. */
#ifndef GLINT_DEVICE_WARPGROUP_H
#define GLINT_DEVICE_WARPGROUP_H

#include "lib/device/hopper.h"
#include "lib/device/hopper_call.h"
#include "lib/device/steps.h"
#include "lib/device/warpgroup_ring.h"

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* `rows` x `columns` numbers of 16 bits in shared memory, as one tma_load of a box of {width / 2, rows, columns * 2 /
 * width} elements with the swizzle of `width` bytes (128 or 64) leaves them: slab after slab, a slab being all rows of
 * width / 2 columns. Where columns fill no whole slabs each slab is a box, whose rest is zeros that no product reads.
 * The tile begins at a multiple of 8 * width bytes. It serves as an operand both ways, so nothing is ever transposed:
 *     K-major,  the contraction runs along columns: Q and K in Q K^T,
 *     MN-major, the contraction runs along rows: V in P V. */
template <int rows_, int columns_, int width_> struct slab_tile {
    enum {
        rows = rows_,
        columns = columns_,
        width = width_,
        chunks = width / 16,
        slab_bytes = rows * width,
        slabs = (columns * 2 + width - 1) / width,
        bytes = slabs * slab_bytes
    };
    enum { swizzle = width == 128 ? TENSOR_MAP_SWIZZLE_128B : TENSOR_MAP_SWIZZLE_64B };
};

/* The operand's descriptor for step 0, and what is added for step kk of 16 along the contraction. Descriptors count
 * 16 bytes. */
template <class tile> GLINT_DEVICE uint64_t along_columns(uint32_t at)
{
    return matrix_descriptor(at, 16, 8 * tile::width, (enum tensor_map_swizzle)tile::swizzle);
}

template <class tile> GLINT_DEVICE uint64_t column_step(const int kk)
{
    const int steps = tile::width / 32; /* of a slab */

    return (uint64_t)((kk / steps * tile::slab_bytes + kk % steps * 32) >> 4);
}

template <class tile> GLINT_DEVICE uint64_t along_rows(uint32_t at)
{
    return matrix_descriptor(at, tile::slab_bytes, 8 * tile::width, (enum tensor_map_swizzle)tile::swizzle);
}

template <class tile> GLINT_DEVICE uint64_t row_step(const int kk)
{
    return (uint64_t)(kk * 16 * tile::width >> 4);
}

/* Negates every number of a tile of a warpgroup's own, which has arrived. barrier: a named one of the warpgroup. */
template <class tile> GLINT_DEVICE void negate_slabs(uint32_t at, uint32_t barrier)
{
    for (uint32_t i = thread_index() % 128 * 16; i < tile::bytes; i += 128 * 16) {
        uint32_t v[4];

        ld_shared_u32x4(v, at + i);
        for (int j = 0; j < 4; ++j)
            v[j] ^= 0x80008000u;
        st_shared_u32x4(at + i, v);
    }
    fence_async_shared();
    named_sync(barrier, 128);
}

/* ---- copies: one thread for all of a tile ------------------------------------------------------------------------ */

/* Rows [row, row + rows) of a head, in boxes of box_rows. A tile of several slabs is one box. */
template <class tile, int box_rows = tile::rows>
GLINT_DEVICE void load_tile(uint32_t to, const struct tensor_map *map, int32_t row, int32_t head, int32_t batch, uint32_t full,
                            uint64_t hint)
{
#pragma unroll
    for (int part = 0; part < tile::rows / box_rows; ++part) {
        const int32_t at[5] = {0, row + part * box_rows, 0, head, batch};

        tma_load(to + part * (box_rows * tile::width), map, 5, at, full, hint);
    }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* One step of 16 along the contraction, for accumulators of any shape that a kernel has: both operands in shared
 * memory, `a` K-major, `b` MN-major if so asked; or `a` in registers and `b` MN-major unless K-major is asked. */
#define GLINT_PRODUCT(n, element)                                                                                           \
    template <int mn_major> GLINT_DEVICE void multiply_step(element, float(&d)[n / 2], uint64_t a, uint64_t b, int32_t add) \
    {                                                                                                                       \
        wgmma_m64n##n##k16_##element<0, mn_major>(d, a, b, add);                                                            \
    }                                                                                                                       \
    template <int mn_major = 1>                                                                                             \
    GLINT_DEVICE void multiply_step(element, float(&d)[n / 2], const uint32_t *a, uint64_t b, int32_t add)                  \
    {                                                                                                                       \
        wgmma_m64n##n##k16_##element##_ra<mn_major>(d, a, b, add);                                                          \
    }
#define GLINT_PRODUCTS(n) GLINT_PRODUCT(n, bf16) GLINT_PRODUCT(n, f16)

GLINT_PRODUCTS(16)
GLINT_PRODUCTS(32)
GLINT_PRODUCTS(48)
GLINT_PRODUCTS(64)
GLINT_PRODUCTS(80)
GLINT_PRODUCTS(96)
GLINT_PRODUCTS(112)
GLINT_PRODUCTS(128)
GLINT_PRODUCTS(144)
GLINT_PRODUCTS(160)
GLINT_PRODUCTS(176)
GLINT_PRODUCTS(192)
GLINT_PRODUCTS(208)
GLINT_PRODUCTS(224)
GLINT_PRODUCTS(240)
GLINT_PRODUCTS(256)

/* d = A B^T, begun: 64 rows by the rows of B, both as long as head_dim. This and the following are a group of their
 * own each; their caller has held d (wgmma_hold) since it touched it. */
template <class Element, class a_tile, class b_tile>
GLINT_DEVICE void begin_rows_by_rows(float (&d)[b_tile::rows / 2], uint32_t at_a, uint32_t at_b)
{
    const uint64_t a = along_columns<a_tile>(at_a), b = along_columns<b_tile>(at_b);

    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < b_tile::columns / 16; ++kk)
        multiply_step<0>(Element{}, d, a + column_step<a_tile>(kk), b + column_step<b_tile>(kk), kk > 0);
    wgmma_commit();
}

/* The same where the first columns of A come from registers, `words` of a thread, which keep_rows has filled: a product
 * of 64 columns reads as many bytes of each operand, and shared memory gives no more than that. */
template <class Element, class a_tile, class b_tile, int words>
GLINT_DEVICE void begin_kept_by_rows(float (&d)[b_tile::rows / 2], const uint32_t (&kept)[words], uint32_t at_a, uint32_t at_b)
{
    const uint64_t a = along_columns<a_tile>(at_a), b = along_columns<b_tile>(at_b);

    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < b_tile::columns / 16; ++kk)
        if (4 * kk < words)
            multiply_step<0>(Element{}, d, kept + 4 * kk, b + column_step<b_tile>(kk), kk > 0);
        else
            multiply_step<0>(Element{}, d, a + column_step<a_tile>(kk), b + column_step<b_tile>(kk), kk > 0);
    wgmma_commit();
}

/* The first columns of a tile's 64 rows as operand A's registers. `warp` is this one's number in its warpgroup. */
template <class tile, int words> GLINT_DEVICE void keep_rows(uint32_t (&kept)[words], uint32_t at, uint32_t lane, uint32_t warp)
{
    const uint32_t from = at + lane_offset_a(lane, tile::rows, tile::chunks) + warp * (16 * tile::width);

#pragma unroll
    for (int kk = 0; kk < words / 4; ++kk)
        ldmatrix_x4(kept + 4 * kk, tile_move(from, 0, 2 * kk, tile::rows, tile::chunks));
}

/* d = A B (add 0) or d += A B, begun: A is 64 rows of weights in registers, one for each row of B. */
template <class Element, class b_tile>
GLINT_DEVICE void begin_weights_by_rows(float (&d)[b_tile::columns / 2], const uint32_t (&a)[b_tile::rows / 4], uint32_t at_b,
                                        int32_t add)
{
    const uint64_t b = along_rows<b_tile>(at_b);

    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < b_tile::rows / 16; ++kk)
        multiply_step(Element{}, d, a + 4 * kk, b + row_step<b_tile>(kk), kk > 0 ? 1 : add);
    wgmma_commit();
}

/* d = A B, begun: A is 64 rows of weights in shared memory, one for each row of B, which is a row of tiles.
 * `columns` of B's, from at_b on. */
template <class Element, class a_tile, class b_tile, int columns>
GLINT_DEVICE void begin_tile_by_rows(float (&d)[columns / 2], uint32_t at_a, uint32_t at_b)
{
    const uint64_t a = along_columns<a_tile>(at_a), b = along_rows<b_tile>(at_b);
    const int steps = b_tile::rows / 16;

    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < a_tile::columns / 16; ++kk)
        multiply_step<1>(Element{}, d, a + column_step<a_tile>(kk),
                         b + (uint64_t)(kk / steps * b_tile::bytes >> 4) + row_step<b_tile>(kk % steps), kk > 0);
    wgmma_commit();
}

/* Accumulators are operand A's registers, 16 columns a step: nothing moves between threads. */
template <class Element, int n> GLINT_DEVICE void pack_weights(uint32_t (&a)[n / 2], const float (&s)[n])
{
#pragma unroll
    for (int i = 0; i < n / 2; ++i)
        a[i] = Element::pack(s[2 * i], s[2 * i + 1]);
}

template <int n> GLINT_DEVICE void clear_weights(uint32_t (&a)[n])
{
#pragma unroll
    for (int i = 0; i < n; ++i)
        a[i] = 0;
    wgmma_hold(a, n);
}

/* An accumulator as the fragments of mask.h: rows of the thread's warp by columns. */
template <int n> using fragments = float[1][n / 4][4];

template <int n> GLINT_DEVICE fragments<n> &fragments_of(float (&s)[n])
{
    return reinterpret_cast<fragments<n> &>(s);
}

/* ---- NaN and infinity -------------------------------------------------------------------------------------------- */

/* Whether `threads` threads, of which this is number `thread`, see NaN or infinity in bytes [0, bytes) at `at`: true
 * in the threads that do. They look without a branch, at several chunks at a time. */
template <int chunks = 4>
GLINT_DEVICE bool sees_special(uint32_t at, const uint32_t bytes, uint32_t thread, const uint32_t threads, const uint32_t exponent)
{
    uint32_t sum = 0;

#pragma unroll chunks
    for (uint32_t i = thread * 16; i < bytes; i += threads * 16) {
        uint32_t v[4];

        ld_shared_u32x4(v, at + i);
#pragma unroll
        for (int j = 0; j < 4; ++j)
            sum = gather_special(sum, v[j], exponent, 2);
    }
    return (sum & 0x7fff7fffu) != 0;
}

/* Zeros in rows [from, tile::rows) of a tile that has arrived, by `threads` threads, of which this is number
 * `thread`: each clears what it has in sees_special. Whether there are such rows. */
template <class tile> GLINT_DEVICE bool clear_rows(uint32_t at, int32_t from, uint32_t thread, const uint32_t threads)
{
    const uint32_t zeros[4] = {0, 0, 0, 0};

    if (from >= tile::rows)
        return false;
#pragma unroll 1
    for (uint32_t i = thread * 16; i < tile::bytes; i += threads * 16)
        if ((int32_t)(i / tile::width % tile::rows) >= from)
            st_shared_u32x4(at + i, zeros);
    return true;
}

/* Makes zeros of NaN and infinities. Not for the inner loop. */
GLINT_DEVICE void remove_special(uint32_t at, const uint32_t bytes, uint32_t thread, const uint32_t threads,
                                 const uint32_t exponent)
{
#pragma unroll 1
    for (uint32_t i = thread * 16; i < bytes; i += threads * 16) {
        uint32_t v[4];

        ld_shared_u32x4(v, at + i);
#pragma unroll
        for (int j = 0; j < 4; ++j)
            v[j] = finite_part(v[j], exponent, 2);
        st_shared_u32x4(at + i, v);
    }
}

#endif
