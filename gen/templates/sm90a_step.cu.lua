$ local scan = causal and "true" or "false"
$ local plan = ("HEAD_DIM, TILE_N, FIRST_SPAN, %s"):format(scan)
/* A server's step: ${warpgroups} warpgroups that compute, 64 rows each, and one that loads.
 * lib/device/warpgroup_step.h says what rows, spans and folds are, warpgroup_step_plan.h what units are. Of a sequence
 * that has at most 64 rows one warpgroup takes a unit and the other one the next, so that ends and beginnings overlap.
 *
 *     loaders   K, Q, and which units; V       two warps
 *     scanners  V                              two warps: NaN and infinity leave a tile of V that some row does not
 *                                              see whole, and so do all values beyond the keys
 *     others    S = Q K^T, P = 2^(scale (S - max)), O += P V; folds */
#include "lib/device/warpgroup_step_plan.h"

enum {
    HEAD_DIM = ${head_dim},
    TILE_N = ${tile_n}, /* keys of a tile */
    FIRST_SPAN = ${span // tile_n}, /* tiles of the first spans */
    THREADS = 384,
    STAGES = ${stages}, /* of K, and of V */
    UNITS = 3, /* that the loader is ahead, and the one at hand */
    SLABS = HEAD_DIM / 64,
$ if dtype == "f16" then
    BELOW = 0, /* see follow_maxima: float16 ends at 2^-24 below, and sums are far from float32's end above */
$ else
    BELOW = 8, /* see follow_maxima: weights of at most 2^4, so that sums of them times the largest V do not overflow */
$ end
    OWN = 1, /* named barriers of the warpgroups that compute */
};

typedef ${dtype} element;
typedef slab_tile<64, HEAD_DIM, 128> query_tile; /* a warpgroup's own rows */
typedef slab_tile<TILE_N, HEAD_DIM, 128> key_tile;

/* Shared memory: tiles, O of the spans before, mbarriers, units. */
enum { K_AT = 2 * query_tile::bytes, V_AT = K_AT + STAGES * key_tile::bytes, FOLDED_AT = V_AT + STAGES * key_tile::bytes };
enum { Q_FULL = FOLDED_AT + STEP_ROWS * HEAD_DIM * 4, Q_EMPTY = Q_FULL + 16 };
typedef stage_ring<STAGES, key_tile::bytes, K_AT, Q_EMPTY + 16> key_ring;
typedef stage_ring<STAGES, key_tile::bytes, V_AT, key_ring::end> value_ring;
enum {
    V_CUT = value_ring::end,      /* mbarriers: a tile of V that is cut has arrived, and waits for its scanners */
    SPECIAL = V_CUT + 8 * STAGES, /* what each of two scanners found in a stage: NaN or infinity */
    UNITS_AT = SPECIAL + 8 * STAGES,
};
typedef stage_ring<UNITS, 4 * UNIT_WORDS, UNITS_AT, UNITS_AT + UNITS * 4 * UNIT_WORDS> unit_ring;
enum { SHARED_BYTES = unit_ring::end };

GLINT_DEVICE float scale_of(const struct glint_gpu_step &p)
{
    return fmaxf(fabsf(p.base.shape.scale_log2), 1e-37f); /* not 0, so that hidden scores stay -inf */
}

/* ---- the warpgroup that loads -------------------------------------------------------------------------------- */

/* Which part of a tile of keys this lane copies: rows of a page that fit, and a slab of them, or the whole tile. */
struct tile_part {
    int32_t rows, row, slab, count;
};

GLINT_DEVICE struct tile_part own_part(const struct glint_gpu_step &p)
{
    const int32_t rows = p.base.pages.table ? min((int32_t)TILE_N, 1 << p.base.pages.shift) : (int32_t)TILE_N, parts = TILE_N / rows;
    const int32_t lane = (int32_t)lane_index();

    return {rows, lane % parts * rows, lane / parts, rows == TILE_N ? 1 : parts * SLABS};
}

/* Where this lane's part of a tile of keys is; keys beyond the last one are on its page. */
GLINT_DEVICE struct key_place place_of_part(const struct glint_gpu_step &p, uint32_t unit, const struct tile_part &part, int32_t tile)
{
    const int32_t key = tile * TILE_N + part.row;
    const struct key_place at = place_of_key(p, unit_word(unit, UNIT_BATCH), unit_word(unit, UNIT_FIRST_K),
                                             p.base.pages.table ? min(key, unit_word(unit, UNIT_KEYS) - 1) : key);

    return {p.base.pages.table ? key & ((1 << p.base.pages.shift) - 1) : at.row, at.batch};
}

/* A tile of keys or values, by a warp, whose first lane has said how many bytes come. */
GLINT_DEVICE void load_keys(const struct tensor_map *map, uint32_t to, const struct tile_part &part, const struct key_place &place,
                            int32_t head, uint32_t full, uint64_t hint)
{
    const int32_t at[5] = {0, place.row, part.slab, head, place.batch};

    if ((int32_t)lane_index() < part.count)
        tma_load(to + part.slab * key_tile::slab_bytes + part.row * 128, map, 5, at, full, hint);
}

/* Q of a unit: as many blocks of 16 rows as there are, of the warpgroups that work on it. */
GLINT_DEVICE void load_queries(const struct glint_gpu_step &p, uint32_t shared, uint32_t unit, uint32_t (&phase)[2])
{
    const int32_t who = unit_word(unit, UNIT_WHO), blocks = unit_word(unit, UNIT_BLOCKS), head = unit_word(unit, UNIT_HEAD);
    const int32_t batch = p.base.sequences.first_q ? 0 : unit_word(unit, UNIT_BATCH);
    const int32_t row = unit_word(unit, UNIT_FIRST_Q) + unit_word(unit, UNIT_QUERY);
    const uint32_t bytes = (uint32_t)(p.block_queries * p.group * 128);

#pragma unroll
    for (int32_t w = 0; w < 2; ++w) {
        if (who != 2 && who != w)
            continue;
        const int32_t first = who == 2 ? 4 * w : 0, count = max(0, min(4, blocks - first));
        const uint32_t full = shared + Q_FULL + 8 * w;

        mbarrier_wait(shared + Q_EMPTY + 8 * w, phase[w] ^ 1);
        phase[w] ^= 1;
        if (lane_index() == 0)
            mbarrier_arrive_expect(full, (uint32_t)(count * SLABS) * bytes);
        warp_sync();
        if ((int32_t)lane_index() < count * SLABS) {
            const int32_t block = (int32_t)lane_index() / SLABS, slab = (int32_t)lane_index() % SLABS;
            const int32_t at[5] = {64 * slab, 0, row + (first + block) * p.block_queries, head, batch};

            tma_load(shared + w * query_tile::bytes + slab * query_tile::slab_bytes + block * 2048, &p.map[MAP_Q], 5, at, full,
                     GLINT_L2_EVICT_FIRST);
        }
    }
}

/* Keys that one tile of rows reads go first; others are read again. */
GLINT_DEVICE uint64_t hint_of(uint32_t unit)
{
    return unit_word(unit, UNIT_ONE) ? GLINT_L2_EVICT_FIRST : GLINT_L2_EVICT_LAST;
}

GLINT_DEVICE void load_units(const struct glint_gpu_step &p, uint32_t shared)
{
    const struct tile_part part = own_part(p);
    const int32_t many = int_at((const int32_t *)p.plan, PLAN_MANY), few = int_at((const int32_t *)p.plan, PLAN_FEW);
    struct ring k = {0, 0}, u = {0, 0};
    uint32_t phase[2] = {0, 0};
    int32_t number = (int32_t)block_index(), turn = 0;

    for (;;) {
        const uint32_t unit = unit_ring::tile(shared, u);
        bool any;

        unit_ring::wait_empty(shared, u);
        for (;;) {
            any = put_unit<TILE_N, FIRST_SPAN, ${scan}>(p, unit, number, many, few);
            if (!any || unit_word(unit, UNIT_BEGIN) < unit_word(unit, UNIT_END) || unit_word(unit, UNIT_KIND) == UNIT_WHOLE)
                break;
            number = p.blocks + warp_sum(lane_index() == 0 ? (int32_t)atom_global_add_u32(p.plan + PLAN_COUNTER, 1) : 0);
        }
        if (any && unit_word(unit, UNIT_ONE) && unit_word(unit, UNIT_BLOCKS) <= STEP_BLOCKS / 2) {
            turn ^= 1;
            warp_sync();
            if (lane_index() == 0)
                st_shared_u32(unit + 4 * UNIT_WHO, (uint32_t)turn);
        }
        warp_sync();
        if (lane_index() == 0)
            mbarrier_arrive(unit_ring::full(shared, u));
        if (!any)
            return;
        const uint32_t empty = unit_ring::empty(shared, u);
        ring_advance<UNITS>(u);

        const int32_t begin = unit_word(unit, UNIT_BEGIN), end = unit_word(unit, UNIT_END);
        const int32_t head = unit_word(unit, UNIT_HEAD) / p.parts;
        const uint64_t hint = hint_of(unit);
        struct key_place place = {0, 0};
        if (begin < end)
            place = place_of_part(p, unit, part, begin);
#pragma unroll 1
        for (int32_t tile = begin; tile < end; ++tile) {
            const struct key_place next = tile + 1 < end ? place_of_part(p, unit, part, tile + 1) : place;
            const uint32_t full = key_ring::full(shared, k);

            key_ring::wait_empty(shared, k);
            if (lane_index() == 0)
                mbarrier_arrive_expect(full, key_tile::bytes);
            warp_sync();
            load_keys(&p.map[MAP_K], key_ring::tile(shared, k), part, place, head, full, hint);
            ring_advance<STAGES>(k);
            place = next;
            if (tile == begin)
                load_queries(p, shared, unit, phase);
        }
        warp_sync();
        if (lane_index() == 0) /* as a reader */
            mbarrier_arrive(empty);
        number = p.blocks + warp_sum(lane_index() == 0 ? (int32_t)atom_global_add_u32(p.plan + PLAN_COUNTER, 1) : 0);
    }
}

GLINT_DEVICE void load_values(const struct glint_gpu_step &p, uint32_t shared)
{
    const struct tile_part part = own_part(p);
    struct ring v = {0, 0}, u = {0, 0}, cut = {0, 0};

    for (;;) {
        const uint32_t unit = unit_ring::tile(shared, u);

        unit_ring::wait_full(shared, u);
        if (!unit_word(unit, UNIT_ANY))
            return;
        const int32_t begin = unit_word(unit, UNIT_BEGIN), end = unit_word(unit, UNIT_END);
        const int32_t head = unit_word(unit, UNIT_HEAD) / p.parts;
        const int32_t first_cut = unit_word(unit, UNIT_CUT);
        const uint64_t hint = hint_of(unit);
        struct key_place place = {0, 0};
        if (begin < end)
            place = place_of_part(p, unit, part, begin);
#pragma unroll 1
        for (int32_t tile = begin; tile < end; ++tile) {
            const struct key_place next = tile + 1 < end ? place_of_part(p, unit, part, tile + 1) : place;
            uint32_t full = value_ring::full(shared, v);

            value_ring::wait_empty(shared, v);
            if (tile >= first_cut) {
                full = shared + V_CUT + 8 * cut.stage;
                ring_advance<STAGES>(cut);
            } else if (lane_index() == 0)
                mbarrier_arrive(full); /* for the second scanner, and below for the first */
            if (lane_index() == 0)
                mbarrier_arrive_expect(full, key_tile::bytes);
            warp_sync();
            load_keys(&p.map[MAP_V], value_ring::tile(shared, v), part, place, head, full, hint);
            ring_advance<STAGES>(v);
            place = next;
        }
        warp_sync();
        if (lane_index() == 0)
            mbarrier_arrive(unit_ring::empty(shared, u));
        ring_advance<UNITS>(u);
    }
}

/* Scanner 0 or 1. A weight of zero times NaN is NaN: values beyond the keys become zeros.
$ if causal then
 * NaN and infinity leave a tile that some row does not see whole. Rows that do see them get them at the end: see
 * add_special_of.
$ end
 */
GLINT_DEVICE void scan_values(const struct glint_gpu_step &p, uint32_t shared, uint32_t scanner)
{
    const uint32_t thread = 32 * scanner + lane_index();
    struct ring v = {0, 0}, u = {0, 0}, cut = {0, 0};

    if (p.base.pages.table && p.base.sequences.fault)
#pragma unroll 1
        for (int32_t i = (int32_t)block_index(); i < p.base.shape.batch; i += p.blocks)
            note_pages(p, get_planned(p, i).at.own, i, thread, 64);
    for (;;) {
        const uint32_t unit = unit_ring::tile(shared, u);

        unit_ring::wait_full(shared, u);
        if (!unit_word(unit, UNIT_ANY))
            return;
        const int32_t begin = unit_word(unit, UNIT_BEGIN), end = unit_word(unit, UNIT_END), keys = unit_word(unit, UNIT_KEYS);
        const int32_t first_cut = unit_word(unit, UNIT_CUT), from = max(begin, min(end, first_cut));

        if (begin < end)
            ring_skip<STAGES>(v, (uint32_t)(from - begin));
#pragma unroll 1
        for (int32_t tile = from; tile < end; ++tile) {
            const uint32_t values = value_ring::tile(shared, v);

            mbarrier_wait(shared + V_CUT + 8 * cut.stage, cut.phase);
            ring_advance<STAGES>(cut);
            if (clear_rows<key_tile>(values, keys - tile * TILE_N, thread, 64))
                fence_async_shared();
$ if causal then
            const bool special = sees_special<2>(values, key_tile::bytes, thread, 64, element::EXPONENT);
            if (special) {
                remove_special(values, key_tile::bytes, thread, 64, element::EXPONENT);
                fence_async_shared();
            }
            const bool any = warp_any(special);
$ end
            warp_sync();
            if (lane_index() == 0) {
$ if causal then
                st_shared_u32(shared + SPECIAL + 8 * v.stage + 4 * scanner, any);
$ end
                mbarrier_arrive(value_ring::full(shared, v));
            }
            ring_advance<STAGES>(v);
        }
        warp_sync();
        if (lane_index() == 0)
            mbarrier_arrive(unit_ring::empty(shared, u));
        ring_advance<UNITS>(u);
    }
}

/* ---- the warpgroups that compute ----------------------------------------------------------------------------- */

GLINT_DEVICE void attend(const struct glint_gpu_step &p, uint32_t shared, uint32_t w)
{
    const float scale = scale_of(p);
    const bool first_lane = lane_index() == 0;
    const uint32_t folded = shared + FOLDED_AT + (w * 128 + thread_index() % 128) * 16; /* of this thread */
    struct ring k = {0, 0}, v = {0, 0}, u = {0, 0};
    uint32_t q_phase = 0;
    struct softmax_rows rows;
    float s[TILE_N / 2], o[HEAD_DIM / 2], factor[2] = {1.0f, 1.0f};
    uint32_t weights[TILE_N / 4];

    auto release = [&](uint32_t barrier) {
        if (first_lane)
            mbarrier_arrive(barrier);
    };
    auto hold_all = [&]() {
        wgmma_hold(s, TILE_N / 2);
        wgmma_hold(o, HEAD_DIM / 2);
        wgmma_hold(weights, TILE_N / 4);
    };
    auto begin_scores = [&]() { /* S = Q K^T */
        begin_rows_by_rows<element, query_tile, key_tile>(s, shared + w * query_tile::bytes, key_ring::tile(shared, k));
    };
    auto begin_values = [&]() { /* O += P V */
        begin_weights_by_rows<element, key_tile>(o, weights, value_ring::tile(shared, v), 1);
    };
    auto release_keys = [&]() {
        release(key_ring::empty(shared, k));
        ring_advance<STAGES>(k);
    };
    auto clear_o = [&]() {
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i)
            o[i] = 0.0f;
    };

