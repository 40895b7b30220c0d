$ local f32 = dtype == "f32"
$ local bytes = f32 and 4 or 2
$ local k_step = f32 and 8 or 16
$ local tf32 = math == "tf32" -- operands are rounded before the product, with tf32x3 in it
$ local mma = tf32 and "mma_m16n8k8_tf32" or f32 and "mma_f32_" .. math or "mma_m16n8k16_" .. dtype
$ local padded = padded_dim
$ local chunks = padded * bytes // 16
$ local split = d_split > 1
$ local p_chunks = tile_n // d_split * bytes // 16
$ local p_page_chunks = p_chunks % 8 == 0 and 8 or p_chunks % 4 == 0 and 4 or 2
$ local row_tiles = tile_m * d_split // (16 * warps)
/* One block of ${warps} warps owns ${tile_m} queries of one head, ${split and "two warps " or "a warp "}${16 * row_tiles} of them, and walks over the keys in blocks of ${tile_n}, last block
$ if split then
 * first. Of two warps with the same queries, each makes the scores of half of the keys and sums half of the columns of O, and they pass
 * each other their weights: per product, less of K and V is read from shared memory than by one warp with half of the queries. */
$ else
 * first. */
$ end
#include "lib/device/steps.h"

enum {
    HEAD_DIM = ${head_dim},
    DIM_PADDED = ${padded}, /* up to a whole fragment, with zeros */
    TILE_M = ${tile_m},     /* queries of a block */
    TILE_N = ${tile_n},     /* keys of a step */
    WARPS = ${warps},
    THREADS = 32 * WARPS,
    ROW_TILES = ${row_tiles}, /* fragments of 16 queries that a warp owns */
    WARP_ROWS = 16 * ROW_TILES,
    SPLIT = ${d_split},       /* warps that share queries */
    KEYS = TILE_N / SPLIT,    /* of a step, whose scores a warp makes */
    COLUMNS = DIM_PADDED / SPLIT, /* of O, that a warp sums */
    EXPONENT = ${dtype == "f16" and "0x7c000000" or "0x7f800000"}, /* all ones in NaN and infinity: see finite_part */
    BYTES = ${bytes},         /* of an element */
    K_STEP = ${k_step},       /* of one mma along the contraction */
    K_STEPS = DIM_PADDED / K_STEP,
    Q_KEPT = ${q_kept},       /* of these, Q's fragments stay in registers */
    CHUNKS = DIM_PADDED * BYTES / 16,
    ROW_CHUNKS = HEAD_DIM * BYTES / 16,
    PAGE_CHUNKS = ${page_chunks},
    PAGES = CHUNKS / PAGE_CHUNKS,
    STAGES = 2, /* of K and V */
    Q_BYTES = TILE_M * DIM_PADDED * BYTES,
    K_BYTES = TILE_N * DIM_PADDED * BYTES,
$ if split then
    P_PAGE_CHUNKS = ${p_page_chunks},
    P_BYTES = WARP_ROWS * KEYS * BYTES, /* of the weights that a warp makes */
    SHARED_BYTES = Q_BYTES + 2 * STAGES * K_BYTES + WARPS * P_BYTES,
$ else
    SHARED_BYTES = Q_BYTES + 2 * STAGES * K_BYTES,
$ end
    V_PART = PAGES / SPLIT * TILE_N * PAGE_CHUNKS * 16, /* from one warp's columns of V to those of the other */
    COPY_ROWS = THREADS / PAGE_CHUNKS, /* that all threads copy at once, and how often they do so for a block: */
    COPIES = (TILE_N + COPY_ROWS - 1) / COPY_ROWS,
    COPY_STEP = K_STEPS > 1, /* of the scores' k: where the next block's copies begin */
};

/* Accumulators of a warp: [fragment of 16 queries][fragment of 8 keys or columns][register of mma's d]. Registers 0, 1 belong to query
 * lane / 4 of the fragment and registers 2, 3 to query lane / 4 + 8: `half` tells them apart. */
typedef float scores_t[ROW_TILES][KEYS / 8][4];
typedef float output_t[ROW_TILES][COLUMNS / 8][4];
typedef float rows_t[ROW_TILES][2];

