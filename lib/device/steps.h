/* Steps of the attention kernels that are more than one instruction: where a block works, how a tile lies in shared
 * memory, how it is copied. Arithmetic on named registers stays in the kernels' templates, where the algorithm is
 * read. */
#ifndef GLINT_DEVICE_STEPS_H
#define GLINT_DEVICE_STEPS_H

#include "lib/device/call.h"
#include "lib/device/element.h"

/* ---- where a block works ----------------------------------------------------------------------------------------- */

struct block_place {
    int32_t index; /* of the block within its head, the longest first if the caller numbers them so */
    int32_t head;  /* batch * heads + head */
};

/* Sections of `section` heads one after another; in a section, block 0 of every head, then block 1 of every head,
 * ... */
GLINT_DEVICE struct block_place find_place(uint32_t block, uint32_t blocks_per_head, uint32_t heads, uint32_t section)
{
    struct block_place place;

    section = section < heads ? section : heads;
    uint32_t which = block / (blocks_per_head * section);
    uint32_t rest = block - which * (blocks_per_head * section);
    uint32_t first = which * section;
    uint32_t size = heads - first < section ? heads - first : section;

    place.index = (int32_t)(rest / size);
    place.head = (int32_t)(first + rest % size);
    return place;
}

/* A block of queries of one head. */
struct query_block {
    int32_t query0, batch, head_q, head; /* first query; head is batch * heads_q + head_q */
};

template <int TILE_M>
GLINT_DEVICE struct query_block query_block_at(const struct glint_gpu_shape &shape, const struct block_place &place, int32_t blocks)
{
    struct query_block block;

    block.query0 = (blocks - 1 - place.index) * TILE_M;
    block.head = place.head;
    block.batch = place.head / shape.heads_q;
    block.head_q = place.head - block.batch * shape.heads_q;
    return block;
}

/* Blocks of TILE_M of a head's `queries`, at least 1, the last ones of a head first: under a causal mask they see the
 * most keys. `group`: query heads that stand for one head of the section. */
template <int TILE_M>
GLINT_DEVICE struct query_block find_query_block(const struct glint_gpu_shape &shape, int32_t group, int32_t queries)
{
    const int32_t blocks = (queries + TILE_M - 1) / TILE_M;
    const struct block_place place =
        find_place(block_index(), (uint32_t)blocks, (uint32_t)(shape.batch * shape.heads_q), (uint32_t)(shape.section * group));

    return query_block_at<TILE_M>(shape, place, blocks);
}

template <int TILE_M> GLINT_DEVICE struct query_block find_query_block(const struct glint_gpu_shape &shape, int32_t group)
{
    return find_query_block<TILE_M>(shape, group, shape.seqlen_q);
}

/* The block of queries where sections have `section` heads. */
template <int TILE_M> GLINT_DEVICE struct query_block find_query_block_of(const struct glint_gpu_shape &shape, int32_t section)
{
    const int32_t blocks = (shape.seqlen_q + TILE_M - 1) / TILE_M;
    const struct block_place place =
        find_place(block_index(), (uint32_t)blocks, (uint32_t)(shape.batch * shape.heads_q), (uint32_t)section);

    return query_block_at<TILE_M>(shape, place, blocks);
}

/* A block of keys of one head, from its number. */
struct key_block {
    int32_t index, batch, head_kv; /* index: in its head */
};

template <int TILE_N> GLINT_DEVICE struct key_block find_key_block(const struct glint_gpu_shape &shape, uint32_t number)
{
    const uint32_t blocks = (uint32_t)(shape.seqlen_k + TILE_N - 1) / TILE_N;
    const struct block_place place = find_place(number, blocks, (uint32_t)(shape.batch * shape.heads_kv), (uint32_t)shape.section);
    struct key_block block;

    block.index = place.index;
    block.batch = place.head / shape.heads_kv;
    block.head_kv = place.head - block.batch * shape.heads_kv;
    return block;
}

/* The same where several blocks share the query heads of a key head: `part` of them, and `tile`, which key block among
 * those of all heads. Part 0 of all heads comes before part 1, so that a block seldom waits for the one that adds to
 * its dK and dV before it. */
struct key_part {
    int32_t index, batch, head_kv, part, tile;
};

template <int TILE_N> GLINT_DEVICE struct key_part find_key_part(const struct glint_gpu_call &p, uint32_t number)
{
    const int32_t blocks = (p.shape.seqlen_k + TILE_N - 1) / TILE_N, heads = p.shape.batch * p.shape.heads_kv;
    const struct block_place place = find_place(number, (uint32_t)blocks, (uint32_t)(heads * p.parts), (uint32_t)p.shape.section);
    struct key_part block;

    block.index = place.index;
    block.part = place.head / heads;
    const int32_t head = place.head - block.part * heads;
    block.tile = head * blocks + place.index;
    block.batch = head / p.shape.heads_kv;
    block.head_kv = head - block.batch * p.shape.heads_kv;
    return block;
}

