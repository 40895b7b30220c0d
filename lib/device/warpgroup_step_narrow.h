/* A step's layout in shared memory, and its warpgroup that loads, where K and V are of 8 bits: a warp of a loader,
 * which copies bytes, and three that widen them to Q's type, as operands of wgmma. warpgroup_step_load.h has all else.
 *
 * Tiles of K and of V share a ring, in the order in which those who compute want them:
 *     K0, K1, V0, K2, V1, ... K(n - 1), V(n - 2), V(n - 1)    of a unit of n tiles
 * so that three hold what is multiplied and the next one. Bytes come in pieces of PIECE keys through a ring of their
 * own, and the warps that widen take pieces in turn.
 *
 * step_scales.h says what scales do. NaN is widened to a finite number: where no row has such a key hidden, those who
 * widen put NaN into the tile, else V's go to the rows that see them at the end (add_special_of). */
#ifndef GLINT_DEVICE_WARPGROUP_STEP_NARROW_H
#define GLINT_DEVICE_WARPGROUP_STEP_NARROW_H

#include "lib/device/step_scales.h"
#include "lib/device/warpgroup_step_load.h"

template <class Variant> struct narrow_step_layout : step_shape<Variant> {
    typedef step_shape<Variant> shape;
    typedef typename shape::element element;
    typedef typename shape::stored stored;
    typedef typename shape::key_tile key_tile;
    typedef tile_scales<shape::TILE_N, stored> scales;
    enum {
        HEAD_DIM = shape::HEAD_DIM,
        TILE_N = shape::TILE_N,
        STAGES = shape::STAGES,
        UNITS = shape::UNITS,
        WIDTH = shape::WIDTH,
        RIGHT = shape::RIGHT,
        LEFT = shape::LEFT,
        INTERVALS = shape::INTERVALS,
        /* The loader wants more where it looks at intervals, and without a window at head_dim 64, and with e4m3 and a
         * softcap. */
        REGISTERS = INTERVALS || (!LEFT && (HEAD_DIM <= 64 || (stored::HAS_NAN && !Variant::score::IDENTITY))) ? 216 : 224,
        LOADER_REGISTERS = loader_registers(REGISTERS),
        WIDENERS = 3, /* warps */
        PIECE = 32,   /* keys of a piece */
        PIECE_BYTES = PIECE * HEAD_DIM,
        PIECES = Variant::PIECES, /* of K and V, in memory's bytes */
        ROW_PAIRS = HEAD_DIM / 8, /* of words of a row */
        SCALES = 2,               /* tiles of keys whose scales are there */
        K_AT = shape::K_AT,
        PIECES_AT = K_AT + STAGES * key_tile::bytes,
        FOLDED_IN_SHARED = shape::FOLDED_IN_SHARED,
        FOLDED_AT = PIECES_AT + PIECES * PIECE_BYTES,
        SCALES_AT = FOLDED_AT + shape::FOLDED_BYTES,
        Q_FULL = SCALES_AT + SCALES * scales::BYTES,
        Q_EMPTY = Q_FULL + 16,
    };
    typedef stage_ring<STAGES, key_tile::bytes, K_AT, Q_EMPTY + 16> tile_ring;
    typedef tile_ring key_ring;
    typedef tile_ring value_ring;
    typedef stage_ring<PIECES, PIECE_BYTES, PIECES_AT, tile_ring::end> piece_ring;
    typedef stage_ring<SCALES, scales::BYTES, SCALES_AT, piece_ring::end> scale_ring;
    enum {
        SPECIAL = scale_ring::end, /* what each warp that widens found in a stage: NaN that it left out */
        UNITS_AT = SPECIAL + 16 * STAGES,
    };
    typedef stage_ring<UNITS, shape::UNIT_BYTES, UNITS_AT, UNITS_AT + UNITS * shape::UNIT_BYTES> unit_ring;

    GLINT_DEVICE void init_rings(uint32_t shared)
    {
        tile_ring::init(shared, WIDENERS, 8);
        piece_ring::init(shared, 1, 1);
        scale_ring::init(shared, 1, 8);
        unit_ring::init(shared, 1, 12); /* all warps */
    }

    /* ---- for those who compute ------------------------------------------------------------------------------- */

    /* At most STAGES further. */
    GLINT_DEVICE void skip(struct ring &ring, uint32_t steps)
    {
        const uint32_t to = ring.stage + steps, turn = to >= STAGES;

        ring.stage = to - turn * STAGES;
        ring.phase ^= turn;
    }
    GLINT_DEVICE void begin_unit(const struct ring &k, struct ring &v, int32_t tiles)
    {
        v = k;
        skip(v, tiles > 1 ? 2 : 1);
    }
    GLINT_DEVICE void next_keys(struct ring &k, bool first, bool last)
    {
        skip(k, 2 - first + last);
    }
    GLINT_DEVICE void next_values(struct ring &v, bool before_last)
    {
        skip(v, 2 - before_last);
    }
    /* A number of the warp's, so that it takes no register of a lane. */
    GLINT_DEVICE void note_special(uint32_t shared, const struct ring &v, uint32_t &special)
    {
        const uint32_t at = shared + SPECIAL + 16 * v.stage;

        if constexpr (stored::HAS_NAN) {
            special = warp_first(special | ld_shared_u32(at) | ld_shared_u32(at + 4) | ld_shared_u32(at + 8));
            warp_sync(); /* before the stage is given back */
        }
    }
    GLINT_DEVICE bool has_special(uint32_t special)
    {
        return stored::HAS_NAN && special != 0;
    }

    /* The scales of the next tile of keys, number `step` of all, are not wanted. */
    GLINT_DEVICE void pass_scales(uint32_t shared, uint32_t &step)
    {
        scale_ring::wait_full(shared, ring_at(step));
        warp_sync();
        if (lane_index() == 0)
            mbarrier_arrive(scale_ring::empty(shared, ring_at(step)));
        step++;
    }

    GLINT_DEVICE void scale_scores(uint32_t shared, uint32_t step, float (&s)[TILE_N / 2])
    {
        scale_ring::wait_full(shared, ring_at(step));
        scales::scale_scores(scale_ring::tile(shared, ring_at(step)), s);
    }
    /* hidden: some weights are 0 because their keys are hidden. */
    GLINT_DEVICE void scale_weights(uint32_t shared, uint32_t &step, float (&s)[TILE_N / 2], bool hidden)
    {
        scales::scale_weights(scale_ring::tile(shared, ring_at(step)), s, hidden);
        warp_sync();
        if (lane_index() == 0)
            mbarrier_arrive(scale_ring::empty(shared, ring_at(step)));
        step++;
    }

    /* ---- the loader ------------------------------------------------------------------------------------------ */

    /* A tile of K or V, piece by piece, by a warp. `pieces`: the next one's place. */
    GLINT_DEVICE void load_pieces(const struct glint_gpu_step &p, uint32_t shared, struct ring &pieces, const int which,
                                  const struct tile_part &part, const struct key_place &place, int32_t head, uint64_t hint)
    {
        const int32_t at[4] = {0, place.row, head, place.batch}, own = part.row / PIECE;

#pragma unroll 1
        for (int32_t piece = 0; piece < TILE_N / PIECE; ++piece) {
            const uint32_t full = piece_ring::full(shared, pieces);

            piece_ring::wait_empty(shared, pieces);
            if (lane_index() == 0)
                mbarrier_arrive_expect(full, PIECE_BYTES);
            warp_sync();
            if ((int32_t)lane_index() < part.count && own == piece)
                tma_load(piece_ring::tile(shared, pieces) + part.row % PIECE * HEAD_DIM, &p.map[which], 4, at, full, hint);
            ring_advance<PIECES>(pieces);
        }
    }

    GLINT_DEVICE void load_bytes_of_units(const struct glint_gpu_step &p, uint32_t shared)
    {
        const struct tile_part part = shape::own_part(p, PIECE, 1);
        struct ring pieces = {0, 0};

        load_units<narrow_step_layout>(
            p, shared, [&](uint32_t unit, int32_t begin, int32_t end, int32_t head, uint64_t hint, const auto &queries) {
                struct key_place place = {0, 0}, before = place;

                if (begin < end)
                    place = shape::place_of_part(p, unit, part, begin);
#pragma unroll 1
                for (int32_t tile = begin; begin < end && tile <= end; ++tile) {
                    const struct key_place next = tile + 1 < end ? shape::place_of_part(p, unit, part, tile + 1) : place;

                    if (tile < end)
                        load_pieces(p, shared, pieces, MAP_K, part, place, head, hint);
                    if (tile == begin)
                        queries();
                    else
                        load_pieces(p, shared, pieces, MAP_V, part, before, head, hint);
                    before = place;
                    place = next;
                }
            });
    }

    /* ---- those who widen ------------------------------------------------------------------------------------- */

    /* Where chunk `chunk` of 16 bytes of a row of a tile is. */
    GLINT_DEVICE uint32_t chunk_offset(uint32_t row, uint32_t chunk)
    {
        const uint32_t in_slab = chunk % key_tile::chunks, turned = WIDTH == 128 ? row % 8 : row / 2 % 4;

        return chunk / key_tile::chunks * key_tile::slab_bytes + row * WIDTH + (in_slab ^ turned) * 16;
    }

    /* Puts NaN into rows `first` + ... of a tile where those of a piece that this lane has widened have some, if
     * keep(row) says so. Seldom: it reads the piece again. */
    template <class keep_t> GLINT_DEVICE void put_nan(uint32_t tile, uint32_t piece, uint32_t first, const keep_t &keep)
    {
#pragma unroll 1
        for (uint32_t i = lane_index(); i < PIECE * ROW_PAIRS; i += 32) {
            const uint32_t row = i / ROW_PAIRS, at = tile + chunk_offset(first + row, i % ROW_PAIRS);
            float words[2];

            ld_shared_f32x2(words, piece + 8 * i);
            if (!decode::has_nan(bits_of(words[0])) && !decode::has_nan(bits_of(words[1])))
                continue;
            if (!keep(first + row))
                continue;
            uint32_t v[4];
            ld_shared_u32x4(v, at);
            decode::put_nan(v, bits_of(words[0]));
            decode::put_nan(v + 2, bits_of(words[1]));
            st_shared_u32x4(at, v);
        }
    }

    /* Rows `first` + 0 ... PIECE - 1 of a tile, by a warp: DEEP loads are on their way together, as many as there are
     * registers for. */
    template <class keep_t>
    GLINT_DEVICE void widen_piece(uint32_t tile, uint32_t piece, uint32_t first, const typename stored::signs &signs,
                                  const keep_t &keep)
    {
        /* ROWS of a turn, where they are whole: their number has no bit in common with a lane's own row of them. */
        enum {
            TURNS = PIECE * ROW_PAIRS / 32,
            DEEP = stored::HAS_NAN || LEFT || TURNS % 4 != 0 ? 2 : 4,
            ROWS = 32 / ROW_PAIRS,
            EVEN = 32 % ROW_PAIRS == 0 && WIDTH == 128,
        };
        const uint32_t own = tile + first * WIDTH + chunk_offset(lane_index() / ROW_PAIRS, lane_index() % ROW_PAIRS);
        uint32_t codes = 0;

#pragma unroll 1
        for (uint32_t i = 0; i < TURNS; i += DEEP) {
            float words[DEEP][2];

#pragma unroll
            for (uint32_t j = 0; j < DEEP; ++j)
                ld_shared_f32x2(words[j], piece + 8 * (32 * (i + j) + lane_index()));
#pragma unroll
            for (uint32_t j = 0; j < DEEP; ++j) {
                const uint32_t low = bits_of(words[j][0]), high = bits_of(words[j][1]), index = 32 * (i + j) + lane_index();
                const uint32_t to = EVEN ? (((own ^ i * ROWS % 8 * 16) + i * ROWS * WIDTH) ^ j * ROWS % 8 * 16) + j * ROWS * WIDTH
                                         : tile + chunk_offset(first + index / ROW_PAIRS, index % ROW_PAIRS);
                uint32_t v[4];

                decode::widen_word<stored>(v, low, signs);
                decode::widen_word<stored>(v + 2, high, signs);
                if constexpr (stored::HAS_NAN) {
                    decode::look_for_nan(low, codes);
                    decode::look_for_nan(high, codes);
                }
                st_shared_u32x4(to, v);
            }
        }
        if (stored::HAS_NAN && (codes & 0x80808080u) != 0)
            put_nan(tile, piece, first, keep);
    }

    /* The scales of keys lane + 32 j of a tile, on their way. */
    struct lane_scales {
        struct key_scales of[TILE_N / 32];
    };

    GLINT_DEVICE void begin_scales(struct lane_scales &own, const struct glint_gpu_step &p, uint32_t unit, int32_t tile,
                                   int32_t end)
    {
        const int32_t keys = tile < end ? unit_word(unit, UNIT_KEYS) : 0, head = unit_word(unit, UNIT_HEAD) / p.parts;

#pragma unroll
        for (int j = 0; j < TILE_N / 32; ++j)
            own.of[j] = scales_of_key(p, unit_word(unit, UNIT_BATCH), unit_word(unit, UNIT_FIRST_K), head,
                                      tile * TILE_N + 32 * j + (int32_t)lane_index(), keys);
    }

    GLINT_DEVICE void put_scales(uint32_t shared, const struct ring &c, const struct lane_scales &own)
    {
        const uint32_t at = scale_ring::tile(shared, c);

        scale_ring::wait_empty(shared, c);
#pragma unroll
        for (uint32_t j = 0; j < TILE_N / 32; ++j)
            scales::put(at, 32 * j + lane_index(), own.of[j]);
        warp_sync();
        if (lane_index() == 0)
            mbarrier_arrive(scale_ring::full(shared, c));
    }

    GLINT_DEVICE void widen_tiles(const struct glint_gpu_step &p, uint32_t shared, uint32_t widener)
    {
        struct ring t = {0, 0}, pieces = {0, 0}, c = {0, 0}, u = {0, 0};
        const auto signs = stored::unknown_signs(p.base);
        uint32_t turn = 0; /* whose the next piece is */

        if (!INTERVALS && p.base.pages.table && p.base.sequences.fault)
#pragma unroll 1
            for (int32_t i = (int32_t)block_index(); i < p.base.shape.batch; i += p.blocks)
                note_pages(p, get_planned(p, plan_of_block(p), i).at.own, i, 32 * widener + lane_index(), 32 * WIDENERS);
        for (;;) {
            const uint32_t unit = unit_ring::tile(shared, u);

            unit_ring::wait_full(shared, u);
            if (!unit_word(unit, UNIT_ANY))
                return;
            const int32_t begin = unit_word(unit, UNIT_BEGIN), end = unit_word(unit, UNIT_END);
            int32_t scaled = begin + (int32_t)widener; /* the next tile whose scales this warp has */
            struct lane_scales own;

            /* Of V's NaN in a tile that is cut, those that some row sees are left out, and told. */
            auto widen_tile = [&](const bool of_v, int32_t at) {
                bool left = false;

                auto is_cut = [&]() {
                    return shape::is_cut(at, unit_word(unit, UNIT_CUT), LEFT ? unit_word(unit, UNIT_WHOLE_FROM) : 0);
                };

                tile_ring::wait_empty(shared, t);
#pragma unroll 1
                for (uint32_t first = 0; first < TILE_N; first += PIECE) {
                    if (turn == widener) {
                        piece_ring::wait_full(shared, pieces);
                        widen_piece(tile_ring::tile(shared, t), piece_ring::tile(shared, pieces), first, signs, [&](uint32_t row) {
                            const bool cut = of_v && is_cut(), is_key = at * TILE_N + (int32_t)row < unit_word(unit, UNIT_KEYS);

                            left = left || (cut && RIGHT && is_key);
                            return !cut || (!RIGHT && is_key);
                        });
                        warp_sync();
                        if (lane_index() == 0)
                            mbarrier_arrive(piece_ring::empty(shared, pieces));
                    }
                    turn = turn == WIDENERS - 1 ? 0 : turn + 1;
                    ring_advance<PIECES>(pieces);
                }
                if (stored::HAS_NAN && RIGHT && of_v && is_cut()) {
                    const bool any = warp_any(left);

                    if (lane_index() == 0)
                        st_shared_u32(shared + SPECIAL + 16 * t.stage + 4 * widener, any);
                }
                fence_async_shared();
                warp_sync();
                if (lane_index() == 0)
                    mbarrier_arrive(tile_ring::full(shared, t));
                ring_advance<STAGES>(t);
            };

            begin_scales(own, p, unit, scaled, end);
#pragma unroll 1
            for (int32_t tile = begin; begin < end && tile <= end; ++tile) {
                if (tile < end) {
                    widen_tile(false, tile);
                    if (tile == scaled) {
                        put_scales(shared, c, own);
                        scaled += WIDENERS;
                        begin_scales(own, p, unit, scaled, end);
                    }
                    ring_advance<SCALES>(c);
                }
                if (tile > begin)
                    widen_tile(true, tile - 1);
            }
            warp_sync();
            if (lane_index() == 0)
                mbarrier_arrive(unit_ring::empty(shared, u));
            ring_advance<UNITS>(u);
        }
    }

    GLINT_DEVICE void load(const struct glint_gpu_step &p, uint32_t shared, uint32_t warp)
    {
        if (warp == 0)
            load_bytes_of_units(p, shared);
        else
            widen_tiles(p, shared, warp - 1);
    }
};

/* The layout of a variant. */
template <class Variant, bool narrow = Variant::stored::WIDENED> struct step_layout_of {
    typedef step_layout<Variant> type;
};
template <class Variant> struct step_layout_of<Variant, true> {
    typedef narrow_step_layout<Variant> type;
};

#endif