/* S = Q K^T. begin_copies() begins the copies of the next block: after the second step's fragments, so that the first products do not
 * wait behind them (against straight after the barrier measured 5 % faster at head_dim 256, 1 % at 128), and all together, as ptxas puts
 * three empty loads before each copy that follows an ldmatrix. */
template <class begin_copies_t>
GLINT_DEVICE void make_scores(scores_t s, const uint32_t q_kept[][ROW_TILES][4], uint32_t q_lane, uint32_t k_lane,
                              begin_copies_t begin_copies)
{
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
        for (int nt = 0; nt < KEYS / 8; ++nt)
            s[rt][nt][0] = s[rt][nt][1] = s[rt][nt][2] = s[rt][nt][3] = 0.0f;
#pragma unroll
    for (int kk = 0; kk < K_STEPS; ++kk) {
        uint32_t q[ROW_TILES][4];

#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt) {
            if (kk < Q_KEPT) {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    q[rt][i] = q_kept[kk][rt][i];
            } else
                ldmatrix_x4(q[rt], tile_move(q_lane, rt * 16, kk * 2, TILE_M, PAGE_CHUNKS));
        }
#pragma unroll
        for (int nt = 0; nt < KEYS / 8; nt += 2) {
            uint32_t k[4];

            ldmatrix_x4(k, tile_move(k_lane, nt * 8, kk * 2, TILE_N, PAGE_CHUNKS));
            if (kk == COPY_STEP && nt + 2 >= KEYS / 8)
                begin_copies();
$ if tf32 then
            round_words(k);
$ end
#pragma unroll
            for (int rt = 0; rt < ROW_TILES; ++rt) {
                ${mma}(s[rt][nt], q[rt], k[0], k[1]);
                ${mma}(s[rt][nt + 1], q[rt], k[2], k[3]);
            }
        }
    }
}

/* Hides the keys after last_key[query]: the index, from this lane's first key of the block on, of the last key that is seen. */
GLINT_DEVICE void hide_scores(scores_t s, int32_t first_query, int32_t first_key, ${causal and "int32_t offset, " or ""}int32_t seqlen_k)
{
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
$ if causal then
            const int32_t query = first_query + rt * 16 + half * 8 + (int32_t)(lane_index() >> 2);
            const int32_t last = min(query + offset, seqlen_k - 1) - first_key - 2 * (int32_t)(lane_index() & 3);
$ else
            const int32_t last = seqlen_k - 1 - first_key - 2 * (int32_t)(lane_index() & 3);
$ end
#pragma unroll
            for (int nt = 0; nt < KEYS / 8; ++nt) {
                s[rt][nt][2 * half] = nt * 8 > last ? -GLINT_INFINITY : s[rt][nt][2 * half];
                s[rt][nt][2 * half + 1] = nt * 8 + 1 > last ? -GLINT_INFINITY : s[rt][nt][2 * half + 1];
            }
        }
}

/* The greatest score of each query that this lane holds. */
GLINT_DEVICE void find_maxima(rows_t maxima, const scores_t s)
{
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float m = fmaxf(s[rt][0][2 * half], s[rt][0][2 * half + 1]);
#pragma unroll
            for (int nt = 1; nt < KEYS / 8; ++nt)
                m = fmaxf(m, fmaxf(s[rt][nt][2 * half], s[rt][nt][2 * half + 1]));
            maxima[rt][half] = m;
        }
}

$ if split then
/* Numbers of rows from the lanes of a quad, and then from the warps that share the rows, by way of the room for weights. */
template <class of_quad_t, class of_two_t>
GLINT_DEVICE void join_rows(rows_t joint, const rows_t mine, uint32_t p_tile, uint32_t group, uint32_t part, of_quad_t of_quad,
                            of_two_t of_two)
{
    const uint32_t at = p_tile + (lane_index() >> 2) * 4;

#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            joint[rt][half] = of_quad(mine[rt][half]);
            if ((lane_index() & 3) == 0)
                st_shared_f32(at + (part * WARP_ROWS + rt * 16 + half * 8) * 4, joint[rt][half]);
        }
    named_sync(1 + group, 32 * SPLIT);
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            joint[rt][half] = of_two(joint[rt][half], ld_shared_f32(at + ((part ^ 1) * WARP_ROWS + rt * 16 + half * 8) * 4));
    named_sync(1 + group, 32 * SPLIT);
}