/* Address of row `row` of a head of a tensor. */
GLINT_DEVICE char *view_row(const struct glint_gpu_view *view, int32_t batch, int32_t head, int32_t row, const int element_bytes)
{
    return (char *)view->address + (batch * view->batch + head * view->head + row * view->row) * element_bytes;
}

/* ---- tiles in shared memory -------------------------------------------------------------------------------------- */

/* A tile of `rows` rows is split by columns into pages of page_chunks (8, 4 or 2) chunks of 16 bytes, each page rows x
 * page_chunks chunks, row after row. Within a row chunks are permuted by an exclusive or with bits of the row, so that
 * the eight rows of an 8x8 matrix, and the eight neighbours of a row, lie in different banks: neither ldmatrix, nor
 * fragment stores, nor 16-byte copies conflict. */
GLINT_DEVICE uint32_t tile_offset(uint32_t row, uint32_t chunk, const uint32_t rows, const uint32_t page_chunks)
{
    const uint32_t shift = page_chunks == 8 ? 0 : page_chunks == 4 ? 1 : 2;

    return (chunk / page_chunks * rows + row) * page_chunks * 16 +
           ((chunk % page_chunks ^ (row >> shift & (page_chunks - 1))) << 4);
}

/* The address `row` rows (a multiple of 8) and `chunk` chunks further than a lane's address. The lane's own chunk must
 * be 0 when `chunk` may be odd, and 0 or 1 when it is even. Tiles begin at multiples of 128 bytes, so that the
 * permutation is the address's. */
GLINT_DEVICE uint32_t tile_move(uint32_t address, const uint32_t row, const uint32_t chunk, const uint32_t rows,
                                const uint32_t page_chunks)
{
    return (address ^ chunk % page_chunks << 4) + (chunk / page_chunks * rows + row) * page_chunks * 16;
}

/* Lane offsets for ldmatrix_x4. As operand A (16 rows, 32 bytes of columns): r[] in the order of mma's a[]. */
GLINT_DEVICE uint32_t lane_offset_a(uint32_t lane, const uint32_t rows, const uint32_t page_chunks)
{
    return tile_offset(lane & 15, lane >> 4, rows, page_chunks);
}

/* As two operands B, 16 rows of the tile being 16 columns n of the product: r[0], r[1] the first 8, r[2], r[3] the
 * others. */
GLINT_DEVICE uint32_t lane_offset_b(uint32_t lane, const uint32_t rows, const uint32_t page_chunks)
{
    return tile_offset((lane & 7) + (lane >> 4 << 3), lane >> 3 & 1, rows, page_chunks);
}

/* Where this thread begins to copy a tile whose first row is at `rows`: the argument `from` of copy_tile. */
GLINT_DEVICE const char *copy_from(const char *rows, int64_t row_bytes, const uint32_t page_chunks)
{
    return rows + thread_index() / page_chunks * row_bytes + thread_index() % page_chunks * 16;
}

/* Numbers of 32 bits have no transposing load. As operands B of two products, 8 rows of the tile being the 8 k: the k
 * of a product are summed in any order, so k = q takes row 2q and k = q + 4 row 2q + 1, which is also how accumulators
 * become operand A without a move: a = {d[0], d[2], d[1], d[3]}. r[0], r[1] are of column lane / 4, r[2], r[3] of the
 * eighth from there. */
GLINT_DEVICE uint32_t lane_offset_rows(uint32_t lane, uint32_t chunk, const uint32_t rows, const uint32_t page_chunks)
{
    return tile_offset(2 * (lane & 3), chunk + (lane >> 4), rows, page_chunks) + (lane >> 2 & 3) * 4;
}

/* From a lane's address, `row` rows and `chunk` chunks further. What is exclusive in an address comes first, so that
 * one register serves all rows and pages. */
GLINT_DEVICE void load_rows(uint32_t r[4], uint32_t lane_address, const uint32_t row, const uint32_t chunk, const uint32_t rows,
                            const uint32_t page_chunks)
{
    const uint32_t odd = lane_address ^ (page_chunks == 8 ? 16 : 0);

    r[0] = ld_shared_u32(tile_move(lane_address, row, chunk, rows, page_chunks));
    r[1] = ld_shared_u32(tile_move(odd, row + 1, chunk, rows, page_chunks));
    r[2] = ld_shared_u32(tile_move(lane_address, row, chunk + 2, rows, page_chunks));
    r[3] = ld_shared_u32(tile_move(odd, row + 1, chunk + 2, rows, page_chunks));
}

/* Operands to tf32, with relative errors of 2^-11: what is loaded, for one product. */
template <int N> GLINT_DEVICE void round_words(uint32_t (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; ++i)
        x[i] = nearest_tf32(float_of(x[i]));
}

