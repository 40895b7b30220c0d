/* The queue of tiles of a persistent kernel (lib/device/warpgroup_persistent.h, struct given): blocks take numbers
 * from one counter, and the loader of each tells its READERS of them through a ring of two slots. One block is here as
 * it is, and one of which only what it takes matters. In every order of events each reader of one block works once on
 * each tile, no number is overwritten before it is read, and nobody waits for ever.
 * FAULTS: TORN_TAKE NO_OFFSET EARLY_STORE EARLY_FULL SILENT_END
 *
 * Slots have the mbarriers of ring.pml; here a phase is all that is kept of one. */
#define BLOCKS 2
#define TILES 4
#define SLOTS 2
#define READERS 2

typedef queue {
    byte number[SLOTS];
    bit filled[SLOTS], freed[SLOTS];
    byte wanted[SLOTS];            /* readers that have not released the slot */
}
queue at;
byte counter;       /* the launch has cleared it */
byte owner[TILES];  /* the block of a tile, from 1 on */
byte worked[TILES]; /* its readers that were there */

inline ring_advance()
{
    stage++;
    if
    :: stage == SLOTS -> stage = 0; phase = 1 - phase
    :: else
    fi
}

inline store() { at.number[stage] = tile } /* @ lib/device/warpgroup_ring.h: st_shared_u32(slots::tile(shared, ring), number); | mbarrier_arrive(slots::full(shared, ring)); */
inline arrive_full() { at.filled[stage] = 1 - at.filled[stage] } /* @ lib/device/warpgroup_ring.h: slots::init(shared, 1, readers); */

inline take()
{
#ifdef TORN_TAKE
    seen = counter;
    tile = BLOCKS + seen;
    counter = seen + 1
#else
#ifdef NO_OFFSET
    atomic { tile = counter; counter++ }
#else
    atomic { tile = BLOCKS + counter; counter++ } /* @ lib/device/warpgroup_persistent.h: return Variant::DYNAMIC ? blocks + atom_global_add_u32(p.base.words, 1) : tile + blocks; */
#endif
#endif
}

proctype other()
{
    byte tile = 1, seen;
    do
    :: atomic { tile < TILES -> assert(owner[tile] == 0); owner[tile] = 2; worked[tile] = READERS }
        take()
    :: else -> break
    od
}

proctype loader()
{
    byte tile = 0, stage = 0, seen; /* @ lib/device/warpgroup_persistent.h: uint32_t tile = block_index(); */
    bit phase = 0;
    do
    ::
#ifdef SILENT_END
        if
        :: tile >= TILES -> break
        :: else
        fi;
#endif
#ifndef EARLY_STORE
        at.freed[stage] != 1 - phase; /* @ lib/device/warpgroup_ring.h: slots::wait_empty(shared, ring); | st_shared_u32(slots::tile(shared, ring), number); */
#endif
#ifdef EARLY_FULL
        arrive_full();
        store();
#else
        store();
        arrive_full();
#endif
        ring_advance(); /* @ lib/device/warpgroup_persistent.h: queue::announce(shared, t, number); | ring_advance<2>(t); | return any; */
        if
        :: tile >= TILES -> break /* @ lib/device/warpgroup_persistent.h: while (Tiles::next(work, p, shared, t, blocks, tile)) { */
        :: else
        fi;
        take()
    od
}

proctype reader()
{
    byte tile, stage = 0;
    bit phase = 0;
    do
    ::
        at.filled[stage] != phase; /* @ lib/device/warpgroup_ring.h: slots::wait_full(shared, ring); | return ld_shared_u32(slots::tile(shared, ring)); */
        tile = at.number[stage];
        atomic { /* @ lib/device/warpgroup_persistent.h: if (!warp || lane_index() == 0) | queue::release(shared, t); | ring_advance<2>(t); */
            at.wanted[stage]--; /* @ lib/device/warpgroup_ring.h: mbarrier_arrive(slots::empty(shared, ring)); */
            if
            :: at.wanted[stage] == 0 -> at.wanted[stage] = READERS; at.freed[stage] = 1 - at.freed[stage]
            :: else
            fi
        }
        ring_advance();
        atomic {
            if
            :: tile >= TILES -> break
            :: else
            fi;
            assert(owner[tile] != 2 && worked[tile] < READERS);
            owner[tile] = 1;
            worked[tile]++;
            tile = 0
        }
    od
}

init
{
    byte i;
    atomic {
        for (i : 0 .. SLOTS - 1) { at.wanted[i] = READERS } /* @ lib/device/warpgroup_persistent.h: Tiles::queue::init(shared, 4 * WARPGROUPS + (Tiles::SCANS ? 3 : 1)); */
        run loader();
        for (i : 0 .. READERS - 1) { run reader() }
        run other()
    }
    atomic {
        _nr_pr == 1;
        for (i : 0 .. TILES - 1) { assert(worked[i] == READERS) }
    }
}
