$ local f32 = dtype == "f32"
$ local tf32 = math == "tf32" -- operands are rounded before the product, with tf32x3 in it
$ local mma = tf32 and "mma_m16n8k8_tf32" or f32 and "mma_f32_" .. math or "mma_m16n8k16_" .. dtype
/* ---- products of fragments, for kernels of every shape ---- */

/* Accumulators of a warp: [fragment of 16 rows][fragment of 8 columns][register of mma's d]. Registers 0, 1 belong to row lane / 4 of the
 * fragment, registers 2, 3 to row lane / 4 + 8: `side` tells them apart. */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void set_zero(float (&d)[ROWS][COLUMNS][4])
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int ct = 0; ct < COLUMNS; ++ct)
            d[rt][ct][0] = d[rt][ct][1] = d[rt][ct][2] = d[rt][ct][3] = 0.0f;
}

$ if tf32 then
/* Accumulators that become operands. */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void round_scores(float (&s)[ROWS][COLUMNS][4])
{
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int ct = 0; ct < COLUMNS; ++ct)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s[rt][ct][i] = float_of(nearest_tf32(s[rt][ct][i]));
}

$ end
/* d = x y^T over all columns of two tiles of x_rows and y_rows rows, from x_lane (operand A${tf32 and ", rounded already" or ""}) and y_lane (operand B) on.${kv_kept > 0 and " The first `kept` steps of x are in x_kept." or ""} */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void multiply_rows(float (&d)[ROWS][COLUMNS][4], ${kv_kept > 0 and "const uint32_t x_kept[][ROWS][4], const int kept, " or ""}uint32_t x_lane, const uint32_t x_rows, uint32_t y_lane, const uint32_t y_rows)
{
    set_zero(d);
#pragma unroll
    for (int kk = 0; kk < DIM_PADDED / K_STEP; ++kk) {
        uint32_t x[ROWS][4];
#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt)
$ if kv_kept > 0 then
            if (kk < kept) {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    x[rt][i] = x_kept[kk][rt][i];
            } else
                ldmatrix_x4(x[rt], tile_move(x_lane, rt * 16, kk * 2, x_rows, PAGE_CHUNKS));
$ else
            ldmatrix_x4(x[rt], tile_move(x_lane, rt * 16, kk * 2, x_rows, PAGE_CHUNKS));
$ end
#pragma unroll
        for (int ct = 0; ct < COLUMNS; ct += 2) {
            uint32_t y[4];

            ldmatrix_x4(y, tile_move(y_lane, ct * 8, kk * 2, y_rows, PAGE_CHUNKS));
$ if tf32 then
            round_words(y);
$ end
#pragma unroll
            for (int rt = 0; rt < ROWS; ++rt) {
                ${mma}(d[rt][ct], x[rt], y[0], y[1]);
                ${mma}(d[rt][ct + 1], x[rt], y[2], y[3]);
            }
        }
    }
}

/* d += a z for K_STEP rows of tile z, from row kk * K_STEP on; with `finite`, of z's finite part.${tf32 and " With `rounded`, z is so already." or ""} */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void multiply_step(float (&d)[ROWS][COLUMNS][4], const uint32_t (&a)[ROWS][4], uint32_t z_lane, const int kk,
                                const uint32_t z_rows, const bool finite${tf32 and ", const bool rounded" or ""})
{
#pragma unroll
    for (int ct = 0; ct < COLUMNS; ct += 2) {
        uint32_t z[4];

$ if f32 then
        load_rows(z, z_lane, kk * 8, ct * 2, z_rows, PAGE_CHUNKS);
$ else
        ldmatrix_x4_trans(z, tile_move(z_lane, kk * 16, ct, z_rows, PAGE_CHUNKS));
$ end
#pragma unroll
        for (int i = 0; i < 4; ++i)
            z[i] = finite ? finite_part(z[i], EXPONENT, BYTES) : z[i];
$ if tf32 then
        if (!rounded)
            round_words(z);
$ end
#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt) {
            ${mma}(d[rt][ct], a[rt], z[0], z[1]);
            ${mma}(d[rt][ct + 1], a[rt], z[2], z[3]);
        }
    }
}

/* Accumulators as operand A of the next product, which sums over their columns. */
template <int STEPS, int ROWS, int COLUMNS>
GLINT_DEVICE void to_operand(uint32_t (&a)[STEPS][ROWS][4], const float (&s)[ROWS][COLUMNS][4])
{
#pragma unroll
    for (int kk = 0; kk < STEPS; ++kk)
#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
            for (int i = 0; i < 4; ++i)
$ if f32 then
                a[kk][rt][i] = bits_of(s[rt][kk][2 * (i & 1) + (i >> 1)]);
$ else
                a[kk][rt][i] = pack_${dtype}(s[rt][2 * kk + (i >> 1)][2 * (i & 1)], s[rt][2 * kk + (i >> 1)][2 * (i & 1) + 1]);
$ end
}

/* Where a lane's first accumulators of a fragment lie in a tile: two columns of row lane / 4. The ones of eight columns further are
 * FRAGMENT_CHUNKS chunks away. */
