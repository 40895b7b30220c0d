/* The kernels of no variant: glint_merge and glint_append, for any head_dim and dtype. rows.h says what they are given,
 * rows.c launches them.
 *
 * They do what lib/cpu/merge.c and lib/cpu/append.c do, and give their bits: the same operations in the same order,
 * none fused (-fmad=false). The bits of a NaN alone may differ. Both read and write each number once, so memory bounds
 * them. */
#include "lib/cuda/rows.h"
#include "lib/device/ragged.h"

enum { THREADS = GLINT_GPU_ROW_THREADS, CHUNK = 8 /* elements */ };

#define NEGATIVE_INFINITY float_of(0xff800000u)

/* ---- rows in memory ---------------------------------------------------------------------------------------------- */

GLINT_DEVICE int bytes_of(uint32_t dtype)
{
    return dtype == GLINT_F32 ? 4 : 2;
}

/* Where chunk `chunk` of a row is. */
GLINT_DEVICE char *chunk_at(const struct glint_gpu_view &view, int32_t batch, int32_t head, int32_t row, int32_t chunk,
                            uint32_t dtype)
{
    const int bytes = bytes_of(dtype);

    return view_row(&view, batch, head, row, bytes) + (int64_t)chunk * (CHUNK * bytes);
}

GLINT_DEVICE void load_chunk(float x[CHUNK], const char *from, uint32_t dtype)
{
    uint32_t v[4], more[4];

    ld_global_u32x4(v, from);
    if (dtype == GLINT_F32) {
        ld_global_u32x4(more, from + 16);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            x[i] = float_of(v[i]);
            x[i + 4] = float_of(more[i]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        x[2 * i] = dtype == GLINT_F16 ? low_f16(v[i]) : low_bf16(v[i]);
        x[2 * i + 1] = dtype == GLINT_F16 ? high_f16(v[i]) : high_bf16(v[i]);
    }
}

GLINT_DEVICE void store_halves(char *to, const float x[CHUNK], uint32_t dtype)
{
    uint32_t v[4];

#pragma unroll
    for (int i = 0; i < 4; ++i)
        v[i] = dtype == GLINT_F16 ? pack_f16(x[2 * i], x[2 * i + 1]) : pack_bf16(x[2 * i], x[2 * i + 1]);
    st_global_u32x4(to, v);
}

GLINT_DEVICE void store_chunk(char *to, const float x[CHUNK], uint32_t dtype)
{
    uint32_t v[4], more[4];

    if (dtype != GLINT_F32) {
        store_halves(to, x, dtype);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        v[i] = bits_of(x[i]);
        more[i] = bits_of(x[i + 4]);
    }
    st_global_u32x4(to, v);
    st_global_u32x4(to + 16, more);
}

/* ---- glint_merge ------------------------------------------------------------------------------------------------- */

/* exp(t) for t <= 0, NaN for NaN: glint_exp of lib/cpu/vector.h. */
GLINT_DEVICE float exp_of(float t)
{
    const float log2e = 0x1.715476p+0f, magic = 0x1.8p23f + 127.0f, least = -0x1.5d58p+6f;
    const float shifted = t * log2e + magic;
    const float n = shifted - magic;
    const float r = t * log2e - n;
    float p = r * 0x1.5bba14p-10f + 0x1.3cea88p-7f;

    p = p * r + 0x1.c6b752p-5f;
    p = p * r + 0x1.ebf9bcp-3f;
    p = p * r + 0x1.62e42ap-1f;
    p = p * r + 1.0f;
    return t < least ? 0.0f : p * float_of(bits_of(shifted) << 23);
}

/* log(x) for x >= 1 or NaN: glint_log of lib/cpu/vector.h. */
GLINT_DEVICE float log_of(float x)
{
    const int32_t bits = (int32_t)(bits_of(x) - 0x3f3504f3u);
    const float e = (float)(bits >> 23);
    const float f = float_of((uint32_t)((bits & 0x007fffff) + 0x3f3504f3)) - 1.0f;
    const float f2 = f * f;
    float p = f * 7.0376836292e-2f - 1.1514610310e-1f;

    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    const float tail = f * f2 * p + e * -2.12194440e-4f - f2 * 0.5f;
    const float y = (tail + f) + e * 0.693359375f;
    return x == x ? y : x;
}

struct merged_row {
    int32_t batch, head, row;
};

GLINT_DEVICE float lse_at(const struct glint_gpu_view &lse, const struct merged_row &at)
{
    return ld_global_f32((const float *)view_row(&lse, at.batch, at.head, at.row, 4));
}

/* Chunks `first`, first + row_threads, ... of O; the answer is LSE. With m the largest LSE of all and s = sum exp(LSE_i
 * - m), which is at least 1, LSE = m + log s; where s is 1, one part has all the weight, and LSE is its LSE to the bit.
 * Each thread of a row finds m and s itself: there are few parts, and their LSE come from the cache. */
GLINT_DEVICE float merge_row(const struct glint_merge_params &p, const struct merged_row &at, int32_t first)
{
    const float sink = p.sinks ? ld_global_f32(p.sinks + at.head) : NEGATIVE_INFINITY;
    float m = sink, s = 0.0f;

#pragma unroll 1
    for (int32_t i = 0; i < p.parts; ++i) {
        const float lse = lse_at(p.part[i].lse, at);

        m = !(lse <= m) && m == m ? lse : m; /* a NaN stays */
    }
#pragma unroll 1
    for (int32_t i = 0; i < p.parts; ++i) {
        const float lse = lse_at(p.part[i].lse, at);

        s += lse == NEGATIVE_INFINITY ? 0.0f : exp_of(lse - m);
    }
    s += exp_of(sink - m);

#pragma unroll 1
    for (int32_t chunk = first; chunk < p.chunks; chunk += p.row_threads) {
        float sum[CHUNK] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        bool any = false;

#pragma unroll 1
        for (int32_t i = 0; i < p.parts; ++i) {
            const struct glint_gpu_part &part = p.part[i];
            const float lse = lse_at(part.lse, at);
            float x[CHUNK];

            if (lse == NEGATIVE_INFINITY)
                continue; /* it sees no key, and its O may hold anything */
            const float weight = exp_of(lse - m) / s;
            load_chunk(x, chunk_at(part.o, at.batch, at.head, at.row, chunk, (uint32_t)part.dtype), (uint32_t)part.dtype);
#pragma unroll
            for (int c = 0; c < CHUNK; ++c) {
                const float product = x[c] * weight;

                sum[c] = any ? sum[c] + product : product; /* 0 + -0 would be 0 */
            }
            any = true;
        }
        store_chunk(chunk_at(p.result.o, at.batch, at.head, at.row, chunk, (uint32_t)p.result.dtype), sum,
                    (uint32_t)p.result.dtype);
    }
    return m == NEGATIVE_INFINITY || s == 1.0f ? m : m + log_of(s);
}

GLINT_KERNEL(THREADS, 8) glint_merge_rows(GLINT_PARAMS(struct glint_merge_params) p)
{
    const int32_t thread = (int32_t)thread_index(), own = thread / p.row_threads, lane = thread - own * p.row_threads;

#pragma unroll 1
    for (int64_t from = (int64_t)block_index() * p.block_rows; from < p.rows; from += (int64_t)p.blocks * p.block_rows) {
        const int64_t row = from + own, head = row / p.seqlen;
        const bool works = own < p.block_rows && row < p.rows;
        const struct merged_row at = {(int32_t)(head / p.heads), (int32_t)(head % p.heads), (int32_t)(row % p.seqlen)};
        float lse = 0.0f;

        if (works)
            lse = merge_row(p, at, lane);
        block_sync(); /* LSE may lie where a part's does, and all threads of the row have read that now */
        if (works && lane == 0)
            st_global_f32((float *)view_row(&p.result.lse, at.batch, at.head, at.row, 4), lse);
    }
}

/* ---- glint_append ------------------------------------------------------------------------------------------------ */

/* A chunk, from the new rows' dtype to the cache's. */
GLINT_DEVICE void move_chunk(char *to, uint32_t dtype, const char *from, uint32_t from_dtype)
{
    uint32_t v[4];
    float x[CHUNK];

    if (dtype != from_dtype) { /* float32, rounded */
        load_chunk(x, from, GLINT_F32);
        store_halves(to, x, dtype);
        return;
    }
    ld_global_u32x4(v, from);
    st_global_u32x4(to, v);
    if (dtype == GLINT_F32) {
        ld_global_u32x4(v, from + 16);
        st_global_u32x4(to + 16, v);
    }
}

/* A new row of a sequence, where it is read, row `from_row` of `from_batch`, and where its key goes, row `row` of
 * sequence or page `unit`. */
struct new_row {
    int32_t sequence, from_batch, from_row, unit, row;
    bool wanted; /* the sequence has so many new rows */
    bool placed; /* there is a place for the key */
    bool wrong;  /* it is the one that looks at the sequence's lengths, and one is out of its bounds */
};

/* Of ragged queries: which sequence has row `row`, and where the rows of that begin and end. A sequence ends where the
 * next begins, and no sequence begins before those ahead of it have ended: it is the first one that ends beyond the
 * row, and it begins at the largest first row so far. */
struct ragged_place {
    int32_t index, at, end;
};

/* All lanes of a warp call it, with rows of their own of which none is before `lowest`. */
GLINT_DEVICE struct ragged_place find_ragged_place(const struct ragged_side &queries, int32_t batch, int32_t lowest, int32_t row)
{
    struct ragged_place own = {0, row_at(queries, 0), 0};

    /* Groups of 32 sequences that have ended by then. */
#pragma unroll 1
    for (; own.index < batch; own.index += 32) {
        const int32_t end = row_at(queries, min(own.index + 1 + (int32_t)lane_index(), batch));

        if (warp_any(end > lowest))
            break;
        own.at = max(own.at, end);
    }
#pragma unroll
    for (uint32_t mask = 1; mask < 32; mask *= 2)
        own.at = max(own.at, of_lane(own.at, mask));
    own.end = own.at;
    if (own.index < batch)
        own.end = max(own.at, row_at(queries, own.index + 1));
#pragma unroll 1
    while (own.end <= row && own.index + 1 < batch) {
        ++own.index;
        own.at = own.end;
        own.end = max(own.at, row_at(queries, own.index + 1));
    }
    return own;
}

/* The row of a token. All lanes of a warp call it; `lowest` is the least token of them. */
GLINT_DEVICE struct new_row find_new_row(const struct glint_append_params &p, int64_t lowest, int64_t token)
{
    struct new_row r = {};
    int64_t key;

    if (p.first_q) {
        const struct ragged_side queries = {p.first_q, p.seqlens_q, p.rows_q, p.seqlen_q};
        const struct ragged_place own = find_ragged_place(queries, p.batch, (int32_t)lowest, (int32_t)token);
        const int32_t i = (int32_t)token - own.at;

        if (own.index >= p.batch)
            return r;
        r.sequence = own.index;
        r.from_row = (int32_t)token;
        r.wanted = i >= 0 && i < rows_of(queries, own.index, own.at, own.end);
        key =
            (int64_t)given_length(p.seqlens_k, own.index, p.seqlen_k) - given_length(p.seqlens_q, own.index, own.end - own.at) + i;
    } else {
        const int32_t bound = max(1, p.seqlen_q);
        const int32_t batch = (int32_t)(token / bound), i = (int32_t)(token - (int64_t)batch * bound);
        const int32_t queries = given_length(p.seqlens_q, batch, p.seqlen_q), keys = given_length(p.seqlens_k, batch, p.seqlen_k);

        r.sequence = r.from_batch = batch;
        r.from_row = i;
        r.wrong = i == 0 && (queries < 0 || queries > p.seqlen_q || keys < 0 || keys > p.seqlen_k);
        r.wanted = i < min(queries, p.seqlen_q);
        key = (int64_t)keys - queries + i;
    }
    r.unit = r.sequence;
    r.row = (int32_t)key;
    r.placed = key >= 0 && key < p.seqlen_k;
    if (r.wanted && r.placed && p.page_rows > 0) {
        r.unit = (int32_t)ld_relaxed_u32((const uint32_t *)p.page_table + (int64_t)r.sequence * p.pages_per_sequence +
                                         r.row / p.page_rows);
        r.row %= p.page_rows;
        r.placed = r.unit >= 0 && r.unit < p.pages;
    }
    return r;
}

/* One thread of a new row notes what is wrong with it. */
GLINT_DEVICE void note_fault(const struct glint_append_params &p, const struct new_row &r)
{
    if ((r.wanted && !r.placed) || r.wrong)
        atomicMin(p.fault, (uint32_t)r.sequence);
}

/* Of ragged queries one warp notes what is wrong with first rows and lengths, also of sequences without a row. */
GLINT_DEVICE void note_faults_of_sequences(const struct glint_append_params &p)
{
    const struct glint_gpu_sequences r = {p.first_q, NULL, p.seqlens_q, p.seqlens_k, p.fault, p.rows_q, 0, 0, 0, 0};
    struct glint_gpu_shape shape = {};

    shape.batch = p.batch;
    shape.seqlen_q = p.seqlen_q;
    shape.seqlen_k = p.seqlen_k;
    if (p.fault && p.first_q && block_index() == 0 && warp_index() == 0)
        note_ragged_fault<true>(r, shape);
}

GLINT_KERNEL(THREADS, 8) glint_append_rows(GLINT_PARAMS(struct glint_append_params) p)
{
    const int64_t all = p.tokens * p.token_chunks, step = (int64_t)p.blocks * THREADS;

    note_faults_of_sequences(p);
#pragma unroll 1
    for (int64_t from = (int64_t)block_index() * THREADS + thread_index() / 32 * 32; from < all; from += step) {
        const int64_t at = min(from + (int32_t)lane_index(), all - 1), token = at / p.token_chunks;
        const bool exists = from + (int32_t)lane_index() < all;
        const int32_t of_token = (int32_t)(at - token * p.token_chunks);
        const int32_t head = of_token / p.chunks, chunk = of_token - head * p.chunks;
        const struct new_row r = find_new_row(p, from / p.token_chunks, token);

        if (exists && r.wanted && r.placed) {
            move_chunk(chunk_at(p.k, r.unit, head, r.row, chunk, p.dtype), p.dtype,
                       chunk_at(p.new_k, r.from_batch, head, r.from_row, chunk, p.new_dtype), p.new_dtype);
            move_chunk(chunk_at(p.v, r.unit, head, r.row, chunk, p.dtype), p.dtype,
                       chunk_at(p.new_v, r.from_batch, head, r.from_row, chunk, p.new_dtype), p.new_dtype);
        }
        if (p.fault && exists && of_token == 0)
            note_fault(p, r);
    }
}

/* ---- glint_append into 8 bits ------------------------------------------------------------------------------------ */

enum { TEAM = GLINT_GPU_ROW_TEAM, TEAMS = THREADS / TEAM, NAN_BITS = 0x7fc00000 };

GLINT_DEVICE uint32_t magnitude_of(float x)
{
    return bits_of(x) & 0x7fffffffu;
}

/* The largest magnitude that the threads of a team have. All lanes of a warp call it. */
GLINT_DEVICE uint32_t largest_of_team(uint32_t mine)
{
#pragma unroll
    for (uint32_t lanes = 1; lanes < TEAM; lanes *= 2)
        mine = max(mine, bits_of(shfl_xor(float_of(mine), lanes)));
    return mine;
}

/* To the nearest integer, ties to even: the sum with 1.5 * 2^23 has it in its last places. |x| is 127 (1 + 2^-23) at
 * most, as the scale is the row's own. */
GLINT_DEVICE uint32_t to_i8(float x)
{
    return bits_of(x + 0x1.8p23f) & 0xffu;
}

/* To e4m3, to nearest even: store_e4m3 of lib/cpu/append.c. */
GLINT_DEVICE uint32_t to_e4m3(float x)
{
    const uint32_t magnitude = magnitude_of(x), sign = bits_of(x) >> 24 & 0x80u;
    const uint32_t normal = (magnitude - 0x3c000000u + 0x7ffffu + (magnitude >> 20 & 1)) >> 20;
    const uint32_t subnormal = bits_of(float_of(magnitude) + 0x1p14f) - 0x46800000u;

    if (magnitude >= 0x7f800000u)
        return 0x7fu; /* NaN without a sign */
    return sign | (magnitude > 0x43e00000u ? 0x7eu : magnitude < 0x3c800000u ? subnormal : normal);
}

/* Chunks first, first + TEAM, ... of a row, divided by `scale`; a scale that is NaN and the row's own gives zeros. */
GLINT_DEVICE void store_narrow(char *to, uint32_t dtype, const char *from, uint32_t from_dtype, int32_t first, int32_t chunks,
                               float scale, bool own)
{
#pragma unroll 1
    for (int32_t chunk = first; chunk < chunks; chunk += TEAM) {
        uint32_t word[2] = {0, 0};
        float x[CHUNK];

        if (!own || scale == scale) {
            load_chunk(x, from + (int64_t)chunk * (CHUNK * bytes_of(from_dtype)), from_dtype);
#pragma unroll
            for (int i = 0; i < CHUNK; ++i) {
                const float quotient = x[i] / scale;

                word[i / 4] |= (dtype == GLINT_I8 ? to_i8(quotient) : to_e4m3(quotient)) << 8 * (i % 4);
            }
        }
        st_global_f32x2(to + chunk * CHUNK, float_of(word[0]), float_of(word[1]));
    }
}

/* The scale of a row of which this thread has the chunks first, first + TEAM, ...; NaN if it holds an infinity or a
 * NaN. All lanes of a warp call it, those without a row with 0 chunks. */
GLINT_DEVICE float scale_of(const char *from, uint32_t from_dtype, int32_t first, int32_t chunks, uint32_t dtype)
{
    uint32_t largest = 0;

#pragma unroll 1
    for (int32_t chunk = first; chunk < chunks; chunk += TEAM) {
        float x[CHUNK];

        load_chunk(x, from + (int64_t)chunk * (CHUNK * bytes_of(from_dtype)), from_dtype);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i)
            largest = max(largest, magnitude_of(x[i]));
    }
    largest = largest_of_team(largest);

    const float scale = float_of(largest) / (dtype == GLINT_I8 ? 127.0f : 448.0f);

    return largest >= 0x7f800000u ? float_of(NAN_BITS) : scale < 0x1p-126f ? 0x1p-126f : scale;
}