/* What this thread copied with copy_tile; its copies must have arrived. A tile that is read many times is better
 * rounded once. */
GLINT_DEVICE void round_tile(uint32_t tile, const uint32_t rows, const uint32_t pages, const uint32_t page_chunks,
                             const uint32_t threads)
{
#pragma unroll 2
    for (uint32_t row = thread_index() / page_chunks; row < rows; row += threads / page_chunks) {
#pragma unroll
        for (uint32_t page = 0; page < pages; ++page) {
            const uint32_t address = tile + tile_offset(row, page * page_chunks + thread_index() % page_chunks, rows, page_chunks);
            uint32_t v[4];

            ld_shared_u32x4(v, address);
            round_words(v);
            st_shared_u32x4(address, v);
        }
    }
}

/* The part of `thread` in copy_tile. */
GLINT_DEVICE void copy_part(uint32_t thread, uint32_t tile, const char *from, int64_t row_bytes, int32_t valid_rows,
                            const uint32_t rows, const uint32_t row_chunks, const uint32_t pages, const uint32_t page_chunks,
                            const uint32_t threads)
{
    const uint32_t chunk = thread % page_chunks;
    const uint32_t first = thread / page_chunks;

#pragma unroll
    for (uint32_t i = 0; i < (rows * page_chunks + threads - 1) / threads; ++i) {
        const uint32_t row = first + i * (threads / page_chunks);

        if (rows * page_chunks % threads == 0 || row < rows) {
#pragma unroll
            for (uint32_t page = 0; page < pages; ++page)
                cp_async_16(tile + tile_offset(row, page * page_chunks + chunk, rows, page_chunks), from + page * page_chunks * 16,
                            (valid_rows >= (int32_t)rows || (int32_t)row < valid_rows) &&
                                (row_chunks == pages * page_chunks || page * page_chunks + chunk < row_chunks));
        }
        from += threads / page_chunks * row_bytes;
    }
}

/* Begins the copy of `rows` rows from global memory by `threads` threads; rows from valid_rows on, and chunks from
 * row_chunks on, become zero. */
GLINT_DEVICE void copy_tile(uint32_t tile, const char *from, int64_t row_bytes, int32_t valid_rows, const uint32_t rows,
                            const uint32_t row_chunks, const uint32_t pages, const uint32_t page_chunks, const uint32_t threads)
{
    copy_part(thread_index(), tile, from, row_bytes, valid_rows, rows, row_chunks, pages, page_chunks, threads);
}

/* copy_tile in parts, for threads that keep their addresses: where this thread's first copy goes in a tile, and the
 * copies to the threads / page_chunks rows from row `down` of the tile on, from this thread's address in the first of
 * them. Zeros unless `wanted`. */
GLINT_DEVICE uint32_t copy_offset(const uint32_t rows, const uint32_t page_chunks)
{
    const uint32_t thread = thread_index_anew();

    return tile_offset(thread / page_chunks, thread % page_chunks, rows, page_chunks);
}

GLINT_DEVICE void copy_rows(uint32_t to, const char *from, bool wanted, const uint32_t down, const uint32_t rows,
                            const uint32_t row_chunks, const uint32_t pages, const uint32_t page_chunks, const uint32_t threads)
{
    if (rows * page_chunks % threads == 0 || thread_index() / page_chunks + down < rows) {
#pragma unroll
        for (uint32_t page = 0; page < pages; ++page)
            cp_async_16(to + (page * rows + down) * page_chunks * 16, from + page * page_chunks * 16,
                        wanted &&
                            (row_chunks == pages * page_chunks || page * page_chunks + thread_index() % page_chunks < row_chunks));
    }
}

/* Flips the sign bits (of each 32) of what this thread copied with copy_tile; its copies must have arrived. */
GLINT_DEVICE void negate_tile(uint32_t tile, uint32_t signs, const uint32_t rows, const uint32_t pages, const uint32_t page_chunks,
                              const uint32_t threads)
{
    for (uint32_t row = thread_index() / page_chunks; row < rows; row += threads / page_chunks) {
        for (uint32_t page = 0; page < pages; ++page) {
            uint32_t address = tile + tile_offset(row, page * page_chunks + thread_index() % page_chunks, rows, page_chunks);
            uint32_t v[4];

            ld_shared_u32x4(v, address);
            for (int i = 0; i < 4; ++i)
                v[i] ^= signs;
            st_shared_u32x4(address, v);
        }
    }
}

/* ---- NaN and infinity -------------------------------------------------------------------------------------------- */

/* Zero times NaN is NaN, so a number that is hidden by a weight of zero must not be there at all. A word holds two
 * numbers of 16 bits or one of 32; `exponent` is that of the highest, all ones: 0x7f800000 for bf16 and f32, 0x7c000000
 * for f16. */
