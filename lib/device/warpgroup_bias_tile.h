/* A bias by a tensor in the softmax of a warpgroup's queries, forward. A warp copies the elements of its 16 queries and
 * of a block of keys to shared memory itself, as soon as it has added those of the block before: a whole step passes
 * until they are wanted, and nobody else reads them, so that no barrier is wanted but the warp's own.
 *
 * A load of a fragment from global memory touches 8 lines for 128 or 256 bytes. Here a copy of 16 bytes a lane touches
 * 4, of 128 bytes each, and a load of a fragment from shared memory meets each bank once: rows are 8 elements longer
 * than a block. */
#ifndef GLINT_DEVICE_WARPGROUP_BIAS_TILE_H
#define GLINT_DEVICE_WARPGROUP_BIAS_TILE_H

#include "lib/device/bias.h"
#include "lib/device/hopper_call.h"
#include "lib/device/ragged.h"

/* Which ragged sequence a query of a tile is of, by its row: the last one that begins there or before. */
GLINT_DEVICE int32_t number_of_row(const struct glint_gpu_sequences &sequences, int32_t batch, int32_t row)
{
    int32_t number = 0, end = batch; /* beyond it, or beyond all */

#pragma unroll 1
    while (end - number > 1) {
        const int32_t middle = number + (end - number) / 2;

        if (int_at(sequences.first_q, middle) <= row)
            number = middle;
        else
            end = middle;
    }
    return number;
}

/* Of a bias that is no tensor: nothing. */
template <class Bias, int keys> struct staged_bias {
    enum : uint32_t { BYTES = 0 };

    GLINT_DEVICE float exponent_scale(const struct glint_gpu_shape &shape)
    {
        return ::exponent_scale<no_bias>(shape);
    }
    GLINT_DEVICE void add(float (&)[keys / 2], const struct glint_gpu_forward_maps &, uint32_t) {}
};

