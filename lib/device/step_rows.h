/* A server's step by mma.sync: four warps with 16 rows each walk over the keys together. step.h says what
 * rows, spans and folds are, and step_plan.h what units are. With 128 keys a tile every sum is made in the
 * order of warpgroup_step_kernel.h.
 *
 * There is one tile of K and one of V in shared memory. K of the next tile comes while weights are made and multiplied,
 * and V while the next scores are. Another block of the multiprocessor fills what time is left. O of the spans before
 * waits in the workspace, behind the slots.
 *
 * K and V of 8 bits come as bytes into the rooms of their elements, each row's into the row's own, and each lane widens
 * what it has copied. A row is copied by one warp, so nothing but that warp's reads need to be over. */
#ifndef GLINT_DEVICE_STEP_ROWS_H
#define GLINT_DEVICE_STEP_ROWS_H

#include "lib/device/fragment.h"
#include "lib/device/score.h"
#include "lib/device/step_bias.h"
#include "lib/device/step_plan.h"
#include "lib/device/step_scales.h"
#include "lib/device/values.h"

template <class Variant> struct step_rows {
    typedef typename Variant::element element;
    typedef typename Variant::stored stored; /* elements of K and V in memory */
    typedef typename Variant::mask mask_t;
    typedef typename Variant::score score_t;
    typedef typename Variant::bias bias_t;
    typedef typename logit_of<Variant::LOGIT>::type largest_t;
    enum {
        HEAD_DIM = Variant::HEAD_DIM,
        TILE_N = Variant::TILE_N, /* keys of a tile */
        WARPS = Variant::WARPS,
        THREADS = 32 * WARPS,
        BELOW = element::BELOW, /* see follow_maxima */
        RIGHT = mask_t::RIGHT,  /* the mask hides keys after some row's last, */
        LEFT = mask_t::LEFT,    /* and before some row's first */
        INTERVALS = mask_t::INTERVALS,
        LEAN = HEAD_DIM > 192,    /* O takes so many registers that what a unit is stays in shared memory, */
        IN_SHARED = LEFT || LEAN, /* which is read again wherever it is wanted; with a left side edges alone */
        RUN = 16,                 /* keys that lie one after another, whatever a page has */
    };
    typedef step_order<HEAD_DIM, TILE_N, Variant::FIRST_SPAN, mask_t, WARPS> order;
    typedef struct tile<element, 16 * WARPS, HEAD_DIM, Variant::PAGE_CHUNKS> q_tile;
    typedef struct tile<element, TILE_N, HEAD_DIM, Variant::PAGE_CHUNKS> k_tile; /* of V, too */
    typedef tile_scales<TILE_N, stored> scales;
    enum {
        K_AT = q_tile::BYTES,
        V_AT = K_AT + k_tile::BYTES,
        UNIT_AT = V_AT + k_tile::BYTES,
        RUNS_AT = UNIT_AT + 4 * UNIT_WORDS, /* where the runs of a tile lie, whose copies come next */
        SCALES_AT = RUNS_AT + TILE_N / RUN * 8,
        RANGES_AT = SCALES_AT + (stored::WIDENED ? (int)scales::BYTES : 0), /* of keys, one a query */
        END = RANGES_AT + (INTERVALS ? 16 * WARPS * RANGE_BYTES : 0),
        BYTE_CHUNKS = HEAD_DIM / 16,                              /* of a row, of 16 numbers of 8 bits */
        WARP_CHUNKS = TILE_N / WARPS * BYTE_CHUNKS,               /* that a warp copies, of rows of its own, */
        LANE_CHUNKS = WARP_CHUNKS / 32 + (WARP_CHUNKS % 32 != 0), /* and each of its lanes at most */
        STEPS = q_tile::DIM / element::K_STEP,
        HAS_SPECIAL = !stored::WIDENED || stored::HAS_NAN, /* V may have NaN */
        KEPT = Variant::Q_KEPT,                            /* steps along head_dim whose fragments of Q are kept */
    };
    static_assert(!stored::WIDENED || (TILE_N <= THREADS && HEAD_DIM % 16 == 0),
                  "a thread has a key's scales; whole chunks of 8 bits");
    typedef float scores_t[TILE_N / 2];
    typedef float output_t[q_tile::DIM / 2];

    template <int n> GLINT_DEVICE float (&fragments_of(float (&s)[n]))[1][n / 4][4]
    {
        return reinterpret_cast<float(&)[1][n / 4][4]>(s);
    }

    /* Columns that there are: what slots and results have. */
    GLINT_DEVICE float (&columns_of(output_t &o))[HEAD_DIM / 2]
    {
        return reinterpret_cast<float(&)[HEAD_DIM / 2]>(o);
    }

    /* ---- copies -------------------------------------------------------------------------------------------------- */

    /* By the first threads, one a run: where the keys of tile `tile` lie. */
    GLINT_DEVICE struct key_place find_run(const struct glint_gpu_step &p, uint32_t unit, int32_t tile)
    {
        return place_of_copy(p, unit, tile * TILE_N + (int32_t)thread_index() * RUN);
    }

    GLINT_DEVICE void put_run(uint32_t shared, const struct key_place &at)
    {
        const uint32_t to = shared + RUNS_AT + thread_index() * 8;

        st_shared_u32(to, (uint32_t)at.row);
        st_shared_u32(to + 4, (uint32_t)at.batch);
    }

    GLINT_DEVICE bool has_run(void)
    {
        return thread_index() < TILE_N / RUN;
    }

    /* Where row `row` of a tile whose runs wait in shared memory begins in K or V. */
    GLINT_DEVICE const char *row_of_run(const struct glint_gpu_view &view, uint32_t shared, int32_t head, uint32_t row,
                                        const int64_t bytes)
    {
        const uint32_t run = shared + RUNS_AT + row / RUN * 8;

        return view_row(&view, (int32_t)ld_shared_u32(run + 4), head, (int32_t)(ld_shared_u32(run) + row % RUN), bytes);
    }

    /* The i-th chunk of 16 bytes that a lane copies, of the rows of its warp. */
    struct byte_chunk {
        uint32_t row, chunk;
    };
    GLINT_DEVICE struct byte_chunk byte_chunk_of(const uint32_t i)
    {
        const uint32_t index = 32 * i + lane_index();

        return {warp_index() * (TILE_N / WARPS) + index / BYTE_CHUNKS, index % BYTE_CHUNKS};
    }

    /* Does the lane copy an i-th one? */
    GLINT_DEVICE bool has_byte_chunk(const uint32_t i)
    {
        return 32 * i + 32 <= WARP_CHUNKS || 32 * i + lane_index() < WARP_CHUNKS;
    }

    /* Does the thread have the scales of a key? */
    GLINT_DEVICE bool has_scales(void)
    {
        return TILE_N == THREADS || thread_index() < TILE_N;
    }

    /* Begins the copy of tile `tile` of K or V, whose runs wait in shared memory; keys from `keys` on become zeros. */
    GLINT_DEVICE void copy_keys(const struct glint_gpu_view &view, uint32_t shared, uint32_t to, int32_t head, int32_t tile,
                                int32_t keys)
    {
        const int32_t valid = keys - tile * TILE_N;

        if constexpr (stored::WIDENED) {
#pragma unroll
            for (uint32_t i = 0; i < LANE_CHUNKS; ++i) {
                const struct byte_chunk at = byte_chunk_of(i);

                if (!has_byte_chunk(i))
                    continue;
                cp_async_16(to + tile_offset<k_tile>(at.row, at.chunk), row_of_run(view, shared, head, at.row, 1) + at.chunk * 16,
                            (int32_t)at.row < valid);
            }
        } else {
            const uint32_t chunk = thread_index() % k_tile::PAGE_CHUNKS, first = thread_index() / k_tile::PAGE_CHUNKS;

#pragma unroll
            for (uint32_t i = 0; i < (uint32_t)TILE_N * k_tile::PAGE_CHUNKS / THREADS; ++i) {
                const uint32_t row = first + i * (THREADS / k_tile::PAGE_CHUNKS);
                const char *from = row_of_run(view, shared, head, row, element::BYTES) + chunk * 16;

#pragma unroll
                for (uint32_t page = 0; page < k_tile::PAGES; ++page) {
                    const uint32_t column = page * k_tile::PAGE_CHUNKS;

                    cp_async_16(to + tile_offset<k_tile>(row, column + chunk), from + column * 16,
                                (int32_t)row < valid &&
                                    (k_tile::ROW_CHUNKS == k_tile::CHUNKS || column + chunk < k_tile::ROW_CHUNKS));
                }
            }
        }
    }

    /* The lane's own bytes of a tile of K or V have come, and become its elements; NaN stays NaN. */
    GLINT_DEVICE void widen_keys(const struct glint_gpu_step &p, uint32_t tile)
    {
        if constexpr (stored::WIDENED) {
            const auto signs = stored::unknown_signs(p.base);
            uint32_t words[LANE_CHUNKS][4];

#pragma unroll
            for (uint32_t i = 0; i < LANE_CHUNKS; ++i)
                if (has_byte_chunk(i))
                    ld_shared_u32x4(words[i], tile + tile_offset<k_tile>(byte_chunk_of(i).row, byte_chunk_of(i).chunk));
            warp_sync(); /* before a row's elements are where its bytes were */
#pragma unroll
            for (uint32_t i = 0; i < LANE_CHUNKS; ++i)
#pragma unroll
                for (uint32_t half = 0; half < 2; ++half) {
                    if (!has_byte_chunk(i))
                        continue;
                    /* Lanes of a row's second half begin with the other one: eight lanes write to eight banks. */
                    const struct byte_chunk at = byte_chunk_of(i);
                    const uint32_t part = half ^ (at.chunk / 4 % 2);
                    const uint32_t low = part ? words[i][2] : words[i][0], high = part ? words[i][3] : words[i][1];
                    uint32_t v[4];

                    decode::widen_word<stored>(v, low, signs);
                    decode::widen_word<stored>(v + 2, high, signs);
                    if constexpr (stored::HAS_NAN) {
                        uint32_t codes = 0;

                        decode::look_for_nan(low, codes);
                        decode::look_for_nan(high, codes);
                        if ((codes & 0x80808080u) != 0) {
                            decode::put_nan(v, low);
                            decode::put_nan(v + 2, high);
                        }
                    }
                    st_shared_u32x4(tile + tile_offset<k_tile>(at.row, 2 * at.chunk + part), v);
                }
        }
    }

    /* And of Q: rows that are nobody's become zeros. */
    GLINT_DEVICE void copy_queries(const struct glint_gpu_step &p, uint32_t shared, uint32_t unit)
    {
        const uint32_t chunk = thread_index() % q_tile::PAGE_CHUNKS, first = thread_index() / q_tile::PAGE_CHUNKS;
        const int32_t batch = p.base.sequences.first_q ? 0 : unit_word(unit, UNIT_BATCH);

#pragma unroll
        for (uint32_t i = 0; i < q_tile::ROWS * q_tile::PAGE_CHUNKS / THREADS; ++i) {
            const uint32_t row = first + i * (THREADS / q_tile::PAGE_CHUNKS);
            const struct step_row at = row_of_tile(p, (int32_t)row, unit_word(unit, UNIT_QUERY), unit_word(unit, UNIT_QUERIES));
            const char *from = view_row(&p.base.q, batch, unit_word(unit, UNIT_HEAD) * p.group + at.head,
                                        unit_word(unit, UNIT_FIRST_Q) + (at.exists ? at.query : 0), element::BYTES) +
                               chunk * 16;

#pragma unroll
            for (uint32_t page = 0; page < q_tile::PAGES; ++page) {
                const uint32_t column = page * q_tile::PAGE_CHUNKS;

                cp_async_16(shared + tile_offset<q_tile>(row, column + chunk), from + column * 16,
                            at.exists && (q_tile::ROW_CHUNKS == q_tile::CHUNKS || column + chunk < q_tile::ROW_CHUNKS));
            }
        }
    }

    /* ---- a unit -------------------------------------------------------------------------------------------------- */

    GLINT_DEVICE void attend(const struct glint_gpu_step &p, uint32_t shared)
    {
        const float scale = scale_of<bias_t>(p);
        const uint32_t unit = shared + UNIT_AT, warp = warp_index(), lane = lane_index();
        const int32_t keys_kept = LEAN ? 0 : unit_word(unit, UNIT_KEYS),
                      head_kept = LEAN ? 0 : unit_word(unit, UNIT_HEAD) / p.parts;
        auto keys_of_unit = [&]() { return LEAN ? unit_word(unit, UNIT_KEYS) : keys_kept; };
        auto head_of_keys = [&]() { return LEAN ? unit_word(unit, UNIT_HEAD) / p.parts : head_kept; };
        const int32_t block = (int32_t)warp;
        const int32_t query_kept = LEAN ? 0 : unit_word(unit, UNIT_QUERY);
        auto first_query = [&]() { return LEAN ? unit_word(unit, UNIT_QUERY) : query_kept; };
        const bool works = block < unit_word(unit, UNIT_BLOCKS);
        const int32_t left = unit_word(unit, UNIT_LEFT), right = unit_word(unit, UNIT_RIGHT);
        const struct sequence sequence = {unit_word(unit, UNIT_QUERIES), keys_of_unit(), left, right};
        const auto made_mask = make_mask_of_tile<16 * WARPS, THREADS>(
            mask_of<mask_t>(p, sequence, unit_word(unit, UNIT_BATCH), unit_word(unit, UNIT_FIRST_Q)), first_query(),
            shared + RANGES_AT);
        if constexpr (INTERVALS) {
            if (warp == 0)
                narrow_unit<order>(p, unit, made_mask);
            block_sync();
        }
        const int32_t begin = unit_word(unit, UNIT_BEGIN), end = unit_word(unit, UNIT_END);
        auto warp_query = [&]() { return first_query() + block * p.block_queries; };
        auto query_of = [&](const int half) {
            /* It is 0, which the compiler does not know: so it does not keep what follows in registers. */
            const int32_t nothing = LEAN ? unit_word(unit, UNIT_ANY) - 1 : 0;

            return row_of_tile(p, 16 * block + (int32_t)lane / 4 + 8 * half + nothing, first_query(), 0).query;
        };
        auto mask = [&]() {
            if constexpr (LEAN)
                return mask_of_tile(mask_of_unit<mask_t>(p, unit), first_query(), shared + RANGES_AT);
            else
                return made_mask;
        };
        /* Registers, or words in shared memory. */
        const int32_t cut_kept = IN_SHARED ? 0 : unit_word(unit, UNIT_CUT);
        const int32_t last_kept[2] = {IN_SHARED ? 0 : last_key(mask(), query_of(0)), IN_SHARED ? 0 : last_key(mask(), query_of(1))};
        auto first_cut = [&]() { return IN_SHARED ? unit_word(unit, UNIT_CUT) : cut_kept; };
        auto whole_from = [&]() { return LEFT ? unit_word(unit, UNIT_WHOLE_FROM) : 0; };
        auto last_of = [&](const int half) { return IN_SHARED ? last_key(mask(), query_of(half)) : last_kept[half]; };
        /* No row's last key is before the tile. */
        const int32_t own_cut = IN_SHARED ? 0 : (last_key(mask(), warp_query()) + 1) / TILE_N;
        auto is_after = [&](int32_t tile) { return tile >= (IN_SHARED ? first_cut() : own_cut); };
        auto is_before = [&](int32_t tile) { return LEFT && tile < whole_from(); };
        const uint32_t q_lane = shared + lane_offset_a<q_tile>(lane) + warp * (16 * q_tile::PAGE_ROW);
        const uint32_t k_lane = shared + K_AT + lane_offset_b<k_tile>(lane);
        const uint32_t v_lane = shared + V_AT + lane_offset_rows<k_tile>(lane, 0);
        auto first_span = [&]() { return unit_word(unit, INTERVALS ? UNIT_SEEN_SPAN : UNIT_SPAN); };
        auto folds = [&]() { return unit_word(unit, UNIT_KIND) != UNIT_SPANS; };
        int32_t next = order::spans::begin(p, first_span() + 1);
        bool special = false;
        struct span_row own[2];
        struct kept_rows<1, KEPT> q_kept;
        struct key_scales own_scales; /* of this thread's key of the next tile */
        struct softmax_rows rows;
        scores_t s;
        output_t o;
        largest_t largest;

        /* Its number of the sequence, and so of each head's line, is the call's. */
        auto tile_of_bias = [&]() {
            return biased_tile{{unit_word(unit, UNIT_QUERIES), keys_of_unit(), 0, unit_word(unit, UNIT_RIGHT)},
                               unit_word(unit, UNIT_BATCH),
                               unit_word(unit, UNIT_HEAD),
                               first_query()};
        };
        const auto bias = bias_of_rows(bias_t{}, p, tile_of_bias(), 16 * block + (int32_t)lane / 4, 16 * block);

        auto clear_o = [&]() {
#pragma unroll
            for (int i = 0; i < (int)q_tile::DIM / 2; ++i)
                o[i] = 0.0f;
        };
        auto is_cut = [&](int32_t tile) { return tile >= first_cut() || is_before(tile); };
        auto load_scales = [&](int32_t tile) {
            if (stored::WIDENED && has_scales())
                own_scales = scales_of_key(p, unit_word(unit, UNIT_BATCH), unit_word(unit, UNIT_FIRST_K), head_of_keys(),
                                           tile * TILE_N + (int32_t)thread_index(), keys_of_unit());
        };
        auto soften = [&](int32_t tile) {
            float shift[2], factor[2] = {1.0f, 1.0f};
            const int32_t from = tile * TILE_N + 2 * (int32_t)(lane % 4);

            if constexpr (stored::WIDENED)
                scales::scale_scores(shared + SCALES_AT, s);
            change_scores(s, score_t::of(p.base));
            add_to_rows<TILE_N>(s, bias, p.base.shape, from, (tile + 1) * TILE_N);
            if (is_after(tile)) {
                const int32_t from_first[2] = {last_of(0) - from, last_of(1) - from};

                hide_after<TILE_N>(s, from_first);
            }
            if (is_before(tile)) {
                const int32_t from_first[2] = {first_key(mask(), query_of(0)) - from, first_key(mask(), query_of(1)) - from};

                hide_before<TILE_N>(s, from_first);
            }
            if constexpr (mask_t::TREE)
                if ((tile + 1) * TILE_N > first_slot(mask())) {
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        hide_slots(fragments_of(s)[0], half, mask(), query_of(half), from - first_slot(mask()), -GLINT_INFINITY);
                }
            follow_largest<TILE_N>(largest, s);
            if (follow_maxima<TILE_N, BELOW>(rows, s, shift, factor, scale))
                rescale<q_tile::DIM>(o, factor);
            make_weights<TILE_N>(rows, s, shift, scale);
            if constexpr (stored::WIDENED)
                scales::scale_weights(shared + SCALES_AT, s, is_after(tile) || is_before(tile));
        };
        /* Of the span that ends. */
        auto take_rows = [&]() {
#pragma unroll
            for (int half = 0; half < 2; ++half)
                own[half] = {rows.max[half], quad_sum(rows.sum[half])};
        };
        auto slot_of = [&](int32_t of_span) {
            const int32_t slot = of_span - unit_word(unit, UNIT_SECOND) + 1;

            return p.partial + (unit_word(unit, UNIT_SLOT) + (int64_t)slot * unit_word(unit, UNIT_SLOT_ROWS)) * (HEAD_DIM + 2);
        };
        auto put_slot = [&](float *slot) {
            write_slot<HEAD_DIM>(slot, unit_word(unit, UNIT_SLOT_ROWS), block, columns_of(o), own);
        };
        /* What the spans before have become, a slot in the workspace. */
        auto folded = [&]() {
            return p.partial + ((int64_t)p.partial_rows + (int64_t)block_index() * (16 * WARPS)) * (HEAD_DIM + 2);
        };
        /* Span `span` and those before are one, in o and own. */
        auto fold_before = [&](int32_t span) {
            if (span == first_span())
                return;
            struct span_row before[2];

            read_rows<HEAD_DIM>(folded(), 16 * WARPS, block, before);
            const struct fold_factors upper = fold_span(before[0], own[0], scale), lower = fold_span(before[1], own[1], scale);
            /* No factor is negative, which the compiler does not know: loads begin when the factors are there. */
            const float *const from =
                slot_of_block<HEAD_DIM>(folded(), block) + (LEAN && upper.before + lower.before < 0.0f ? 1 : 0);
#pragma unroll
            for (int i = 0; i < HEAD_DIM / 8; ++i) {
                float y[4];

                if (LEAN)
                    warp_sync(); /* few loads are on their way: their numbers take registers */
                ld_four(y, from + 128 * i, 1);
                o[4 * i] = fold(y[0], o[4 * i], upper);
                o[4 * i + 1] = fold(y[1], o[4 * i + 1], upper);
                o[4 * i + 2] = fold(y[2], o[4 * i + 2], lower);
                o[4 * i + 3] = fold(y[3], o[4 * i + 3], lower);
            }
            own[0] = before[0];
            own[1] = before[1];
        };
        auto close_span = [&](int32_t span) {
            take_rows();
            softmax_begin(rows);
            if (folds()) {
                fold_before(span);
                write_slot<HEAD_DIM>(folded(), 16 * WARPS, block, columns_of(o), own);
            } else
                put_slot(slot_of(span));
            next = order::spans::begin(p, span + 2);
            clear_o();
        };

        clear_o();
        softmax_begin(rows);
        begin_largest(largest);
        if constexpr (INTERVALS) {
            take_rows();
            if (!folds() && works) /* slots of the spans that no row sees */
#pragma unroll 1
                for (int32_t i = unit_word(unit, UNIT_SPAN); i < unit_word(unit, UNIT_SPANS_END); ++i)
                    if (begin >= end || i < first_span() || i > order::spans::of(p, end - 1))
                        put_slot(slot_of(i));
            if (p.base.pages.table && unit_word(unit, UNIT_HEAD) == 0)
                note_bad_pages<16 * WARPS, TILE_N, THREADS>(p.base, first_query(), unit_word(unit, UNIT_BATCH), mask(), begin,
                                                            end - 1);
        }
        if (begin < end) {
            if (has_run())
                put_run(shared, find_run(p, unit, begin));
            block_sync();
            copy_queries(p, shared, unit);
            copy_keys(p.base.k, shared, shared + K_AT, head_of_keys(), begin, keys_of_unit());
            cp_async_commit();
            copy_keys(p.base.v, shared, shared + V_AT, head_of_keys(), begin, keys_of_unit());
            cp_async_commit();
            load_scales(begin);
            cp_async_wait(1);
            widen_keys(p, shared + K_AT);
            /* Powers of two of positive multiples: a negative scale goes into Q. */
            if (p.base.shape.scale_log2 < 0.0f)
                negate_tile<q_tile, THREADS>(shared);
            block_sync();
            if constexpr (KEPT > 0)
                keep_rows<q_tile>(q_kept, q_lane);
        }
#pragma unroll 1
        for (int32_t tile = begin; tile < end; ++tile) {
            /* A tile that none of the warp's rows sees changes nothing of them. */
            const bool sees = works && !hides_all<TILE_N>(mask(), warp_query(), p.block_queries, tile);
            struct key_place run = {0, 0};

            if (tile > begin) {
                cp_async_wait(1); /* K of this tile has arrived */
                widen_keys(p, shared + K_AT);
                block_sync();
            }
            if (has_run() && tile + 1 < end)
                run = find_run(p, unit, tile + 1);
            if (sees)
                multiply_rows<q_tile, k_tile>(fragments_of(s), q_kept, q_lane, k_lane);
            else if constexpr (HEAD_DIM > 96)
                set_zero(fragments_of(s)); /* so that no register holds them over the loop */
            if (has_run() && tile + 1 < end)
                put_run(shared, run);
            if constexpr (stored::WIDENED) {
                if (has_scales())
                    scales::put(shared + SCALES_AT, thread_index(), own_scales);
                load_scales(tile + 1);
            }
            block_sync(); /* no warp reads K any more */
            if (tile + 1 < end)
                copy_keys(p.base.k, shared, shared + K_AT, head_of_keys(), tile + 1, keys_of_unit());
            cp_async_commit();
            if (sees)
                soften(tile);
            cp_async_wait(1); /* V of this tile has arrived */
            widen_keys(p, shared + V_AT);
            if (RIGHT && HAS_SPECIAL && is_cut(tile)) {
                if constexpr (stored::WIDENED)
                    block_sync(); /* a thread looks at what others have widened */
                if (block_any(find_special<k_tile, THREADS>(shared + V_AT))) {
                    special = true;
                    clear_special<k_tile, THREADS>(shared + V_AT);
                    block_sync();
                }
            } else
                block_sync();
            if (sees)
                add_values<k_tile>(fragments_of(o), fragments_of(s), v_lane);
            block_sync(); /* no warp reads V any more */
            if (tile + 1 < end)
                copy_keys(p.base.v, shared, shared + V_AT, head_of_keys(), tile + 1, keys_of_unit());
            cp_async_commit();
            if (works && tile + 1 == next && tile + 1 < end)
                close_span(order::spans::of(p, tile));
        }
        cp_async_wait(0);
        if (!works)
            return;
        take_rows();
        raise_largest(p, largest, unit_word(unit, UNIT_HEAD), 16 * block + (int32_t)lane / 4, first_query(),
                      unit_word(unit, UNIT_QUERIES), natural_scale<bias_t>(p.base.shape));

        int32_t span = begin < end ? order::spans::of(p, end - 1) : first_span(); /* the last one */
        /* Of the tiles from a span's first one to the next span's. */
        auto add_special_from = [&](int32_t of_span) {
            const int32_t from = max(begin, order::spans::begin(p, of_span));
            const int32_t to = min(end, folds() ? end : order::spans::begin(p, of_span + 1));
#pragma unroll 1
            for (int side = 0; side < 1 + LEFT; ++side) {
                const int32_t first_tile = side == 0 ? max(from, first_cut()) : from;
                const int32_t end_tile = side == 0 ? to : min(to, min(whole_from(), first_cut()));

                add_special_of<element, stored>(columns_of(o), p, unit_word(unit, UNIT_BATCH), unit_word(unit, UNIT_FIRST_K),
                                                head_of_keys(), first_tile * TILE_N, min(end_tile * TILE_N, keys_of_unit()),
                                                [&](const int half, int32_t key) {
                                                    if constexpr (LEFT)
                                                        return sees(mask(), query_of(half), 0, key, 0);
                                                    else
                                                        return key <= last_of(half);
                                                });
            }
        };
        if (!folds()) {
            if (special)
                add_special_from(span);
            put_slot(slot_of(span));
            if (special) /* slots of the spans before that have cut tiles */
#pragma unroll 1
                for (--span; span >= first_span() && (LEFT || order::spans::begin(p, span + 1) > first_cut()); --span) {
                    read_slot<HEAD_DIM>(slot_of(span), unit_word(unit, UNIT_SLOT_ROWS), block, columns_of(o), own);
                    add_special_from(span);
                    put_slot(slot_of(span));
                }
            return;
        }
        fold_before(span);
        if (special)
            add_special_from(0);
        if (unit_word(unit, UNIT_KIND) == UNIT_FIRST) {
            put_slot(slot_of(unit_word(unit, UNIT_SECOND) - 1));
            return;
        }
        const int32_t batch = p.base.sequences.first_q ? 0 : unit_word(unit, UNIT_BATCH), first_q = unit_word(unit, UNIT_FIRST_Q);

#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const struct step_row row =
                row_of_tile(p, 16 * block + (int32_t)lane / 4 + 8 * half, first_query(), unit_word(unit, UNIT_QUERIES));
            const int32_t head_q = unit_word(unit, UNIT_HEAD) * p.group + row.head;
            float inverse = 0.0f, lse = 0.0f;

            if (!row.exists)
                continue;
            finish_row<bias_t, BELOW>(inverse, lse, own[half], p.base, head_q, sees_some(mask(), row.query));
            if (lane % 4 == 0)
                st_global_f32(lse_of_row(p, batch, head_q, first_q + row.query), lse);
            char *const to = view_row(&p.base.o, batch, head_q, first_q + row.query, element::BYTES) + 4 * (lane % 4);
#pragma unroll
            for (int i = 0; i < HEAD_DIM / 8; ++i)
                st_global_u32(to + 16 * i, finish_pair<element>(o[4 * i + 2 * half], o[4 * i + 2 * half + 1], inverse));
        }
    }

    /* ---- the kernels --------------------------------------------------------------------------------------------- */

    /* The first kernel, of one block of PLAN_THREADS. */
    GLINT_DEVICE void plan(const struct glint_gpu_step &p)
    {
        admit_successors();
        make_plan<order, PLAN_THREADS>(p, p.plan, shared_base());
    }

    GLINT_DEVICE void run(const struct glint_gpu_step &p)
    {
        const uint32_t shared = shared_base(), unit = shared + UNIT_AT;
        uint32_t *const plan = plan_of_block(p);
        int32_t number = (int32_t)block_index();

        admit_successors();
        if (p.own_plan > 0 && warp_index() == 0)
            make_plan<order, 32>(p, plan, shared + K_AT);
        else
            await_predecessors();
        if (p.own_plan > 0)
            block_sync();
        if (!INTERVALS && p.base.pages.table && p.base.sequences.fault)
#pragma unroll 1
            for (int32_t i = (int32_t)block_index(); i < p.base.shape.batch; i += p.blocks)
                note_pages(p, get_planned(p, plan, i).at.own, i, thread_index(), THREADS);
        auto planned = [&](const int which) { return int_at((const int32_t *)plan, which); };
        const int32_t many_kept = LEAN ? 0 : planned(PLAN_MANY), few_kept = LEAN ? 0 : planned(PLAN_FEW);

#pragma unroll 1
        for (;;) {
            if (warp_index() == 0) {
                const int32_t many = LEAN ? planned(PLAN_MANY) : many_kept, few = LEAN ? planned(PLAN_FEW) : few_kept;
#pragma unroll 1
                for (;;) {
                    const bool any = put_unit<order>(p, plan, unit, number, many, few);

                    if (p.own_plan > 0)
                        number += p.blocks;
                    else if (any)
                        number =
                            p.blocks + warp_sum(lane_index() == 0 ? (int32_t)atom_global_add_u32(p.plan + PLAN_COUNTER, 1) : 0);
                    if (!any || unit_word(unit, UNIT_BEGIN) < unit_word(unit, UNIT_END) || unit_word(unit, UNIT_KIND) == UNIT_WHOLE)
                        break;
                    warp_sync();
                }
                if (LEAN && lane_index() == 0) /* a word that only sm90a's step fills otherwise */
                    st_shared_u32(unit + 4 * UNIT_WHO, (uint32_t)number);
            }
            block_sync();
            if (!unit_word(unit, UNIT_ANY))
                return;
            attend(p, shared);
            if (LEAN)
                number = unit_word(unit, UNIT_WHO);
            block_sync(); /* no thread reads the unit's words any more */
        }
    }

    /* The last kernel, of blocks of 128 threads. */
    GLINT_DEVICE void merge(const struct glint_gpu_step &p)
    {
        admit_successors();
        await_predecessors();
        merge_slots<element, bias_t, order, BELOW>(p);
    }
};

#endif
