/* The layout of a step's kernel in shared memory, and the warpgroup that loads for it: two warps of loaders and two of
 * scanners. warpgroup_step_kernel.h has the warpgroups that compute, and warpgroup_step_narrow.h the layout and the
 * warpgroup that loads where K and V are of 8 bits. */
#ifndef GLINT_DEVICE_WARPGROUP_STEP_LOAD_H
#define GLINT_DEVICE_WARPGROUP_STEP_LOAD_H

#include "lib/device/step_plan.h"
#include "lib/device/warpgroup_forward.h"

/* Which part of a tile of keys a lane copies: rows of a page that fit, and a slab of them, or the whole tile. */
struct tile_part {
    int32_t rows, row, slab, count;
};

/* What all layouts have. Variant: the numbers of an emitted kernel. Its `stored` says how K and V lie in memory: the
 * types of decode/narrow.h, or `same`. */
template <class Variant> struct step_shape {
    typedef typename Variant::element element;
    typedef typename Variant::stored stored;
    typedef typename Variant::mask mask_t;
    typedef typename Variant::score score_t;
    enum {
        HEAD_DIM = Variant::HEAD_DIM,
        TILE_N = Variant::TILE_N, /* keys of a tile */
        THREADS = 384,
        STAGES = Variant::STAGES, /* of K, and of V; of both together where they are of 8 bits */
        INTERVALS = mask_t::INTERVALS,
        UNITS = INTERVALS ? 2 : 3,  /* that the loader is ahead, and the one at hand */
        RANGES_AT = 4 * UNIT_WORDS, /* of keys, one a query: from a unit's words on */
        UNIT_BYTES = RANGES_AT + (INTERVALS ? STEP_ROWS * RANGE_BYTES : 0),
        WIDTH = Variant::WIDTH, /* bytes of a row of a slab */
        SLABS = (2 * HEAD_DIM + WIDTH - 1) / WIDTH,
        WHOLE_SLABS = 2 * HEAD_DIM % WIDTH == 0,
        BELOW = element::BELOW,   /* see follow_maxima */
        OWN = 1,                  /* named barriers of the warpgroups that compute */
        RIGHT = mask_t::RIGHT,    /* the mask hides keys after some row's last, */
        LEFT = mask_t::LEFT,      /* and before some row's first */
        EARLY = !stored::WIDENED, /* a block finds its first unit beside its plan; those of e4m3 spill with it */
        FOLDED_IN_SHARED = Variant::FOLDED_IN_SHARED, /* O of the spans before; else in the workspace */
        FOLDED_BYTES = FOLDED_IN_SHARED ? STEP_ROWS * HEAD_DIM * 4 : 2 * 16 * 256, /* a plan wants 1024 */
    };
    typedef step_order<HEAD_DIM, TILE_N, Variant::FIRST_SPAN, mask_t> order;
    typedef slab_tile<64, HEAD_DIM, WIDTH> query_tile; /* a warpgroup's own rows */
    typedef slab_tile<TILE_N, HEAD_DIM, WIDTH> key_tile;

    /* Shared memory: Q, tiles of K and V, O of the spans before, mbarriers, units. */
    enum { K_AT = 2 * query_tile::bytes };

    /* Whether some row does not see a tile whole. */
    GLINT_DEVICE bool is_cut(int32_t tile, int32_t first_cut, int32_t whole_from)
    {
        return tile >= first_cut || (LEFT && tile < whole_from);
    }

    /* The mask of a unit's rows, whose ranges have been made. */
    GLINT_DEVICE auto mask_of_rows(const struct glint_gpu_step &p, uint32_t unit)
    {
        return mask_of_tile(mask_of_unit<mask_t>(p, unit), unit_word(unit, UNIT_QUERY), unit + RANGES_AT);
    }

    /* A copy has `most` rows at most. */
    GLINT_DEVICE struct tile_part own_part(const struct glint_gpu_step &p, const int32_t most, const int32_t slabs)
    {
        const int32_t rows = p.base.pages.table ? min(most, 1 << p.base.pages.shift) : most, parts = TILE_N / rows;
        const int32_t lane = (int32_t)lane_index();

        return {rows, lane % parts * rows, lane / parts, WHOLE_SLABS && rows == TILE_N ? 1 : parts * slabs};
    }

    /* Where this lane's part of a tile of keys is. */
    GLINT_DEVICE struct key_place place_of_part(const struct glint_gpu_step &p, uint32_t unit, const struct tile_part &part,
                                                int32_t tile)
    {
        return place_of_copy(p, unit, tile * TILE_N + part.row);
    }

    /* Keys that one tile of rows reads go first; others are read again. */
    GLINT_DEVICE uint64_t hint_of(uint32_t unit)
    {
        return unit_word(unit, UNIT_ONE) ? GLINT_L2_EVICT_FIRST : GLINT_L2_EVICT_LAST;
    }
};