$ end
/* The maximum that exponents are relative to follows the true one only when that has grown by more than 2^4: O and the sums carry the
 * same factor, so the result is the same, and most blocks need no rescaling; a quad's lanes need not even know each other's maxima. What
 * is done to a row depends on that row alone. shift is what scaled scores are shifted by. A maximum times the scale is no number to
 * compute with when the row has seen nothing yet (-inf) or scores are beyond 10^30 or so: then scores are made relative to the maximum
 * here, before they are scaled. */
GLINT_DEVICE void follow_maxima(scores_t s, output_t o, rows_t row_max, rows_t row_sum, rows_t shift, const rows_t maxima,
                                float scale${split and ", uint32_t p_tile, uint32_t group, uint32_t part" or ""})
{
    bool wanted = false;

#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            shift[rt][half] = -row_max[rt][half] * scale;
            wanted |= !(fmaf(maxima[rt][half], scale, shift[rt][half]) <= 4.0f) || !(fabsf(shift[rt][half]) < 1e30f);
        }
$ if split then
    if (!named_any(1 + group, 32 * SPLIT, wanted))
        return;
    rows_t joint;
    join_rows(joint, maxima, p_tile, group, part, quad_max, [](float x, float y) { return fmaxf(x, y); });
$ else
    if (!warp_any(wanted))
        return;
$ end
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float before = row_max[rt][half], maximum = ${split and "joint[rt][half]" or "quad_max(maxima[rt][half])"};
            const bool grown = !(fmaf(maximum, scale, shift[rt][half]) <= 4.0f);
            const float now = grown ? fmaxf(before, maximum) : before;
            const float factor = before != -GLINT_INFINITY && grown ? ex2((before - now) * scale) : 1.0f;
            const bool moderate = fabsf(now) * scale < 1e30f;

            row_max[rt][half] = now;
            row_sum[rt][half] *= factor;
            shift[rt][half] = moderate ? -now * scale : 0.0f;
#pragma unroll
            for (int dt = 0; dt < COLUMNS / 8; ++dt) {
                o[rt][dt][2 * half] *= factor;
                o[rt][dt][2 * half + 1] *= factor;
            }
            if (!moderate && now != -GLINT_INFINITY) {
#pragma unroll
                for (int nt = 0; nt < KEYS / 8; ++nt) {
                    s[rt][nt][2 * half] -= now;
                    s[rt][nt][2 * half + 1] -= now;
                }
            }
        }
}

/* P = 2^(scale (S - max)), in place of S; a query that has seen nothing yet keeps zeros. The sums are this lane's part. */
GLINT_DEVICE void make_weights(scores_t s, rows_t row_sum, const rows_t shift, float scale)
{
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int nt = 0; nt < KEYS / 8; ++nt) {
                s[rt][nt][2 * half] = ex2(fmaf(s[rt][nt][2 * half], scale, shift[rt][half]));
                s[rt][nt][2 * half + 1] = ex2(fmaf(s[rt][nt][2 * half + 1], scale, shift[rt][half]));
                row_sum[rt][half] += s[rt][nt][2 * half] + s[rt][nt][2 * half + 1];
            }
}

/* O += P V of K_STEP keys. */
GLINT_DEVICE void add_value_step(output_t o, const uint32_t p[ROW_TILES][4], uint32_t v_lane, const int kk)
{
#pragma unroll
    for (int dt = 0; dt < COLUMNS / 8; dt += 2) {
        uint32_t v[4];

$ if f32 then
        load_rows(v, v_lane, kk * 8, dt * 2, TILE_N, PAGE_CHUNKS);
$ if tf32 then
        round_words(v);
$ end
$ else
        ldmatrix_x4_trans(v, tile_move(v_lane, kk * 16, dt, TILE_N, PAGE_CHUNKS));
$ end
#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt) {
            ${mma}(o[rt][dt], p[rt], v[0], v[1]);
            ${mma}(o[rt][dt + 1], p[rt], v[2], v[3]);
        }
    }
}