template <class Element, int keys> struct staged_bias<tensor_bias<Element>, keys> {
    enum : uint32_t {
        ROW = keys + 8,       /* elements of a row in shared memory */
        BYTES = 16 * 4 * ROW, /* of a warp's queries, in float32 */
    };

    GLINT_DEVICE float exponent_scale(const struct glint_gpu_shape &shape)
    {
        return ::exponent_scale<tensor_bias<Element>>(shape);
    }
    GLINT_DEVICE const struct glint_gpu_bias_tensor &tensor(const struct glint_gpu_forward_maps &p)
    {
        return reinterpret_cast<const struct glint_gpu_biased_maps &>(p).tensor;
    }
    GLINT_DEVICE uint32_t own(uint32_t at)
    {
        return at + warp_index() * BYTES;
    }

    /* Where the elements of the warp's first query begin, of query head `head` of sequence `number`; query0: the
     * warpgroup's first. */
    GLINT_DEVICE const char *rows_from(const struct glint_gpu_forward_maps &p, int32_t number, int32_t head, int32_t query0)
    {
        const struct glint_gpu_bias_tensor &all = tensor(p);
        const int64_t query = query0 + (int32_t)(warp_index() % 4 * 16);

        return (const char *)all.address + (number * all.batch + head * all.head + query * all.query) * (all.narrow ? 2 : 4);
    }

    /* Copies of 16 bytes: eight lanes have 128 bytes of a row. BYTES_OF: of an element. Rows beyond the last one are
     * the last one again, which is above them, and keys beyond the last one are zeros. */
    template <int BYTES_OF>
    GLINT_DEVICE void copy_lines(uint32_t to, const char *from, int64_t row_bytes, int32_t last_row, int32_t left)
    {
        const int32_t row = (int32_t)(lane_index() / 8), column = (int32_t)(lane_index() % 8) * (16 / BYTES_OF);

        to += (uint32_t)(row * (int32_t)ROW + column) * BYTES_OF;
        from += column * BYTES_OF;
#pragma unroll 1 /* registers */
        for (int32_t r = 0; r < 16; r += 4) {
            const char *const line = from + min(row + r, last_row) * row_bytes;

#pragma unroll
            for (int c = 0; c < keys; c += 128 / BYTES_OF)
                if (c + 128 / BYTES_OF <= keys || column < keys - c) {
                    const bool inside = column + c < left;

                    cp_async_16(to + (uint32_t)c * BYTES_OF, inside ? line + c * BYTES_OF : from, inside);
                }
            to += 4 * ROW * BYTES_OF;
        }
    }
    /* Element by element, of any strides. */
    GLINT_DEVICE void copy_elements(uint32_t to, const struct glint_gpu_bias_tensor &all, const char *from, int32_t last_row,
                                    int32_t left)
    {
#pragma unroll 1
        for (int32_t row = 0; row < 16; ++row) {
            const int64_t line = min(row, last_row) * all.query;

            if (all.narrow) {
#pragma unroll 1
                for (int32_t key = 2 * (int32_t)lane_index(); key < keys; key += 64) {
                    uint32_t pair = 0;

                    if (key < left)
                        pair = ld_global_u16(from + (line + key * all.key) * 2);
                    if (key + 1 < left)
                        pair |= ld_global_u16(from + (line + (key + 1) * all.key) * 2) << 16;
                    st_shared_u32(to + (uint32_t)(row * (int32_t)ROW + key) * 2, pair);
                }
            } else {
#pragma unroll 1
                for (int32_t key = (int32_t)lane_index(); key < keys; key += 32) {
                    const bool inside = key < left;

                    cp_async_4(to + (uint32_t)(row * (int32_t)ROW + key) * 4, from + (line + (inside ? key : 0) * all.key) * 4,
                               inside);
                }
            }
        }
    }

    /* Begins the copy of a block from key0 on; rows: queries from the warpgroup's first one on. The elements before
     * have been added. */
    GLINT_DEVICE void request(const struct glint_gpu_forward_maps &p, uint32_t at, const char *first, int32_t rows, int32_t key0,
                              int32_t seqlen_k)
    {
        const struct glint_gpu_bias_tensor &all = tensor(p);
        const int32_t last_row = rows - (int32_t)(warp_index() % 4 * 16) - 1, left = seqlen_k - key0;
        const int64_t bytes = all.narrow ? 2 : 4, row_bytes = all.query * bytes;
        const char *const from = first + key0 * all.key * bytes;
        const uint32_t chunk = 16 / (uint32_t)bytes;

        if (all.key == 1 && (((uint64_t)from | (uint64_t)row_bytes) & 15) == 0 && (left >= keys || (uint32_t)left % chunk == 0)) {
            if (all.narrow)
                copy_lines<2>(own(at), from, row_bytes, last_row, left);
            else
                copy_lines<4>(own(at), from, row_bytes, last_row, left);
        } else {
            copy_elements(own(at), all, from, last_row, left);
        }
        cp_async_commit();
    }

    /* Scales the scores of a block and adds its elements. */
    GLINT_DEVICE void add(float (&s)[keys / 2], const struct glint_gpu_forward_maps &p, uint32_t at)
    {
        const float scale = fabsf(p.base.shape.softmax_scale);
        const uint32_t from = own(at), element = lane_index() / 4 * ROW + lane_index() % 4 * 2;

        cp_async_wait(0);
        warp_sync();
        if (tensor(p).narrow) {
#pragma unroll
            for (int i = 0; i < keys / 2; i += 2) {
                const uint32_t pair = ld_shared_u32(from + element * 2 + (uint32_t)(i / 2 % 2 * 8 * (int)ROW + i / 4 * 8) * 2);

                s[i] = fmaf(s[i], scale, Element::low(pair));
                s[i + 1] = fmaf(s[i + 1], scale, Element::high(pair));
            }
        } else {
#pragma unroll
            for (int i = 0; i < keys / 2; i += 2) {
                float pair[2];

                ld_shared_f32x2(pair, from + element * 4 + (uint32_t)(i / 2 % 2 * 8 * (int)ROW + i / 4 * 8) * 4);
                s[i] = fmaf(s[i], scale, pair[0]);
                s[i + 1] = fmaf(s[i + 1], scale, pair[1]);
            }
        }
        warp_sync();
    }
};

#endif