/* Q of a unit: as many blocks of 16 rows as there are, of the warpgroups that work on it. */
template <class tiles>
GLINT_DEVICE void load_queries(const struct glint_gpu_step &p, uint32_t shared, uint32_t unit, uint32_t (&phase)[2])
{
    const int32_t who = unit_word(unit, UNIT_WHO), blocks = unit_word(unit, UNIT_BLOCKS), head = unit_word(unit, UNIT_HEAD);
    const int32_t batch = p.base.sequences.first_q ? 0 : unit_word(unit, UNIT_BATCH);
    const int32_t row = unit_word(unit, UNIT_FIRST_Q) + unit_word(unit, UNIT_QUERY);
    const uint32_t bytes = (uint32_t)(p.block_queries * p.group * tiles::WIDTH);

#pragma unroll
    for (int32_t w = 0; w < 2; ++w) {
        if (who != 2 && who != w)
            continue;
        const int32_t first = who == 2 ? 4 * w : 0, count = max(0, min(4, blocks - first));
        const uint32_t full = shared + tiles::Q_FULL + 8 * w;

        mbarrier_wait(shared + tiles::Q_EMPTY + 8 * w, phase[w] ^ 1);
        phase[w] ^= 1;
        if (lane_index() == 0)
            mbarrier_arrive_expect(full, (uint32_t)(count * tiles::SLABS) * bytes);
        warp_sync();
        if ((int32_t)lane_index() < count * tiles::SLABS) {
            const int32_t block = (int32_t)lane_index() / tiles::SLABS, slab = (int32_t)lane_index() % tiles::SLABS;
            const int32_t at[5] = {tiles::WIDTH / 2 * slab, 0, row + (first + block) * p.block_queries, head, batch};

            tma_load(shared + w * tiles::query_tile::bytes + slab * tiles::query_tile::slab_bytes + block * 16 * tiles::WIDTH,
                     &p.map[MAP_Q], 5, at, full, GLINT_L2_EVICT_FIRST);
        }
    }
}

/* Makes the ranges of a unit's queries, and leaves the tiles of keys that some of them sees. By a
 * warp, of which each lane looks at the ranges that it has made. */
template <class tiles> GLINT_DEVICE void see_unit(const struct glint_gpu_step &p, uint32_t unit)
{
    const auto mask = mask_of_unit<typename tiles::mask_t>(p, unit);

#pragma unroll 1 /* registers */
    for (int32_t row = (int32_t)lane_index(); row < STEP_ROWS; row += 32)
        put_range(unit + tiles::RANGES_AT + (uint32_t)row * RANGE_BYTES, keys_of_query(mask, unit_word(unit, UNIT_QUERY) + row));
    narrow_unit<typename tiles::order>(p, unit, tiles::mask_of_rows(p, unit));
    warp_sync();
}

/* Announces units, and has each one's keys and queries copied: copy(unit, begin, end, head, hint, queries) begins the
 * copies of its tiles, and calls queries() behind the first one. By a warp. */