    auto same_ring = [&](const struct ring &of) { return ring{warp_first(of.stage), warp_first(of.phase)}; };
    for (;;) {
        const uint32_t unit = unit_ring::tile(shared, u);

        /* The same in all lanes, as the compiler must know of what loops and stages depend on: descriptors are then a
         * warp's registers. */
        auto word = [&](const int of) { return (int32_t)warp_first((uint32_t)unit_word(unit, of)); };

        unit_ring::wait_full(shared, u);
        if (!word(UNIT_ANY))
            return;
        const int32_t who = word(UNIT_WHO), begin = word(UNIT_BEGIN), end = word(UNIT_END);
        /* The other one's: its tiles pass by, each when no lane waits for it any more. */
        if (who != 2 && who != (int32_t)w) {
#pragma unroll 1
            for (int32_t tile = begin; tile < end; ++tile) {
                key_ring::wait_full(shared, k);
                warp_sync();
                release_keys();
                value_ring::wait_full(shared, v);
                warp_sync();
                release(value_ring::empty(shared, v));
                ring_advance<STAGES>(v);
            }
            warp_sync();
            release(unit_ring::empty(shared, u));
            ring_advance<UNITS>(u);
            continue;
        }

        k = same_ring(k);
        v = same_ring(v);
        const int32_t first_block = who == 2 ? 4 * (int32_t)w : 0, block = first_block + (int32_t)(warp_index() % 4);
        const int32_t query0 = word(UNIT_QUERY), first_cut = word(UNIT_CUT);
        int32_t last[2]; /* keys that this thread's rows see */
        auto last_of = [&](int32_t query) {
            const int32_t keys = unit_word(unit, UNIT_KEYS);
            return ${causal and "min(query + unit_word(unit, UNIT_RIGHT), keys - 1)" or "keys - 1"};
        };
#pragma unroll
        for (int half = 0; half < 2; ++half)
            last[half] = last_of(row_of_tile(p, 16 * block + (int32_t)lane_index() / 4 + 8 * half, query0, 0).query);
        /* Tiles before it are seen whole by all rows. */
        const int32_t cut = (int32_t)warp_first((uint32_t)(last_of(query0 + first_block * p.block_queries) + 1)) / TILE_N;
        int32_t span = word(UNIT_SPAN), next = spans<FIRST_SPAN>::begin(span + 1);
        const int32_t kind = word(UNIT_KIND);
        bool pending = false; /* the span at hand is done but for its last values */
        bool some = false;    /* O of the spans before is in shared memory */
        struct span_row before[2] = {{-GLINT_INFINITY, 0.0f}, {-GLINT_INFINITY, 0.0f}}, own[2];
$ if causal then
        uint32_t special = 0; /* the first lane knows of NaN and infinities */
$ end

        auto soften = [&](int32_t tile) {
            float shift[2];

$ if capped then
            change_scores(s, capped_score{p.base.score_ratio, p.base.score_limit});
$ end
            if (tile >= cut) {
                const int32_t first_key = tile * TILE_N + 2 * (int32_t)(lane_index() % 4);
                const int32_t from_first[2] = {last[0] - first_key, last[1] - first_key};

                hide_after<TILE_N>(s, from_first);
            }
            const bool grown = follow_maxima<TILE_N, BELOW>(rows, s, shift, factor, scale);
            make_weights<TILE_N>(rows, s, shift, scale);
            return grown;
        };
        auto take_rows = [&]() { /* of the span that ends */
#pragma unroll
            for (int half = 0; half < 2; ++half)
                own[half] = {rows.max[half], quad_sum(rows.sum[half])};
        };
        auto slot_of = [&](int32_t of_span) {
            const int32_t slot_rows = word(UNIT_SLOT_ROWS), slot = of_span - word(UNIT_SECOND) + 1;

            return p.partial + (word(UNIT_SLOT) + (int64_t)slot * slot_rows) * (HEAD_DIM + 2);
        };
        auto put_slot = [&](float *slot) {
            write_slot<HEAD_DIM>(slot, word(UNIT_SLOT_ROWS), block, o, own);
        };
        /* O of the span and of those before are one, in shared memory, or in o where no span follows. */
        auto fold_o = [&](bool follows) {
            const struct fold_factors upper = fold_span(before[0], own[0], scale), lower = fold_span(before[1], own[1], scale);

#pragma unroll
            for (int i = 0; i < HEAD_DIM / 2; i += 4) {
                uint32_t y[4];

                ld_shared_u32x4(y, folded + i * 1024);
                o[i] = fold(float_of(y[0]), o[i], upper);
                o[i + 1] = fold(float_of(y[1]), o[i + 1], upper);
                o[i + 2] = fold(float_of(y[2]), o[i + 2], lower);
                o[i + 3] = fold(float_of(y[3]), o[i + 3], lower);
                if (follows) {
                    const uint32_t x[4] = {bits_of(o[i]), bits_of(o[i + 1]), bits_of(o[i + 2]), bits_of(o[i + 3])};
                    st_shared_u32x4(folded + i * 1024, x);
                }
            }
        };
        auto close_span = [&]() {
            if (kind == UNIT_SPANS)
                put_slot(slot_of(span));
            else if (some)
                fold_o(true);
            else {
                before[0] = own[0];
                before[1] = own[1];
#pragma unroll
                for (int i = 0; i < HEAD_DIM / 2; i += 4) {
                    const uint32_t x[4] = {bits_of(o[i]), bits_of(o[i + 1]), bits_of(o[i + 2]), bits_of(o[i + 3])};
                    st_shared_u32x4(folded + i * 1024, x);
                }
            }
            some = true;
            pending = false;
            span++;
            next = spans<FIRST_SPAN>::begin(span + 1);
            clear_o();
        };
        auto have_values = [&](int32_t tile) {
$ if causal then
            if (tile >= first_cut && first_lane)
                special |= ld_shared_u32(shared + SPECIAL + 8 * v.stage) | ld_shared_u32(shared + SPECIAL + 8 * v.stage + 4);
$ end
            release(value_ring::empty(shared, v));
            ring_advance<STAGES>(v);
        };

        clear_o();
        softmax_begin(rows);
        if (begin < end) {
            mbarrier_wait(shared + Q_FULL + 8 * w, q_phase);
            q_phase ^= 1;
            if (p.base.shape.scale_log2 < 0.0f) /* powers of two of positive multiples: a negative scale goes into Q */
                negate_slabs<query_tile>(shared + w * query_tile::bytes, OWN + w);
            key_ring::wait_full(shared, k);
            hold_all();
            begin_scores();
            wgmma_wait<0>();
            wgmma_hold(s, TILE_N / 2);
            release_keys();
            soften(begin);
            pack_weights<element>(weights, s);
#pragma unroll 1
            for (int32_t tile = begin; tile < end - 1; ++tile) {
                key_ring::wait_full(shared, k);
                hold_all();
                begin_scores();
                if (pending)
                    close_span();
                value_ring::wait_full(shared, v);
                wgmma_hold(o, HEAD_DIM / 2);
                begin_values();
                wgmma_wait<1>();
                wgmma_hold(s, TILE_N / 2);
                release_keys();
                if (tile + 1 == next) {
                    take_rows();
                    softmax_begin(rows);
                    pending = true;
                }
                const bool grown = soften(tile + 1);
                wgmma_wait<0>();
                wgmma_hold(o, HEAD_DIM / 2);
                wgmma_hold(weights, TILE_N / 4);
                pack_weights<element>(weights, s); /* before any branch: made in the gaps between exponentials */
                have_values(tile);
                if (grown && !pending)
                    rescale<HEAD_DIM>(o, factor);
            }
            release(shared + Q_EMPTY + 8 * w);
            if (pending)
                close_span();
            value_ring::wait_full(shared, v);
            hold_all();
            begin_values();
            wgmma_wait<0>();
            hold_all();
            have_values(end - 1);
        }
        take_rows();

$ if causal then
        const bool adds = warp_first(special) != 0;
        auto add_special_from = [&](int32_t of_span) { /* of the tiles from a span's first one to the next span's */
            const int32_t from = max(max(begin, first_cut), spans<FIRST_SPAN>::begin(of_span));
            const int32_t to = min(end, kind == UNIT_SPANS ? spans<FIRST_SPAN>::begin(of_span + 1) : end);

            add_special_of<element>(o, p, word(UNIT_BATCH), word(UNIT_FIRST_K), word(UNIT_HEAD) / p.parts, from * TILE_N,
                                    min(to * TILE_N, word(UNIT_KEYS)), last);
        };
$ end
        if (kind == UNIT_SPANS) {
$ if causal then
            if (adds)
                add_special_from(span);
$ end
            put_slot(slot_of(span));
$ if causal then
            if (adds) /* slots of the spans before that have cut tiles */
#pragma unroll 1
                for (--span; span >= word(UNIT_SPAN) && spans<FIRST_SPAN>::begin(span + 1) > first_cut; --span) {
                    read_slot<HEAD_DIM>(slot_of(span), word(UNIT_SLOT_ROWS), block, o, own);
                    add_special_from(span);
                    put_slot(slot_of(span));
                }
$ end
        } else {
            if (some)
                fold_o(false);
            else {
                before[0] = own[0];
                before[1] = own[1];
            }
$ if causal then
            if (adds)
                add_special_from(0);
$ end
            if (kind == UNIT_FIRST) {
                own[0] = before[0];
                own[1] = before[1];
                put_slot(slot_of(word(UNIT_SECOND) - 1));
            } else {
                const int32_t batch = p.base.sequences.first_q ? 0 : unit_word(unit, UNIT_BATCH), first_q = unit_word(unit, UNIT_FIRST_Q);

#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const struct step_row row =
                        row_of_tile(p, 16 * block + (int32_t)lane_index() / 4 + 8 * half, query0, unit_word(unit, UNIT_QUERIES));
                    const int32_t head_q = unit_word(unit, UNIT_HEAD) * p.group + row.head;
                    float inverse = 0.0f, lse = 0.0f;

                    if (row.exists) {
                        finish_row<BELOW>(inverse, lse, before[half], p.base, head_q, last[half]);
                        if (lane_index() % 4 == 0)
                            st_global_f32(lse_of_row(p, batch, head_q, first_q + row.query), lse);
                    }
                    char *to = view_row(&p.base.o, batch, head_q, first_q + row.query, 2) + 16 * (lane_index() % 4);
#pragma unroll
                    for (int i = 0; i < HEAD_DIM / 2; i += 16) { /* of four fragments each lane gets a whole one */
                        const float *c = o + i + 2 * half;
                        uint32_t words[4];

#pragma unroll
                        for (int j = 0; j < 4; ++j)
                            words[j] = element::pack(c[4 * j] * inverse, c[4 * j + 1] * inverse);
                        quad_transpose(words);
                        if (row.exists)
                            st_global_u32x4(to + 4 * i, words);
                    }
                }
            }
        }
        warp_sync();
        release(unit_ring::empty(shared, u));
        ring_advance<UNITS>(u);
    }
}