/* Accumulators of K_STEP keys of P are operand A's registers. */
GLINT_DEVICE void take_weights(uint32_t a[ROW_TILES][4], const scores_t p, const int kk)
{
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
        for (int i = 0; i < 4; ++i)
$ if f32 then
            a[rt][i] = ${tf32 and "nearest_tf32" or "bits_of"}(p[rt][kk][2 * (i & 1) + (i >> 1)]);
$ else
            a[rt][i] = pack_${dtype}(p[rt][2 * kk + (i >> 1)][2 * (i & 1)], p[rt][2 * kk + (i >> 1)][2 * (i & 1) + 1]);
$ end
}

$ if split then
/* O += P V: this warp's weights go to the other one, whose weights come second. */
GLINT_DEVICE void add_values(output_t o, const scores_t p, uint32_t v_lane, uint32_t p_tile, uint32_t group, uint32_t part)
{
    const uint32_t own =
        p_tile + part * P_BYTES + tile_offset(lane_index() >> 2, 0, WARP_ROWS, P_PAGE_CHUNKS) + (lane_index() & 3) * 4;
    const uint32_t other = p_tile + (part ^ 1) * P_BYTES + lane_offset_a(lane_index(), WARP_ROWS, P_PAGE_CHUNKS);
    const uint32_t v_own = v_lane + part * (KEYS * PAGE_CHUNKS * 16), v_other = v_lane + (part ^ 1) * (KEYS * PAGE_CHUNKS * 16);
    uint32_t a[KEYS / K_STEP][ROW_TILES][4];

#pragma unroll
    for (int kk = 0; kk < KEYS / K_STEP; ++kk) {
        take_weights(a[kk], p, kk);
#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                st_shared_u32(tile_move(own, rt * 16 + (i & 1) * 8, 2 * kk + (i >> 1), WARP_ROWS, P_PAGE_CHUNKS), a[kk][rt][i]);
    }
#pragma unroll
    for (int kk = 0; kk < KEYS / K_STEP; ++kk)
        add_value_step(o, a[kk], v_own, kk);
    named_sync(1 + group, 32 * SPLIT);
#pragma unroll
    for (int kk = 0; kk < KEYS / K_STEP; ++kk) {
#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
            ldmatrix_x4(a[kk][rt], tile_move(other, rt * 16, 2 * kk, WARP_ROWS, P_PAGE_CHUNKS));
        add_value_step(o, a[kk], v_other, kk);
    }
}
$ else
/* O += P V. */
GLINT_DEVICE void add_values(output_t o, const scores_t p, uint32_t v_lane)
{
#pragma unroll
    for (int kk = 0; kk < KEYS / K_STEP; ++kk) {
        uint32_t a[ROW_TILES][4];

        take_weights(a, p, kk);
        add_value_step(o, a, v_lane, kk);
    }
}
$ end

/* Where this block works${causal and ": the last queries see the most keys, so they come first" or ""}. */
struct work {
    int32_t query0, batch, head_q, head; /* first query; head is batch * heads_q + head_q */
};

GLINT_DEVICE struct work find_work(const struct glint_gpu_shape *shape)
{
    const int32_t blocks_m = (shape->seqlen_q + TILE_M - 1) / TILE_M;
    const struct block_place place =
        find_place(block_index(), (uint32_t)blocks_m, (uint32_t)(shape->batch * shape->heads_q), (uint32_t)shape->section);
    struct work work;

    work.query0 = (blocks_m - 1 - place.index) * TILE_M;
    work.head = place.head;
    work.batch = place.head / shape->heads_q;
    work.head_q = place.head - work.batch * shape->heads_q;
    return work;
}

$ if causal then
/* V of a block of which some queries do not see all keys: NaN and infinities reach only the queries that see them, and then leave the
 * tile, before it is multiplied by weights of zero. All threads of the block call it. */