template <class tiles, class copy_t>
GLINT_DEVICE void load_units(const struct glint_gpu_step &p, uint32_t shared, const copy_t &copy)
{
    typedef typename tiles::unit_ring unit_ring;
    uint32_t *const plan = plan_of_block(p);
    const int32_t many = int_at((const int32_t *)plan, PLAN_MANY), few = int_at((const int32_t *)plan, PLAN_FEW);
    struct ring u = {0, 0};
    uint32_t phase[2] = {0, 0};
    int32_t number = (int32_t)block_index(), turn = 0;
    bool announced = tiles::EARLY && p.own_plan > 0 && plan_is_early(p); /* the first unit */
    auto advance = [&]() {
        if (p.own_plan > 0)
            number += p.blocks;
        else
            number = p.blocks + warp_sum(lane_index() == 0 ? (int32_t)atom_global_add_u32(p.plan + PLAN_COUNTER, 1) : 0);
    };

    for (;;) {
        const uint32_t unit = unit_ring::tile(shared, u);
        bool any;

        unit_ring::wait_empty(shared, u);
        for (;;) {
            any = announced ? unit_word(unit, UNIT_ANY) != 0 : put_unit<typename tiles::order>(p, plan, unit, number, many, few);
            announced = false;
            if (!any || unit_word(unit, UNIT_BEGIN) < unit_word(unit, UNIT_END) || unit_word(unit, UNIT_KIND) == UNIT_WHOLE)
                break;
            warp_sync(); /* all lanes have read the unit before the next one is in its place */
            advance();
        }
        if (any && unit_word(unit, UNIT_ONE) && unit_word(unit, UNIT_BLOCKS) <= STEP_BLOCKS / 2) {
            turn ^= 1;
            warp_sync();
            if (lane_index() == 0)
                st_shared_u32(unit + 4 * UNIT_WHO, (uint32_t)turn);
        }
        warp_sync();
        if constexpr (tiles::INTERVALS)
            if (any)
                see_unit<tiles>(p, unit);
        if (lane_index() == 0)
            mbarrier_arrive(unit_ring::full(shared, u));
        if (!any)
            return;
        const uint32_t empty = unit_ring::empty(shared, u);
        ring_advance<tiles::UNITS>(u);

        copy(unit, unit_word(unit, UNIT_BEGIN), unit_word(unit, UNIT_END), unit_word(unit, UNIT_HEAD) / p.parts,
             tiles::hint_of(unit), [&]() { load_queries<tiles>(p, shared, unit, phase); });
        if constexpr (tiles::INTERVALS)
            if (p.base.pages.table && unit_word(unit, UNIT_HEAD) == 0)
                note_bad_pages<STEP_ROWS, tiles::TILE_N, 32>(p.base, unit_word(unit, UNIT_QUERY), unit_word(unit, UNIT_BATCH),
                                                             tiles::mask_of_rows(p, unit), unit_word(unit, UNIT_BEGIN),
                                                             unit_word(unit, UNIT_END) - 1);
        warp_sync();
        if (lane_index() == 0) /* as a reader */
            mbarrier_arrive(empty);
        advance();
    }
}

/* K and V of Q's type. */
/* Registers of a thread of the warpgroup that loads. A block begins with 168 a thread, 504 for a thread of each of its
 * three warpgroups. Where more are asked for, who computes waits for ever. */
GLINT_DEVICE constexpr int loader_registers(int computing)
{
    return 504 - 2 * computing;
}

/* O of the spans before, where it is in the workspace: each thread's own numbers, four at a time. */
template <int HEAD_DIM> GLINT_DEVICE float *folded_of_block(const struct glint_gpu_step &p)
{
    return p.partial + ((int64_t)p.partial_rows + (int64_t)block_index() * STEP_ROWS) * (HEAD_DIM + 2);
}

