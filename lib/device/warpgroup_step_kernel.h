/* A server's step: two warpgroups that compute, 64 rows each, and one that loads. step.h says what rows,
 * spans and folds are, and step_plan.h what units are. Of a sequence that has at most 64 rows one warpgroup
 * takes a unit and the other one the next, so that ends and beginnings overlap.
 *
 *     loaders   K, Q, and which units; V       two warps
 *     scanners  V                              two warps: NaN and infinity leave a tile of V that some row does not
 *                                              see whole, and so do all values beyond the keys
 *     others    S = Q K^T, P = 2^(scale (S - max)), O += P V; folds
 *
 * Where K and V are of 8 bits, three warps widen them in place of the second loader and the scanners. */
#ifndef GLINT_DEVICE_WARPGROUP_STEP_KERNEL_H
#define GLINT_DEVICE_WARPGROUP_STEP_KERNEL_H

#include "lib/device/warpgroup_step_bias.h"
#include "lib/device/warpgroup_step_narrow.h"

template <class Variant> struct step_kernel {
    typedef typename step_layout_of<Variant>::type tiles;
    typedef typename tiles::element element;
    typedef typename tiles::mask_t mask_t;
    typedef typename tiles::score_t score_t;
    typedef typename Variant::bias bias_t;
    typedef step_elements<bias_t, tiles::TILE_N, tiles::HEAD_DIM <= 64 ? 1 : 2> elements_t;
    typedef typename tiles::order order;
    typedef typename tiles::query_tile query_tile;
    typedef typename tiles::key_tile key_tile;
    typedef typename tiles::key_ring key_ring;
    typedef typename tiles::value_ring value_ring;
    typedef typename tiles::unit_ring unit_ring;
    enum {
        HEAD_DIM = tiles::HEAD_DIM,
        WHOLE = HEAD_DIM % 32 == 0, /* columns are written by 32 */
        TILE_N = tiles::TILE_N,
        UNITS = tiles::UNITS,
        BELOW = tiles::BELOW,
        OWN = tiles::OWN,
        RIGHT = tiles::RIGHT,
        LEFT = tiles::LEFT,
        INTERVALS = tiles::INTERVALS,
        FOLDED_AT = tiles::FOLDED_AT,
        FOLDED_IN_SHARED = tiles::FOLDED_IN_SHARED,
        Q_FULL = tiles::Q_FULL,
        Q_EMPTY = tiles::Q_EMPTY,
        STAGED = elements_t::BYTES > 0,      /* elements of a bias are copied to shared memory ahead */
        ELEMENTS_AT = tiles::unit_ring::end, /* by each warp that computes */
        END = ELEMENTS_AT + 8 * elements_t::BYTES,
    };
    static_assert(ELEMENTS_AT % 16 == 0, "copies of 16 bytes");

    GLINT_DEVICE void attend(const struct glint_gpu_step &p, uint32_t shared, uint32_t w)
    {
        const float scale = scale_of<bias_t>(p);
        const bool first_lane = lane_index() == 0;
        const uint32_t thread = w * 128 + thread_index() % 128, folded = shared + FOLDED_AT + thread * 16; /* its own */
        struct ring k = {0, 0}, v = {0, 0}, u = {0, 0};
        uint32_t q_phase = 0, scales = 0;
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
        /* S = Q K^T */
        auto begin_scores = [&]() {
            const uint32_t queries = shared + w * query_tile::bytes;

            /* Asked for again, else descriptors of all steps stay in registers. */
            begin_rows_by_rows<element, query_tile, key_tile>(s, HEAD_DIM > 128 ? warp_first(queries) : queries,
                                                              key_ring::tile(shared, k));
        };
        /* O += P V */
        auto begin_values = [&]() { begin_weights_by_rows<element, key_tile>(o, weights, value_ring::tile(shared, v), 1); };
        auto release_keys = [&](bool first, bool last) {
            release(key_ring::empty(shared, k));
            tiles::next_keys(k, first, last);
        };
        /* This thread's part of O of the spans before: numbers i to i + 3. */
        auto get_folded = [&](const int i, uint32_t(&x)[4]) {
            if constexpr (FOLDED_IN_SHARED)
                ld_shared_u32x4(x, folded + i * 1024);
            else
                ld_global_u32x4(x, folded_of_block<HEAD_DIM>(p) + i * 256 + thread * 4);
        };
        auto put_folded = [&](const int i) {
            const uint32_t x[4] = {bits_of(o[i]), bits_of(o[i + 1]), bits_of(o[i + 2]), bits_of(o[i + 3])};

            if constexpr (FOLDED_IN_SHARED)
                st_shared_u32x4(folded + i * 1024, x);
            else
                st_global_u32x4(folded_of_block<HEAD_DIM>(p) + i * 256 + thread * 4, x);
        };
        /* Where O is in the workspace, the rows' numbers wait in shared memory: 0 of the spans before, 1 of the one
         * that ends. */
        auto get_rows = [&](const int which, struct span_row(&of)[2]) {
            uint32_t x[4];

            if constexpr (!FOLDED_IN_SHARED) {
                ld_shared_u32x4(x, folded + which * 4096);
                of[0] = {float_of(x[0]), float_of(x[1])};
                of[1] = {float_of(x[2]), float_of(x[3])};
            }
        };
        auto put_rows = [&](const int which, const struct span_row(&of)[2]) {
            const uint32_t x[4] = {bits_of(of[0].max), bits_of(of[0].sum), bits_of(of[1].max), bits_of(of[1].sum)};

            if constexpr (!FOLDED_IN_SHARED)
                st_shared_u32x4(folded + which * 4096, x);
        };
        auto clear_o = [&]() {
#pragma unroll
            for (int i = 0; i < HEAD_DIM / 2; ++i)
                o[i] = 0.0f;
        };

        auto same_ring = [&](const struct ring &of) { return ring{warp_first(of.stage), warp_first(of.phase)}; };
        for (;;) {
            const uint32_t unit = unit_ring::tile(shared, u);

            /* The same in all lanes, as the compiler must know of what loops and stages depend on: descriptors are then
             * a warp's registers. */
            auto word = [&](const int of) { return (int32_t)warp_first((uint32_t)unit_word(unit, of)); };

            unit_ring::wait_full(shared, u);
            if (!word(UNIT_ANY))
                return;
            const int32_t who = word(UNIT_WHO), begin = word(UNIT_BEGIN), end = word(UNIT_END);
            tiles::begin_unit(k, v, end - begin);
            /* The other one's: its tiles pass by, each when no lane waits for it any more. */
            if (who != 2 && who != (int32_t)w) {
#pragma unroll 1
                for (int32_t tile = begin; tile < end; ++tile) {
                    key_ring::wait_full(shared, k);
                    warp_sync();
                    release_keys(tile == begin, tile == end - 1);
                    tiles::pass_scales(shared, scales);
                    value_ring::wait_full(shared, v);
                    warp_sync();
                    release(value_ring::empty(shared, v));
                    tiles::next_values(v, tile + 2 == end);
                }
                warp_sync();
                release(unit_ring::empty(shared, u));
                ring_advance<UNITS>(u);
                continue;
            }

            k = same_ring(k);
            v = same_ring(v);
            scales = warp_first(scales);
            const int32_t first_block = who == 2 ? 4 * (int32_t)w : 0, block = first_block + (int32_t)(warp_index() % 4);
            const int32_t query0 = word(UNIT_QUERY), first_cut = word(UNIT_CUT);
            auto mask = [&]() {
                if constexpr (INTERVALS)
                    return tiles::mask_of_rows(p, unit);
                else
                    return mask_t{unit_word(unit, UNIT_LEFT), unit_word(unit, UNIT_RIGHT), unit_word(unit, UNIT_QUERIES),
                                  unit_word(unit, UNIT_KEYS)};
            };
            auto query_of = [&](const int half) {
                if constexpr (INTERVALS) /* nothing of it is kept */
                    return row_of_tile(p, 16 * block + (int32_t)(thread_index_anew() % 32 / 4) + 8 * half,
                                       unit_word(unit, UNIT_QUERY), 0)
                        .query;
                else
                    return row_of_tile(p, 16 * block + (int32_t)lane_index() / 4 + 8 * half, query0, 0).query;
            };
            /* Keys that the rows see. The loop is shorter than where they are looked up when a tile is cut. */
            constexpr bool KEPT = HEAD_DIM <= 128 && !INTERVALS;
            const int32_t last[2] = {KEPT ? last_key(mask(), query_of(0)) : 0, KEPT ? last_key(mask(), query_of(1)) : 0};
            auto last_of = [&](const int half) { return KEPT ? last[half] : last_key(mask(), query_of(half)); };
            /* No row's last key is before the tile. */
            const int32_t cut =
                INTERVALS ? first_cut
                          : (int32_t)warp_first((uint32_t)(last_key(mask(), query0 + first_block * p.block_queries) + 1)) / TILE_N;
            const int32_t whole_from = LEFT ? word(UNIT_WHOLE_FROM) : 0;
            int32_t span = word(INTERVALS ? UNIT_SEEN_SPAN : UNIT_SPAN);
            int32_t next = order::spans::begin(p, span + 1);
            auto kind = [&]() { return word(UNIT_KIND); };
            bool pending = false; /* the span at hand is done but for its last values */
            bool some = false;    /* O of the spans before is put away */
            struct span_row before[2] = {{-GLINT_INFINITY, 0.0f}, {-GLINT_INFINITY, 0.0f}}, own[2];
            uint32_t special = 0; /* the first lane knows of NaN and infinities */
            auto biased_rows = [&]() {
                return biased_tile{{unit_word(unit, UNIT_QUERIES), unit_word(unit, UNIT_KEYS), 0, unit_word(unit, UNIT_RIGHT)},
                                   unit_word(unit, UNIT_BATCH),
                                   unit_word(unit, UNIT_HEAD),
                                   unit_word(unit, UNIT_QUERY)};
            };
            /* Made anew for each tile, from words in shared memory: it takes no registers over the loop. */
            auto bias_of_tile = [&]() {
                return bias_of_rows(bias_t{}, p, biased_rows(), 16 * block + (int32_t)(thread_index_anew() % 32 / 4), 16 * block);
            };
            auto own_elements = [&]() { return shared + ELEMENTS_AT + (w * 4 + warp_index() % 4) * elements_t::BYTES; };
            auto request_elements = [&](int32_t tile) {
                if constexpr (STAGED)
                    elements_t::request(p, own_elements(), tile * TILE_N, unit_word(unit, UNIT_KEYS));
            };

            auto soften = [&](int32_t tile) {
                float shift[2];

                tiles::scale_scores(shared, scales, s);
                change_scores(s, score_t::of(p.base));
                if constexpr (STAGED) {
                    elements_t::add(s, p, own_elements(), tile * TILE_N, unit_word(unit, UNIT_KEYS));
                    if (tile + 1 < end)
                        request_elements(tile + 1);
                } else if constexpr (!bias_t::NONE)
                    add_to_rows<TILE_N>(s, bias_of_tile(), p.base.shape, tile * TILE_N + 2 * (int32_t)(lane_index() % 4),
                                        (tile + 1) * TILE_N);
                if (tile >= cut) {
                    const int32_t first_key = tile * TILE_N + 2 * (int32_t)(lane_index() % 4);
                    const int32_t from_first[2] = {last_of(0) - first_key, last_of(1) - first_key};

                    hide_after<TILE_N>(s, from_first);
                }
                if constexpr (INTERVALS) {
                    const int32_t from = tile * TILE_N + 2 * (int32_t)(lane_index() % 4);

                    if (tile < whole_from) {
                        const int32_t from_first[2] = {first_key(mask(), query_of(0)) - from,
                                                       first_key(mask(), query_of(1)) - from};

                        hide_before<TILE_N>(s, from_first);
                    }
                    if constexpr (mask_t::TREE)
                        if ((tile + 1) * TILE_N > first_slot(mask())) {
#pragma unroll
                            for (int half = 0; half < 2; ++half) {
                                const auto tree = mask();

                                wgmma_hold(s, TILE_N / 2); /* no more words on their way than there are registers */
                                hide_slots(fragments_of(s)[0], half, tree, query_of(half), from - first_slot(tree),
                                           -GLINT_INFINITY);
                            }
                        }
                } else if (LEFT && tile < whole_from) {
                    const int32_t first_key = tile * TILE_N + 2 * (int32_t)(lane_index() % 4) - unit_word(unit, UNIT_LEFT);
                    const int32_t from_first[2] = {query_of(0) - first_key, query_of(1) - first_key};

                    hide_before<TILE_N>(s, from_first);
                }
                const bool grown = follow_maxima<TILE_N, BELOW>(rows, s, shift, factor, scale);
                make_weights<TILE_N>(rows, s, shift, scale);
                return grown;
            };
            auto pack = [&](int32_t tile) {
                tiles::scale_weights(shared, scales, s, tile >= cut || (LEFT && tile < whole_from));
                pack_weights<element>(weights, s);
            };
            /* Of the span that ends. */
            auto take_rows = [&]() {
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    own[half] = {rows.max[half], quad_sum(rows.sum[half])};
            };
            auto slot_of = [&](int32_t of_span) {
                const int32_t slot_rows = word(UNIT_SLOT_ROWS), slot = of_span - word(UNIT_SECOND) + 1;

                return p.partial + (word(UNIT_SLOT) + (int64_t)slot * slot_rows) * (HEAD_DIM + 2);
            };
            auto put_slot = [&](float *slot) { write_slot<HEAD_DIM>(slot, word(UNIT_SLOT_ROWS), block, o, own); };
            /* O of the span and of those before are one, put away, or in o where no span follows. */
            auto fold_o = [&](bool follows) {
                get_rows(0, before);
                const struct fold_factors upper = fold_span(before[0], own[0], scale), lower = fold_span(before[1], own[1], scale);

#pragma unroll
                for (int i = 0; i < HEAD_DIM / 2; i += 4) {
                    uint32_t y[4];

                    if (!FOLDED_IN_SHARED && i % 16 == 0)
                        warp_sync(); /* no more loads on their way than there are registers */
                    get_folded(i, y);
                    o[i] = fold(float_of(y[0]), o[i], upper);
                    o[i + 1] = fold(float_of(y[1]), o[i + 1], upper);
                    o[i + 2] = fold(float_of(y[2]), o[i + 2], lower);
                    o[i + 3] = fold(float_of(y[3]), o[i + 3], lower);
                    if (follows || !FOLDED_IN_SHARED) /* at the end, too: then loads stay in order */
                        put_folded(i);
                }
                if (follows)
                    put_rows(0, before);
            };
            auto close_span = [&]() {
                get_rows(1, own);
                if (kind() == UNIT_SPANS)
                    put_slot(slot_of(span));
                else if (some)
                    fold_o(true);
                else {
                    before[0] = own[0];
                    before[1] = own[1];
#pragma unroll
                    for (int i = 0; i < HEAD_DIM / 2; i += 4)
                        put_folded(i);
                    put_rows(0, before);
                }
                some = true;
                pending = false;
                span++;
                next = order::spans::begin(p, span + 1);
                clear_o();
            };
            auto have_values = [&](int32_t tile) {
                if (RIGHT && tiles::is_cut(tile, first_cut, whole_from))
                    tiles::note_special(shared, v, special);
                release(value_ring::empty(shared, v));
                tiles::next_values(v, tile + 2 == end);
            };

            clear_o();
            softmax_begin(rows);
            if (begin < end) {
                if constexpr (STAGED) {
                    elements_t::begin(p, own_elements(), biased_rows(), 16 * block);
                    request_elements(begin);
                }
                mbarrier_wait(shared + Q_FULL + 8 * w, q_phase);
                q_phase ^= 1;
                /* Powers of two of positive multiples: a negative scale goes into Q. */
                if (p.base.shape.scale_log2 < 0.0f)
                    negate_slabs<query_tile>(shared + w * query_tile::bytes, OWN + w);
                key_ring::wait_full(shared, k);
                hold_all();
                begin_scores();
                wgmma_wait<0>();
                wgmma_hold(s, TILE_N / 2);
                release_keys(true, begin == end - 1);
                soften(begin);
                pack(begin);
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
                    release_keys(false, tile == end - 2);
                    if (tile + 1 == next) {
                        take_rows();
                        put_rows(1, own);
                        softmax_begin(rows);
                        pending = true;
                    }
                    const bool grown = soften(tile + 1);
                    wgmma_wait<0>();
                    wgmma_hold(o, HEAD_DIM / 2);
                    wgmma_hold(weights, TILE_N / 4);
                    pack(tile + 1); /* before any branch: made in the gaps between exponentials */
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

            const bool adds = RIGHT && tiles::has_special(special);
            /* Of the tiles from a span's first one to the next span's. */
            auto add_special_from = [&](int32_t of_span) {
                const int32_t from = max(begin, order::spans::begin(p, of_span));
                const int32_t to = min(end, kind() == UNIT_SPANS ? order::spans::begin(p, of_span + 1) : end);
#pragma unroll 1
                for (int side = 0; side < 1 + LEFT; ++side) {
                    const int32_t first_tile = side == 0 ? max(from, first_cut) : from;
                    const int32_t end_tile = side == 0 ? to : min(to, min(whole_from, first_cut));

                    add_special_of<element, typename tiles::stored>(
                        o, p, word(UNIT_BATCH), word(UNIT_FIRST_K), word(UNIT_HEAD) / p.parts, first_tile * TILE_N,
                        min(end_tile * TILE_N, word(UNIT_KEYS)), [&](const int half, int32_t key) {
                            if constexpr (INTERVALS)
                                return sees(mask(), query_of(half), 0, key, 0);
                            else
                                return (!LEFT || key >= query_of(half) + unit_word(unit, UNIT_LEFT)) && key <= last_of(half);
                        });
                }
            };
            if (kind() == UNIT_SPANS) {
                const int32_t last_span = span;

                if (adds)
                    add_special_from(span);
                put_slot(slot_of(span));
                if (adds) /* slots of the spans before that have cut tiles, of those that some row sees */
#pragma unroll 1
                    for (--span; span >= word(INTERVALS ? UNIT_SEEN_SPAN : UNIT_SPAN) &&
                                 (LEFT || order::spans::begin(p, span + 1) > first_cut);
                         --span) {
                        read_slot<HEAD_DIM>(slot_of(span), word(UNIT_SLOT_ROWS), block, o, own);
                        add_special_from(span);
                        put_slot(slot_of(span));
                    }
                if constexpr (INTERVALS) { /* slots of the spans that no row sees */
                    const struct span_row none[2] = {{-GLINT_INFINITY, 0.0f}, {-GLINT_INFINITY, 0.0f}};

                    clear_o();
#pragma unroll 1
                    for (int32_t i = word(UNIT_SPAN); i < word(UNIT_SPANS_END); ++i)
                        if (i < word(UNIT_SEEN_SPAN) || i > last_span)
                            write_slot<HEAD_DIM>(slot_of(i), word(UNIT_SLOT_ROWS), block, o, none);
                }
            } else {
                if (some)
                    fold_o(false);
                else {
                    before[0] = own[0];
                    before[1] = own[1];
                }
                if (adds)
                    add_special_from(0);
                if (kind() == UNIT_FIRST) {
                    own[0] = before[0];
                    own[1] = before[1];
                    put_slot(slot_of(word(UNIT_SECOND) - 1));
                } else {
                    const int32_t batch = p.base.sequences.first_q ? 0 : unit_word(unit, UNIT_BATCH),
                                  first_q = unit_word(unit, UNIT_FIRST_Q);

#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const struct step_row row = row_of_tile(p, 16 * block + (int32_t)lane_index() / 4 + 8 * half, query0,
                                                                unit_word(unit, UNIT_QUERIES));
                        const int32_t head_q = unit_word(unit, UNIT_HEAD) * p.group + row.head;
                        float inverse = 0.0f, lse = 0.0f;

                        if (row.exists) {
                            finish_row<bias_t, BELOW>(inverse, lse, before[half], p.base, head_q, sees_some(mask(), row.query));
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
                                words[j] =
                                    WHOLE || i + 4 * j < HEAD_DIM / 2 ? finish_pair<element>(c[4 * j], c[4 * j + 1], inverse) : 0;
                            quad_transpose(words);
                            if (row.exists && (WHOLE || i + 4 * (int)(lane_index() % 4) < HEAD_DIM / 2))
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

    /* The first kernel, of one block of PLAN_THREADS. */
    GLINT_DEVICE void plan(const struct glint_gpu_step &p)
    {
        admit_successors();
        make_plan<order, PLAN_THREADS>(p, p.plan, shared_base());
    }

    GLINT_DEVICE void run(const struct glint_gpu_step &p)
    {
        const uint32_t shared = shared_base(), warp = warp_index();
        const uint32_t zeros[4] = {0, 0, 0, 0};

        if (thread_index() == 0) {
            for (uint32_t w = 0; w < 2; ++w) {
                mbarrier_init(shared + Q_FULL + 8 * w, 1);
                mbarrier_init(shared + Q_EMPTY + 8 * w, 4);
            }
            tiles::init_rings(shared);
            fence_mbarrier_init();
            for (int i = MAP_Q; i <= MAP_V; ++i)
                tma_prefetch_map(&p.map[i]);
        }
        /* Rows of Q that no copy fills are nobody's, but are multiplied. */
        for (uint32_t i = thread_index() * 16; i < tiles::K_AT; i += tiles::THREADS * 16)
            st_shared_u32x4(shared + i, zeros);
        fence_async_shared();
        admit_successors();
        const bool plans = p.own_plan > 0 && warp == 0;
        if (!plans)
            await_predecessors();
        if (plans) {
            make_plan<order, 32>(p, plan_of_block(p), shared + tiles::FOLDED_AT,
                                 tiles::EARLY ? unit_ring::tile(shared, {0, 0}) : 0);
            warp_sync();
        }
        block_sync();
        const uint32_t role = INTERVALS ? warp_index() : warp; /* a loader has few registers */
        if (role >= 4) {
            registers_take<tiles::REGISTERS>();
            attend(p, shared, role / 4 - 1);
            return;
        }
        registers_give<tiles::LOADER_REGISTERS>();
        tiles::load(p, shared, role);
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