GLINT_DEVICE void settle_values(output_t o, uint32_t v_tile, uint32_t part, int32_t first_query, int32_t first_key, int32_t offset)
{
#pragma unroll 1
    for (uint32_t key = 0; key < TILE_N; ++key)
#pragma unroll
        for (int dt = 0; dt < COLUMNS / 8; ++dt) {
$ if f32 then
            const uint32_t at = v_tile + part * V_PART + tile_offset(key, dt * 2 + (lane_index() >> 1 & 1), TILE_N, PAGE_CHUNKS) + (lane_index() & 1) * 8;
            float v[2];

            ld_shared_f32x2(v, at);
            v[0] = float_of(bits_of(v[0]) ^ finite_part(bits_of(v[0]), EXPONENT, BYTES));
            v[1] = float_of(bits_of(v[1]) ^ finite_part(bits_of(v[1]), EXPONENT, BYTES));
$ else
            const uint32_t pair = ld_shared_u32(v_tile + part * V_PART + tile_offset(key, dt, TILE_N, PAGE_CHUNKS) + (lane_index() & 3) * 4);
            const uint32_t special = pair ^ finite_part(pair, EXPONENT, BYTES);
            const float v[2] = {low_${dtype}(special), high_${dtype}(special)};
$ end

#pragma unroll
            for (int rt = 0; rt < ROW_TILES; ++rt)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    if (first_key + (int32_t)key <= first_query + rt * 16 + half * 8 + (int32_t)(lane_index() >> 2) + offset) {
                        o[rt][dt][2 * half] += v[0];
                        o[rt][dt][2 * half + 1] += v[1];
                    }
        }
    block_sync();
    clear_special(v_tile, thread_index() < THREADS / CHUNKS * CHUNKS ? thread_index() / CHUNKS : (uint32_t)TILE_N, THREADS / CHUNKS,
                  thread_index() % CHUNKS, CHUNKS, TILE_N, CHUNKS, PAGE_CHUNKS, EXPONENT, BYTES);
    block_sync();
}

$ end
GLINT_KERNEL(THREADS, ${blocks_per_sm}) ${symbol}(GLINT_PARAMS(struct glint_forward_params) p)
{
    const uint32_t lane = lane_index(), group = warp_index() / SPLIT, part = warp_index() % SPLIT;
    const int32_t seqlen_q = p.shape.seqlen_q, seqlen_k = p.shape.seqlen_k;
    const struct work work = find_work(&p.shape);
    const int32_t query0 = work.query0, warp_query0 = query0 + (int32_t)group * WARP_ROWS;
    const int32_t head_kv = work.head_q / p.shape.group;

    /* Keys that some query of the block sees, and the first key block that holds one which some query does not see. */
$ if causal then
    const int32_t offset = p.shape.mask_offset;
    const int32_t last_query = (query0 + TILE_M < seqlen_q ? query0 + TILE_M : seqlen_q) - 1;
    const int32_t keys = max(0, min(seqlen_k, last_query + offset + 1));
    const int32_t first_masked = max(0, min(seqlen_k, query0 + offset + 1)) / TILE_N;
$ else
    const int32_t keys = seqlen_k;
    const int32_t first_masked = seqlen_k / TILE_N;
$ end
    int32_t block = (keys + TILE_N - 1) / TILE_N - 1;

    /* Shared memory: Q, then STAGES of K, then STAGES of V${split and ", then P" or ""}; a block lies in stage block & 1. */
    const uint32_t q_tile = shared_base(), k_tiles = q_tile + Q_BYTES, v_tiles = k_tiles + STAGES * K_BYTES;
    const uint32_t q_lane = q_tile + lane_offset_a(lane, TILE_M, PAGE_CHUNKS) + group * (WARP_ROWS * PAGE_CHUNKS * 16);
    const uint32_t k_lane = k_tiles + lane_offset_b(lane, TILE_N, PAGE_CHUNKS) + part * (KEYS * PAGE_CHUNKS * 16);
    const uint32_t v_lane = v_tiles + ${f32 and "lane_offset_rows(lane, 0," or "lane_offset_trans(lane,"} TILE_N, PAGE_CHUNKS) + part * V_PART;