template <class Variant> struct step_layout : step_shape<Variant> {
    typedef step_shape<Variant> shape;
    typedef typename shape::element element;
    typedef typename shape::key_tile key_tile;
    enum {
        HEAD_DIM = shape::HEAD_DIM,
        TILE_N = shape::TILE_N,
        STAGES = shape::STAGES,
        UNITS = shape::UNITS,
        WIDTH = shape::WIDTH,
        SLABS = shape::SLABS,
        WHOLE_SLABS = shape::WHOLE_SLABS,
        RIGHT = shape::RIGHT,
        LEFT = shape::LEFT,
        INTERVALS = shape::INTERVALS,
        REGISTERS = Variant::REGISTERS, /* of a thread that computes */
        LOADER_REGISTERS = loader_registers(REGISTERS),
        K_AT = shape::K_AT,
        V_AT = K_AT + STAGES * key_tile::bytes,
        FOLDED_AT = V_AT + STAGES * key_tile::bytes,
        FOLDED_IN_SHARED = shape::FOLDED_IN_SHARED,
        Q_FULL = FOLDED_AT + shape::FOLDED_BYTES,
        Q_EMPTY = Q_FULL + 16,
    };
    typedef stage_ring<STAGES, key_tile::bytes, K_AT, Q_EMPTY + 16> key_ring;
    typedef stage_ring<STAGES, key_tile::bytes, V_AT, key_ring::end> value_ring;
    enum {
        V_CUT = value_ring::end,      /* mbarriers: a tile of V that is cut has arrived, and waits for its scanners */
        SPECIAL = V_CUT + 8 * STAGES, /* what each of two scanners found in a stage: NaN or infinity */
        UNITS_AT = SPECIAL + 8 * STAGES,
    };
    typedef stage_ring<UNITS, shape::UNIT_BYTES, UNITS_AT, UNITS_AT + UNITS * shape::UNIT_BYTES> unit_ring;

    /* By one thread. */
    GLINT_DEVICE void init_rings(uint32_t shared)
    {
        key_ring::init(shared, 1, 8);
        value_ring::init(shared, 2, 8);
        unit_ring::init(shared, 1, 12); /* all warps */
        for (uint32_t i = 0; i < STAGES; ++i)
            mbarrier_init(shared + V_CUT + 8 * i, 1);
    }

    /* ---- for those who compute: where the next tile is. `first`, `last`: of the unit's --------------------------- */

    GLINT_DEVICE void begin_unit(const struct ring &, struct ring &, int32_t) {}

    GLINT_DEVICE void next_keys(struct ring &k, bool, bool)
    {
        ring_advance<STAGES>(k);
    }
    /* before_last: the next one is the unit's last one. */
    GLINT_DEVICE void next_values(struct ring &v, bool)
    {
        ring_advance<STAGES>(v);
    }
    /* The first lane keeps in mind whether the tile of V at hand, which is cut, has NaN or infinity. */
    GLINT_DEVICE void note_special(uint32_t shared, const struct ring &v, uint32_t &special)
    {
        if (lane_index() == 0)
            special |= ld_shared_u32(shared + SPECIAL + 8 * v.stage) | ld_shared_u32(shared + SPECIAL + 8 * v.stage + 4);
    }
    /* Whether one of a unit had; by a warp. */
    GLINT_DEVICE bool has_special(uint32_t special)
    {
        return warp_first(special) != 0;
    }

    /* K and V have no scales. */
    GLINT_DEVICE void pass_scales(uint32_t, uint32_t &) {}
    GLINT_DEVICE void scale_scores(uint32_t, uint32_t, float (&)[TILE_N / 2]) {}
    GLINT_DEVICE void scale_weights(uint32_t, uint32_t &, float (&)[TILE_N / 2], bool) {}

    /* ---- the warpgroup that loads ---------------------------------------------------------------------------- */

    /* A tile of keys or values, by a warp, whose first lane has said how many bytes come. */
    GLINT_DEVICE void load_keys(const struct tensor_map *map, uint32_t to, const struct tile_part &part,
                                const struct key_place &place, int32_t head, uint32_t full, uint64_t hint)
    {
        const int32_t of_slab[5] = {0, place.row, part.slab, head, place.batch};
        const int32_t of_columns[4] = {WIDTH / 2 * part.slab, place.row, head, place.batch};

        if ((int32_t)lane_index() < part.count)
            tma_load(to + part.slab * key_tile::slab_bytes + part.row * WIDTH, map, WHOLE_SLABS ? 5 : 4,
                     WHOLE_SLABS ? of_slab : of_columns, full, hint);
    }

    GLINT_DEVICE void load_keys_of_units(const struct glint_gpu_step &p, uint32_t shared)
    {
        const struct tile_part part = shape::own_part(p, TILE_N, SLABS);
        struct ring k = {0, 0};

        load_units<step_layout>(
            p, shared, [&](uint32_t unit, int32_t begin, int32_t end, int32_t head, uint64_t hint, const auto &queries) {
                struct key_place place = {0, 0};
                if (begin < end)
                    place = shape::place_of_part(p, unit, part, begin);
#pragma unroll 1
                for (int32_t tile = begin; tile < end; ++tile) {
                    const struct key_place next = tile + 1 < end ? shape::place_of_part(p, unit, part, tile + 1) : place;
                    const uint32_t full = key_ring::full(shared, k);

                    key_ring::wait_empty(shared, k);
                    if (lane_index() == 0)
                        mbarrier_arrive_expect(full, key_tile::bytes);
                    warp_sync();
                    load_keys(&p.map[MAP_K], key_ring::tile(shared, k), part, place, head, full, hint);
                    ring_advance<STAGES>(k);
                    place = next;
                    if (tile == begin)
                        queries();
                }
            });
    }

    GLINT_DEVICE void load_values(const struct glint_gpu_step &p, uint32_t shared)
    {
        const struct tile_part part = shape::own_part(p, TILE_N, SLABS);
        struct ring v = {0, 0}, u = {0, 0}, cut = {0, 0};

        for (;;) {
            const uint32_t unit = unit_ring::tile(shared, u);

            unit_ring::wait_full(shared, u);
            if (!unit_word(unit, UNIT_ANY))
                return;
            const int32_t begin = unit_word(unit, UNIT_BEGIN), end = unit_word(unit, UNIT_END);
            const int32_t head = unit_word(unit, UNIT_HEAD) / p.parts;
            const int32_t first_cut = unit_word(unit, UNIT_CUT);
            const int32_t whole_from = LEFT ? unit_word(unit, UNIT_WHOLE_FROM) : 0;
            const uint64_t hint = shape::hint_of(unit);
            struct key_place place = {0, 0};
            if (begin < end)
                place = shape::place_of_part(p, unit, part, begin);
#pragma unroll 1
            for (int32_t tile = begin; tile < end; ++tile) {
                const struct key_place next = tile + 1 < end ? shape::place_of_part(p, unit, part, tile + 1) : place;
                uint32_t full = value_ring::full(shared, v);

                value_ring::wait_empty(shared, v);
                if (shape::is_cut(tile, first_cut, whole_from)) {
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

    /* Scanner 0 or 1. A weight of zero times NaN is NaN: values beyond the keys become zeros. Under a mask NaN and
     * infinity leave a tile that some row does not see whole. Rows that do see them get them at the end: see
     * add_special_of. */
    GLINT_DEVICE void scan_values(const struct glint_gpu_step &p, uint32_t shared, uint32_t scanner)
    {
        const uint32_t thread = 32 * scanner + lane_index();
        struct ring v = {0, 0}, u = {0, 0}, cut = {0, 0};

        if (!INTERVALS && p.base.pages.table && p.base.sequences.fault)
#pragma unroll 1
            for (int32_t i = (int32_t)block_index(); i < p.base.shape.batch; i += p.blocks)
                note_pages(p, get_planned(p, plan_of_block(p), i).at.own, i, thread, 64);
        for (;;) {
            const uint32_t unit = unit_ring::tile(shared, u);

            unit_ring::wait_full(shared, u);
            if (!unit_word(unit, UNIT_ANY))
                return;
            const int32_t begin = unit_word(unit, UNIT_BEGIN), end = unit_word(unit, UNIT_END), keys = unit_word(unit, UNIT_KEYS);
            const int32_t first_cut = unit_word(unit, UNIT_CUT);
            const int32_t whole_from = LEFT ? unit_word(unit, UNIT_WHOLE_FROM) : 0;
            const int32_t from = LEFT ? begin : max(begin, min(end, first_cut));

            if (!LEFT && begin < end)
                ring_skip<STAGES>(v, (uint32_t)(from - begin));
#pragma unroll 1
            for (int32_t tile = from; tile < end; ++tile) {
                if (LEFT && !shape::is_cut(tile, first_cut, whole_from)) {
                    ring_advance<STAGES>(v);
                    continue;
                }
                const uint32_t values = value_ring::tile(shared, v);

                mbarrier_wait(shared + V_CUT + 8 * cut.stage, cut.phase);
                ring_advance<STAGES>(cut);
                if (clear_rows<key_tile>(values, keys - tile * TILE_N, thread, 64))
                    fence_async_shared();
                bool any = false;
                if (RIGHT) {
                    const bool special = sees_special<2>(values, key_tile::bytes, thread, 64, element::EXPONENT);
                    if (special) {
                        remove_special(values, key_tile::bytes, thread, 64, element::EXPONENT);
                        fence_async_shared();
                    }
                    any = warp_any(special);
                }
                warp_sync();
                if (lane_index() == 0) {
                    if (RIGHT)
                        st_shared_u32(shared + SPECIAL + 8 * v.stage + 4 * scanner, any);
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

    /* Warp `warp` of the warpgroup that loads. */
    GLINT_DEVICE void load(const struct glint_gpu_step &p, uint32_t shared, uint32_t warp)
    {
        if (warp == 0)
            load_keys_of_units(p, shared);
        else if (warp == 1)
            load_values(p, shared);
        else
            scan_values(p, shared, warp - 2);
    }
};

#endif
