$ local products = "wgmma_m64n%dk16_" .. dtype
$ local scores, values = products:format(tile_n), products:format(head_dim)
enum { Q, K, V }; /* of the maps */

$ if dtype == "f16" then
/* See follow_maxima. float16 ends at 2^-24 below, and sums of weights times V are far from float32's end above. */
enum { BELOW = 0 };
$ else
/* See follow_maxima: weights of at most 2^4, so that sums of them times the largest V do not overflow. */
enum { BELOW = 8 };
$ end

/* ---- where to work ----------------------------------------------------------------------------------------------- */

struct work {
    int32_t query0, batch, head_q;
    int32_t blocks;       /* of keys that some query of the tile sees, but at least one */
    int32_t first_masked; /* the first block with a key that some query does not see */
};

$ if causal then
/* Tile number `tile`; false if there is no such tile. The last queries see the most keys, so they come first: of a
 * section of heads, whose keys and values should stay in L2 (a section twice as large takes 5 to 15 % longer at 512 and
 * 1024 keys). But few and long heads leave long tiles for the end: at 16384 keys sections of 1 to 4 heads take 4 to 10 %
 * longer than those of 16. */
$ else
/* Tile number `tile`, one head after another; false if there is no such tile. */
$ end
GLINT_DEVICE bool place_work(struct work &work, const struct glint_gpu_shape &shape, uint32_t tile)
{
    const uint32_t tiles = (shape.seqlen_q + TILE_M - 1) / TILE_M, heads = shape.batch * shape.heads_q;

    if (tile >= tiles * heads)
        return false;
$ if causal then
    const struct block_place place = find_place(tile, tiles, heads, max(16u, (uint32_t)shape.section));
    work.query0 = ((int32_t)tiles - 1 - place.index) * TILE_M;
$ else
    const struct block_place place = find_place(tile, tiles, heads, 1);
    work.query0 = place.index * TILE_M;
$ end
    work.batch = place.head / shape.heads_q;
    work.head_q = place.head - work.batch * shape.heads_q;
$ if causal then
    const int32_t after = min(work.query0 + TILE_M, shape.seqlen_q) + shape.mask_offset; /* first key that none sees */
    const int32_t keys = min(shape.seqlen_k, after);
    work.first_masked = max(0, min(shape.seqlen_k, work.query0 + shape.mask_offset + 1)) / TILE_N;
$ else
    const int32_t keys = shape.seqlen_k;
    work.first_masked = keys / TILE_N;
$ end
    work.blocks = max(1, (keys + TILE_N - 1) / TILE_N);
    return true;
}

/* ---- products and their results ---------------------------------------------------------------------------------- */

/* S = Q K^T, begun. */
GLINT_DEVICE void begin_scores(float (&s)[TILE_N / 2], uint32_t queries, uint32_t keys)
{
    const uint64_t q = along_columns<query_tile>(queries), k = along_columns<key_tile>(keys);

    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < HEAD_DIM / 16; ++kk)
        ${scores}<0, 0>(s, q + column_step<query_tile>(kk), k + column_step<key_tile>(kk), kk > 0);
    wgmma_commit();
}

/* O = P V (add 0) or O += P V, begun. */
GLINT_DEVICE void begin_values(float (&o)[HEAD_DIM / 2], const uint32_t (&weights)[TILE_N / 4], uint32_t values,
                               int32_t add)
{
    const uint64_t v = along_rows<key_tile>(values);

    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < TILE_N / 16; ++kk)
        ${values}_ra<1>(o, weights + 4 * kk, v + row_step<key_tile>(kk), kk > 0 ? 1 : add);
    wgmma_commit();
}

/* Accumulators of 16 keys are operand A's registers. */
GLINT_DEVICE void pack_weights(uint32_t (&weights)[TILE_N / 4], const float (&s)[TILE_N / 2])
{
#pragma unroll
    for (int i = 0; i < TILE_N / 4; ++i)
        weights[i] = pack_${dtype}(s[2 * i], s[2 * i + 1]);
}

/* Hides what the mask and the end of the keys hide of a block's scores. */
GLINT_DEVICE void hide_scores(float (&s)[TILE_N / 2], const struct glint_gpu_shape &shape, int32_t query0,
                              int32_t block)
{
    const int32_t first_key = block * TILE_N + 2 * (int32_t)(lane_index() % 4);
$ if causal then
    const int32_t query = query0 + (int32_t)(thread_index() % 128 / 32 * 16 + lane_index() / 4);
    const int32_t last[2] = {min(query + shape.mask_offset, shape.seqlen_k - 1) - first_key,
                             min(query + 8 + shape.mask_offset, shape.seqlen_k - 1) - first_key};
$ else
    const int32_t last[2] = {shape.seqlen_k - 1 - first_key, shape.seqlen_k - 1 - first_key};
$ end

    hide_after<TILE_N>(s, last);
}

$ if causal then
/* NaN and infinities of V to the queries that see them: the cut blocks' again, from where they came. */
GLINT_DEVICE void add_special(float (&o)[HEAD_DIM / 2], const struct glint_forward_params &t, const struct work &work,
                              int32_t query0)
{
    const int32_t query = query0 + (int32_t)(thread_index() % 128 / 32 * 16 + lane_index() / 4) + t.shape.mask_offset;

#pragma unroll 1
    for (int32_t key = work.first_masked * TILE_N; key < min(work.blocks * TILE_N, t.shape.seqlen_k); ++key) {
        const char *row = view_row(&t.v, work.batch, work.head_q / t.shape.group, key, 2) + 4 * (lane_index() % 4);
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; i += 4) {
            const uint32_t pair = bits_of(ld_global_f32((const float *)(row + 4 * i)));
            const uint32_t special = pair ^ finite_part(pair, EXPONENT, 2);
#pragma unroll
            for (int half = 0; half < 2; ++half)
                if (special != 0 && key <= query + 8 * half) {
                    o[i + 2 * half] += low_${dtype}(special);
                    o[i + 2 * half + 1] += high_${dtype}(special);
                }
        }
    }
}

$ end
/* O / sum and the logarithms of the sums go to memory. */
GLINT_DEVICE void write_output(float (&o)[HEAD_DIM / 2], const struct softmax_rows &rows,
                               const struct glint_forward_params &t, const struct work &work, int32_t query0)
{
    const int32_t row0 = query0 + (int32_t)(thread_index() % 128 / 32 * 16 + lane_index() / 4);

#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int32_t row = row0 + 8 * half;
        const float sum = quad_sum(rows.sum[half]), inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        char *to = view_row(&t.o, work.batch, work.head_q, row, 2) + 16 * (lane_index() % 4);

        if (lane_index() % 4 == 0 && row < t.shape.seqlen_q)
            st_global_f32(t.lse + (int64_t)(work.batch * t.shape.heads_q + work.head_q) * t.shape.seqlen_q + row,
                          log_sum<BELOW>(rows.max[half], sum, t.shape.softmax_scale));
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; i += 16) { /* four fragments of eight columns: each lane gets a whole one */
            const float *c = o + i + 2 * half;
            uint32_t words[4];

#pragma unroll
            for (int j = 0; j < 4; ++j)
                words[j] = pack_${dtype}(c[4 * j] * inverse, c[4 * j + 1] * inverse);
            quad_transpose(words);
            if (row < t.shape.seqlen_q)
                st_global_u32x4(to + 4 * i, words);
        }
    }
}