$ if split then
    const uint32_t p_tile = v_tiles + STAGES * K_BYTES + group * (SPLIT * P_BYTES);
$ end
    const int64_t k_row_bytes = p.k.row * BYTES, v_row_bytes = p.v.row * BYTES;
    const int32_t key_last = max(0, block) * TILE_N;
    const char *k_from = copy_from(view_row(&p.k, work.batch, head_kv, key_last, BYTES), k_row_bytes, PAGE_CHUNKS);
    const char *v_from = copy_from(view_row(&p.v, work.batch, head_kv, key_last, BYTES), v_row_bytes, PAGE_CHUNKS);

    copy_tile(q_tile, copy_from(view_row(&p.q, work.batch, work.head_q, query0, BYTES), p.q.row * BYTES, PAGE_CHUNKS), p.q.row * BYTES,
              seqlen_q - query0, TILE_M, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
    cp_async_commit();
    if (block >= 0) {
        const uint32_t stage = (block & 1) * K_BYTES;

        copy_tile(k_tiles + stage, k_from, k_row_bytes, seqlen_k - key_last, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
        copy_tile(v_tiles + stage, v_from, v_row_bytes, seqlen_k - key_last, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
    }
    cp_async_commit();
    cp_async_wait(1);

    /* Powers of two of positive multiples: a negative scale goes into Q. */
    const float scale = fmaxf(fabsf(p.shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
    if (p.shape.scale_log2 < 0.0f)
        negate_tile(q_tile, ${f32 and "0x80000000u" or "0x80008000u"}, TILE_M, PAGES, PAGE_CHUNKS, THREADS);
$ if tf32 then
    round_tile(q_tile, TILE_M, PAGES, PAGE_CHUNKS, THREADS);
$ end
    block_sync();

    uint32_t q_kept[Q_KEPT + 1][ROW_TILES][4];
#pragma unroll
    for (int kk = 0; kk < Q_KEPT; ++kk)
#pragma unroll
        for (int rt = 0; rt < ROW_TILES; ++rt)
            ldmatrix_x4(q_kept[kk][rt], tile_move(q_lane, rt * 16, kk * 2, TILE_M, PAGE_CHUNKS));

    output_t o; /* unnormalised, relative to row_max */
    rows_t row_max, row_sum;
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        row_max[rt][0] = row_max[rt][1] = -GLINT_INFINITY;
        row_sum[rt][0] = row_sum[rt][1] = 0.0f;
#pragma unroll
        for (int dt = 0; dt < COLUMNS / 8; ++dt)
            o[rt][dt][0] = o[rt][dt][1] = o[rt][dt][2] = o[rt][dt][3] = 0.0f;
    }

    /* Begins the copies of the block before this one into the other stage; before the first block there are zeros. */
    auto begin_copies = [&]() {
        const uint32_t to = (block & 1 ^ 1) * K_BYTES + copy_offset(TILE_N, PAGE_CHUNKS);

#pragma unroll
        for (int i = COPIES - 1; i >= 0; --i) {
            const int rows = i == COPIES - 1 ? TILE_N - (COPIES - 1) * COPY_ROWS : COPY_ROWS;

            k_from -= rows * k_row_bytes;
            copy_rows(k_tiles + to, k_from, block > 0, i * COPY_ROWS, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
            v_from -= rows * v_row_bytes;
            copy_rows(v_tiles + to, v_from, block > 0, i * COPY_ROWS, TILE_N, ROW_CHUNKS, PAGES, PAGE_CHUNKS, THREADS);
        }
        cp_async_commit();
    };

#pragma unroll 1
    for (; block >= 0; --block) {
        /* K and V of this block have arrived, and no warp reads the other stage any more: the next block goes there. */
        cp_async_wait(0);
$ if causal then
        if (block >= first_masked) {
            if (block_any(find_special(v_tiles + (block & 1) * K_BYTES, TILE_N, PAGES, PAGE_CHUNKS, THREADS, EXPONENT, BYTES)))
                settle_values(o, v_tiles + (block & 1) * K_BYTES, part, warp_query0, block * TILE_N, offset);
        } else
            block_sync();
$ else
        block_sync();
$ end
$ if causal then

        /* A warp whose queries all end before this block has nothing else to do. */
        if (block * TILE_N > warp_query0 + (WARP_ROWS - 1) + offset) {
            begin_copies();
            continue;
        }
$ end

        scores_t s;
        rows_t maxima, shift;

        make_scores(s, q_kept, q_lane, k_lane + (block & 1) * K_BYTES, begin_copies);
        if (block >= first_masked)
            hide_scores(s, warp_query0, block * TILE_N + (int32_t)part * KEYS, ${causal and "offset, " or ""}seqlen_k);
        find_maxima(maxima, s);
        follow_maxima(s, o, row_max, row_sum, shift, maxima, scale${split and ", p_tile, group, part" or ""});
        make_weights(s, row_sum, shift, scale);
        add_values(o, s, v_lane + (block & 1) * K_BYTES${split and ", p_tile, group, part" or ""});
    }

    /* O / sum goes through rows of the Q tile which ${split and "no other pair of warps" or "no other warp"} reads, to 16-byte stores. Where they go is found again:
     * the registers were worth more in the loop. */
    cp_async_wait(0);
$ if split then
    named_sync(1 + group, 32 * SPLIT);
    join_rows(row_sum, row_sum, p_tile, group, part, quad_sum, [](float x, float y) { return x + y; });
$ else
    warp_sync();
$ end
    const struct work end = find_work(&p.shape);
    const int32_t first_row = end.query0 + (int32_t)group * WARP_ROWS;
    const uint32_t o_tile = q_tile + group * (WARP_ROWS * PAGE_CHUNKS * 16) +
                            part * (PAGES / SPLIT * TILE_M * PAGE_CHUNKS * 16);
$ if f32 then
    const uint32_t o_lane = o_tile + tile_offset(lane >> 2, lane >> 1 & 1, TILE_M, PAGE_CHUNKS) + (lane & 1) * 8;
$ else
    const uint32_t o_lane = o_tile + tile_offset(lane >> 2, 0, TILE_M, PAGE_CHUNKS) + (lane & 3) * 4;
$ end
#pragma unroll
    for (int rt = 0; rt < ROW_TILES; ++rt) {
        float inverse[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float sum = ${split and "row_sum[rt][half]" or "quad_sum(row_sum[rt][half])"};
            const int32_t row = first_row + rt * 16 + half * 8 + (int32_t)(lane >> 2);

            inverse[half] = sum == 0.0f ? 0.0f : 1.0f / sum;
            if (part == 0 && (lane & 3) == 0 && row < seqlen_q)
                st_global_f32(p.lse + (int64_t)end.head * seqlen_q + row,
                              sum == 0.0f ? -GLINT_INFINITY
                                          : row_max[rt][half] * fabsf(p.shape.softmax_scale) + lg2(sum) * 0.693147180559945309f);
        }
#pragma unroll
        for (int dt = 0; dt < COLUMNS / 8; ++dt)
#pragma unroll
            for (int half = 0; half < 2; ++half)
$ if f32 then
                st_shared_f32x2(tile_move(o_lane, rt * 16 + half * 8, dt * 2, TILE_M, PAGE_CHUNKS), o[rt][dt][2 * half] * inverse[half],
                                o[rt][dt][2 * half + 1] * inverse[half]);
$ else
                st_shared_u32(tile_move(o_lane, rt * 16 + half * 8, dt, TILE_M, PAGE_CHUNKS),
                              pack_${dtype}(o[rt][dt][2 * half] * inverse[half], o[rt][dt][2 * half + 1] * inverse[half]));
$ end
        warp_sync();
        store_rows(view_row(&p.o, end.batch, end.head_q, first_row + rt * 16, BYTES) + part * (COLUMNS * BYTES), p.o.row * BYTES,
                   seqlen_q - first_row - rt * 16, o_tile, rt * 16, TILE_M, ROW_CHUNKS - part * (CHUNKS / SPLIT), PAGES / SPLIT,
                   PAGE_CHUNKS);
    }
}