/* ---- the kernels --------------------------------------------------------------------------------------------- */

GLINT_KERNEL(PLAN_THREADS, 1) ${symbol}_plan(GLINT_PARAMS(struct glint_gpu_step) p)
{
    admit_successors();
    await_predecessors();
    make_plan<${plan}>(p, shared_base());
}

GLINT_KERNEL(THREADS, 1) ${symbol}(GLINT_PARAMS(struct glint_gpu_step) p)
{
    const uint32_t shared = shared_base(), warp = warp_index();
    const uint32_t zeros[4] = {0, 0, 0, 0};

    if (thread_index() == 0) {
        for (uint32_t w = 0; w < 2; ++w) {
            mbarrier_init(shared + Q_FULL + 8 * w, 1);
            mbarrier_init(shared + Q_EMPTY + 8 * w, 4);
        }
        key_ring::init(shared, 1, 8);
        value_ring::init(shared, 2, 8);
        unit_ring::init(shared, 1, 12); /* all warps */
        for (uint32_t i = 0; i < STAGES; ++i)
            mbarrier_init(shared + V_CUT + 8 * i, 1);
        fence_mbarrier_init();
        for (int i = MAP_Q; i <= MAP_V; ++i)
            tma_prefetch_map(&p.map[i]);
    }
    /* Rows of Q that no copy fills are nobody's, but are multiplied. */
    for (uint32_t i = thread_index() * 16; i < K_AT; i += THREADS * 16)
        st_shared_u32x4(shared + i, zeros);
    fence_async_shared();
    admit_successors();
    await_predecessors();
    block_sync();
    if (warp >= 4) {
        registers_take<224>();
        attend(p, shared, warp / 4 - 1);
        return;
    }
    registers_give<56>();
    if (warp == 0)
        load_units(p, shared);
    else if (warp == 1)
        load_values(p, shared);
    else
        scan_values(p, shared, warp - 2);
}

GLINT_KERNEL(128, 4) ${symbol}_merge(GLINT_PARAMS(struct glint_gpu_step) p)
{
    admit_successors();
    await_predecessors();
    merge_slots<element, ${plan}, BELOW>(p, scale_of(p));
}