enum { FRAGMENT_CHUNKS = ${f32 and 2 or 1} };

GLINT_DEVICE uint32_t lane_offset_pairs(uint32_t lane, const uint32_t rows, const uint32_t page_chunks)
{
$ if f32 then
    return tile_offset(lane >> 2, lane >> 1 & 1, rows, page_chunks) + (lane & 1) * 8;
$ else
    return tile_offset(lane >> 2, 0, rows, page_chunks) + (lane & 3) * 4;
$ end
}
$ if f32 then

/* Scores in float32 lie in a tile of one page, with chunks permuted in another way: by twos, so that neither fragments, which are stored
 * 8 bytes a lane by four neighbouring rows at a time, nor load_scores, by four even or four odd rows, have two lanes at one bank. */
GLINT_DEVICE uint32_t scores_offset(uint32_t row, uint32_t chunk, const uint32_t page_chunks)
{
    return page_chunks == 8 ? row * 128 + ((chunk ^ (row & 6) ^ (row & 1) << 2) << 4) : tile_offset(row, chunk, 0, page_chunks);
}

/* Transposed scores as operand A, 8 rows of the tile being the 8 k, as in load_rows, and 16 columns its rows: row g + 8 side of the operand
 * is column 2g + side, so that numbers of two rows are neighbours. */
GLINT_DEVICE uint32_t lane_offset_scores(uint32_t lane, uint32_t chunk, const uint32_t page_chunks)
{
    return scores_offset(2 * (lane & 3), chunk + (lane >> 3), page_chunks) + (lane >> 2 & 1) * 8;
}

GLINT_DEVICE void load_scores(uint32_t a[4], uint32_t lane_address, const uint32_t row, const uint32_t chunk, const uint32_t page_chunks)
{
    float even[2], odd[2];

    ld_shared_f32x2(even, tile_move(lane_address, row, chunk, 0, page_chunks));
    ld_shared_f32x2(odd, tile_move(lane_address ^ (page_chunks == 8 ? 64 : 0), row + 1, chunk, 0, page_chunks));
    a[0] = bits_of(even[0]), a[1] = bits_of(even[1]), a[2] = bits_of(odd[0]), a[3] = bits_of(odd[1]);
}
$ end

GLINT_DEVICE void st_shared_pair(uint32_t address, float x, float y)
{
$ if f32 then
    st_shared_f32x2(address, x, y);
$ else
    st_shared_u32(address, pack_${dtype}(x, y));
$ end
}

/* 16 rows of accumulators, times a factor, from row first_row of a tile on: what store_rows takes from there. */
template <int COLUMNS>
GLINT_DEVICE void stage_rows(uint32_t tile_lane, const float (&d)[COLUMNS][4], float factor, const uint32_t first_row, const uint32_t rows)
{
#pragma unroll
    for (int ct = 0; ct < COLUMNS; ++ct)
#pragma unroll
        for (int side = 0; side < 2; ++side)
            st_shared_pair(tile_move(tile_lane, first_row + side * 8, ct * FRAGMENT_CHUNKS, rows, PAGE_CHUNKS), d[ct][2 * side] * factor,
                           d[ct][2 * side + 1] * factor);
}

$ if causal then
/* NaN and infinities of row `z_row` of a tile, times `factor`, to the rows of d that see it, which `sees(row)` says: a column of d is
 * the tile's, from chunk first_chunk on. */
template <int ROWS, int COLUMNS, class Sees>
GLINT_DEVICE void add_special(float (&d)[ROWS][COLUMNS][4], uint32_t tile, uint32_t z_row, uint32_t first_chunk, const uint32_t rows, float factor,
                              Sees sees)
{
    const uint32_t lane = thread_index_anew() % 32;

#pragma unroll
    for (int ct = 0; ct < COLUMNS; ++ct) {
$ if f32 then
        float v[2];

        ld_shared_f32x2(v, tile + tile_offset(z_row, first_chunk + ct * 2 + (lane >> 1 & 1), rows, PAGE_CHUNKS) + (lane & 1) * 8);
        v[0] = float_of(bits_of(v[0]) ^ finite_part(bits_of(v[0]), EXPONENT, BYTES));
        v[1] = float_of(bits_of(v[1]) ^ finite_part(bits_of(v[1]), EXPONENT, BYTES));
$ else
        const uint32_t word = ld_shared_u32(tile + tile_offset(z_row, first_chunk + ct, rows, PAGE_CHUNKS) + (lane & 3) * 4);
        const uint32_t special = word ^ finite_part(word, EXPONENT, BYTES);
        const float v[2] = {low_${dtype}(special), high_${dtype}(special)};
$ end

#pragma unroll
        for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
            for (int side = 0; side < 2; ++side)
                if (sees(rt * 16 + side * 8 + (int32_t)(lane >> 2))) {
                    d[rt][ct][2 * side] += v[0] * factor;
                    d[rt][ct][2 * side + 1] += v[1] * factor;
                }
    }
}
$ end
