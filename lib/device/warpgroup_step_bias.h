/* A bias by a tensor in Hopper's step. A warp copies the elements of its 16 rows and of a tile of keys to shared memory
 * itself, as soon as it has added the tile before: nobody else reads them, so that no barrier is wanted but the warp's
 * own. A row is of a head and a query of its own; its address waits in shared memory, too.
 *
 * PARTS: where shared memory has no room for a tile in float32, it comes in halves, of which the second one is asked
 * for when the first one has been added. A tile of 16-bit elements always comes whole. */
#ifndef GLINT_DEVICE_WARPGROUP_STEP_BIAS_H
#define GLINT_DEVICE_WARPGROUP_STEP_BIAS_H

#include "lib/device/step_bias.h"

/* Of a bias that is no tensor: nothing. */
template <class Bias, int keys, int PARTS> struct step_elements {
    enum : uint32_t { BYTES = 0 };
};

template <class Element, int keys, int PARTS> struct step_elements<tensor_bias<Element>, keys, PARTS> {
    enum : uint32_t {
        PAD = 8, /* elements by which rows are longer: loads of a fragment meet each bank once */
        PART = keys / PARTS,
        NARROW_BYTES = 16 * 2 * (keys + PAD),
        WIDE_BYTES = 16 * 4 * (PART + PAD),
        ADDRESSES = NARROW_BYTES > WIDE_BYTES ? NARROW_BYTES : WIDE_BYTES, /* of the rows; 0: nobody's */
        BYTES = ADDRESSES + 16 * 8,                                        /* of a warp */
    };

    /* Of a unit, whose elements before have been added; first: the warp's first row of the tile. */
    GLINT_DEVICE void begin(const struct glint_gpu_step &p, uint32_t room, const struct biased_tile &tile, int32_t first)
    {
        const struct glint_gpu_bias_tensor &all = tensor_of(p);
        const int32_t lane = (int32_t)lane_index();

        if (lane < 16) {
            const struct step_row at = row_of_tile(p, first + lane, tile.query0, tile.own.seqlen_q);
            const int64_t element = tile.number * all.batch + (tile.head * p.group + at.head) * all.head + at.query * all.query;
            const uint64_t address = at.exists ? (uint64_t)all.address + (uint64_t)(element * (all.narrow ? 2 : 4)) : 0;

            st_shared_u32(room + ADDRESSES + (uint32_t)lane * 8, (uint32_t)address);
            st_shared_u32(room + ADDRESSES + (uint32_t)lane * 8 + 4, (uint32_t)(address >> 32));
        }
        warp_sync();
    }

    /* 16 bytes of a row, from an element on; keys from `left` on, counted from it, are zeros. */
    template <int BYTES_OF> GLINT_DEVICE void copy_chunk(uint32_t to, const char *from, int64_t step, int32_t left)
    {
        constexpr int COUNT = 16 / BYTES_OF;

        if (left <= 0 || (left >= COUNT && step == BYTES_OF && ((uint64_t)from & 15) == 0)) {
            cp_async_16(to, left > 0 ? from : (const char *)((uint64_t)from & ~(uint64_t)15), left > 0);
        } else if constexpr (BYTES_OF == 4) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i)
                cp_async_4(to + (uint32_t)i * 4, from + (i < left ? i * step : 0), i < left);
        } else {
            uint32_t words[4];

#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const uint32_t x = i < left ? ld_global_u16(from + i * step) : 0;

                words[i / 2] = i % 2 == 0 ? x : words[i / 2] | x << 16;
            }
            st_shared_u32x4(to, words);
        }
    }

    /* Eight lanes have neighbouring chunks of a row. */
    template <int BYTES_OF, int COUNT>
    GLINT_DEVICE void copy_rows(const struct glint_gpu_step &p, uint32_t room, int32_t key0, int32_t seqlen_k)
    {
        const struct glint_gpu_bias_tensor &all = tensor_of(p);
        const int64_t step = all.key * BYTES_OF;
        const int32_t first = (int32_t)(lane_index() % 8) * (16 / BYTES_OF);

#pragma unroll 1 /* registers */
        for (uint32_t row = lane_index() / 8; row < 16; row += 4) {
            const uint32_t word = room + ADDRESSES + row * 8;
            const uint64_t address = ld_shared_u32(word) | (uint64_t)ld_shared_u32(word + 4) << 32;
            const bool is_any = address != 0;

#pragma unroll
            for (int32_t c = 0; c < COUNT; c += 128 / BYTES_OF) {
                const int32_t key = key0 + first + c, left = is_any ? seqlen_k - key : 0;
                const char *const from = (const char *)(is_any ? address : (uint64_t)all.address) + (left > 0 ? key * step : 0);

                copy_chunk<BYTES_OF>(room + (row * (COUNT + PAD) + (uint32_t)(first + c)) * BYTES_OF, from, step, left);
            }
        }
        cp_async_commit();
    }

    /* Begins the copy of a tile from key0 on, or of its first part. */
    GLINT_DEVICE void request(const struct glint_gpu_step &p, uint32_t room, int32_t key0, int32_t seqlen_k)
    {
        if (tensor_of(p).narrow)
            copy_rows<2, keys>(p, room, key0, seqlen_k);
        else
            copy_rows<4, PART>(p, room, key0, seqlen_k);
    }

    /* Scales the scores of the tile that was asked for, from key0 on, and adds its elements. */
    GLINT_DEVICE void add(float (&s)[keys / 2], const struct glint_gpu_step &p, uint32_t room, int32_t key0, int32_t seqlen_k)
    {
        const float scale = fabsf(p.base.shape.softmax_scale);
        const uint32_t row = lane_index() / 4, column = lane_index() % 4 * 2;

        cp_async_wait(0);
        warp_sync();
        if (tensor_of(p).narrow) {
            const uint32_t from = room + (row * (keys + PAD) + column) * 2;

#pragma unroll
            for (int i = 0; i < keys / 2; i += 2) {
                const uint32_t pair = ld_shared_u32(from + (uint32_t)(i / 2 % 2 * 8 * (keys + (int)PAD) + i / 4 * 8) * 2);

                s[i] = fmaf(s[i], scale, Element::low(pair));
                s[i + 1] = fmaf(s[i + 1], scale, Element::high(pair));
            }
        } else {
            const uint32_t from = room + (row * (PART + PAD) + column) * 4;

#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                if (part > 0) {
                    warp_sync();
                    copy_rows<4, PART>(p, room, key0 + part * (int32_t)PART, seqlen_k);
                    cp_async_wait(0);
                    warp_sync();
                }
#pragma unroll
                for (int j = 0; j < (int)PART / 2; j += 2) {
                    const int i = part * (int)PART / 2 + j;
                    float pair[2];

                    ld_shared_f32x2(pair, from + (uint32_t)(j / 2 % 2 * 8 * ((int)PART + (int)PAD) + j / 4 * 8) * 4);
                    s[i] = fmaf(s[i], scale, pair[0]);
                    s[i + 1] = fmaf(s[i + 1], scale, pair[1]);
                }
            }
        }
        warp_sync();
    }
};

#endif