GLINT_DEVICE uint32_t finite_part(uint32_t word, const uint32_t exponent, const uint32_t element_bytes)
{
    const uint32_t upper = element_bytes == 4 ? 0xffffffffu : 0xffff0000u;

    if ((word & exponent) == exponent)
        word &= ~upper;
    if (element_bytes == 2 && (word & exponent >> 16) == exponent >> 16)
        word &= upper;
    return word;
}

/* The bits of a delta of 0, -0, that says of a query without weights that its Q holds any. Sums that begin as 0 are it
 * only where they underflow. */
#define GLINT_DELTA_OF_SPECIAL 0x80000000u

/* Zero as long as no word holds any: their products with zero, summed. */
GLINT_DEVICE uint32_t gather_special(uint32_t sum, uint32_t word, const uint32_t exponent, const uint32_t element_bytes)
{
    if (element_bytes == 4)
        return bits_of(fmaf(float_of(word), 0.0f, float_of(sum)));
    return exponent == 0x7c000000u ? fma_f16x2(word, 0, sum) : fma_bf16x2(word, 0, sum);
}

/* Whether there are any in the part of a tile that this thread copied with copy_tile; its copies must have arrived. */
GLINT_DEVICE bool find_special(uint32_t tile, const uint32_t rows, const uint32_t pages, const uint32_t page_chunks,
                               const uint32_t threads, const uint32_t exponent, const uint32_t element_bytes)
{
    const uint32_t thread = thread_index_anew();
    uint32_t sum = 0;

#pragma unroll
    for (uint32_t i = 0; i < (rows * page_chunks + threads - 1) / threads; ++i) {
        const uint32_t row = thread / page_chunks + i * (threads / page_chunks);

        if (rows * page_chunks % threads == 0 || row < rows) {
#pragma unroll
            for (uint32_t page = 0; page < pages; ++page) {
                uint32_t v[4];

                ld_shared_u32x4(v, tile + tile_offset(row, page * page_chunks + thread % page_chunks, rows, page_chunks));
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    sum = gather_special(sum, v[j], exponent, element_bytes);
            }
        }
    }
    return (sum & (element_bytes == 4 ? 0x7fffffffu : 0x7fff7fffu)) != 0;
}

/* Makes zeros of those in `rows` rows from first_row on, `step` apart, in the chunks from first_chunk on, `stride`
 * apart; true if any. */
GLINT_DEVICE bool clear_special(uint32_t tile, uint32_t first_row, uint32_t step, uint32_t first_chunk, uint32_t stride,
                                const uint32_t rows, const uint32_t chunks, const uint32_t page_chunks, const uint32_t exponent,
                                const uint32_t element_bytes)
{
    uint32_t found = 0;

#pragma unroll 1
    for (uint32_t row = first_row; row < rows; row += step) {
#pragma unroll 1
        for (uint32_t chunk = first_chunk; chunk < chunks; chunk += stride) {
            const uint32_t address = tile + tile_offset(row, chunk, rows, page_chunks);
            uint32_t v[4];

            ld_shared_u32x4(v, address);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t finite = finite_part(v[i], exponent, element_bytes);

                found |= finite ^ v[i];
                v[i] = finite;
            }
            st_shared_u32x4(address, v);
        }
    }
    return found != 0;
}

/* Writes 16 rows, staged in shared memory by this warp, to global memory in chunks of 16 bytes: rows from valid_rows on
 * are left out. */
GLINT_DEVICE void store_rows(char *target, int64_t row_bytes, int32_t valid_rows, uint32_t tile, const uint32_t first_row,
                             const uint32_t rows, const uint32_t row_chunks, const uint32_t pages, const uint32_t page_chunks)
{
    const uint32_t chunk = lane_index() % page_chunks;

#pragma unroll
    for (uint32_t i = 0; i < 16 * page_chunks / 32; ++i) {
        const uint32_t row = lane_index() / page_chunks + i * (32 / page_chunks);

#pragma unroll
        for (uint32_t page = 0; page < pages; ++page) {
            if ((int32_t)row < valid_rows && page * page_chunks + chunk < row_chunks) {
                uint32_t v[4];

                ld_shared_u32x4(v, tile + tile_offset(first_row + row, page * page_chunks + chunk, rows, page_chunks));
                st_global_u32x4(target + row * row_bytes + (page * page_chunks + chunk) * 16, v);
            }
        }
    }
}

/* ---- rows spread over the four lanes of a quad ------------------------------------------------------------------- */

GLINT_DEVICE float quad_max(float x)
{
    x = fmaxf(x, shfl_xor(x, 1));
    return fmaxf(x, shfl_xor(x, 2));
}

GLINT_DEVICE float quad_sum(float x)
{
    x += shfl_xor(x, 1);
    return x + shfl_xor(x, 2);
}

#endif