GLINT_KERNEL(THREADS, 8) glint_append_narrow_rows(GLINT_PARAMS(struct glint_append_narrow_params) in)
{
    const struct glint_append_params &p = in.base;
    const int64_t all = 2 * p.tokens * in.token_rows;
    const int32_t lane = (int32_t)thread_index() % TEAM;

    note_faults_of_sequences(p);
#pragma unroll 1
    for (int64_t from = (int64_t)block_index() * TEAMS; from < all; from += (int64_t)p.blocks * TEAMS) {
        const int64_t of_warp = from + (int32_t)thread_index() / 32 * (32 / TEAM), mine = from + (int32_t)thread_index() / TEAM;
        const int64_t at = min(mine, all - 1), row = at >> 1, token = row / in.token_rows;
        const int32_t head = (int32_t)(row - token * in.token_rows);
        const bool exists = mine < all, of_v = (at & 1) != 0;
        const struct new_row r = find_new_row(p, min(of_warp >> 1, row) / in.token_rows, token);
        const bool works = exists && r.wanted && r.placed;
        const struct glint_gpu_view &view = of_v ? p.v : p.k, &new_view = of_v ? p.new_v : p.new_k;
        float *const scales = of_v ? in.v_scale : in.k_scale;
        float *const scale_at =
            scales + (in.own ? ((int64_t)r.unit * in.token_rows + head) * in.unit_scales + r.row : head * in.head_scales);
        const char *const source = chunk_at(new_view, r.from_batch, head, r.from_row, 0, p.new_dtype);
        float scale = 0.0f;

        if (in.own)
            scale = scale_of(source, p.new_dtype, lane, works ? p.chunks : 0, p.dtype);
        else if (works)
            scale = ld_global_f32(scale_at);
        if (works) {
            store_narrow(view_row(&view, r.unit, head, r.row, 1), p.dtype, source, p.new_dtype, lane, p.chunks, scale, in.own);
            if (in.own && lane == 0)
                st_global_f32(scale_at, scale);
        }
        if (p.fault && exists && !of_v && head == 0 && lane == 0)
            note_fault(p, r);
    }
}
