/* The queue of tiles where lengths are read (lib/device/warpgroup_lengths.h): some tiles have no queries. The counter
 * goes down from 0, so that whoever meets such a tile can move it on over all that follow for every block; the others
 * find tiles in a ring of three slots, and one of them gives a tile back only when it is done with it. One block is
 * here as it is, and one of which only what it takes matters. In every order of events, and whatever tiles are empty
 * or blind, each other tile is worked on once by each reader of one block, a slot is whole until it is given back, and
 * nobody waits for ever.
 * FAULTS: MOVE_BACK NO_GUARD TOO_FAR HELD EARLY_STORE
 *
 * Slots have the mbarriers of ring.pml; here a phase is all that is kept of one. Relied on, as numbers are the
 * simulator's: tile_after_empty passes over none but empty tiles. */
#define BLOCKS 2
#define TILES 4
#define SLOTS 3
#define READERS 2
#define NONE 99

typedef queue {
    byte number[SLOTS];
    bit filled[SLOTS], freed[SLOTS];
    byte wanted[SLOTS];
}
queue at;
byte counter;       /* modulo 256 in place of 2^32; the launch has cleared it */
bit is_empty[TILES + 1];
bit is_blind[TILES]; /* has queries, and none sees a key */
byte owner[TILES];
byte worked[TILES];

inline ring_advance()
{
    stage++;
    if
    :: stage == SLOTS -> stage = 0; phase = 1 - phase
    :: else
    fi
}

inline give_back(slot) /* @ lib/device/warpgroup_lengths.h: mbarrier_arrive(slots::empty(shared, ring)); */
{
    at.wanted[slot]--;
    if
    :: at.wanted[slot] == 0 -> at.wanted[slot] = READERS; at.freed[slot] = 1 - at.freed[slot]
    :: else
    fi
}

inline count()
{
    assert(owner[tile] != 2 && worked[tile] < READERS && !is_empty[tile]);
    owner[tile] = 1;
    worked[tile]++
}

inline take() /* @ lib/device/warpgroup_persistent.h: return blocks - atom_global_add_u32(p.base.words, 0xffffffffu); */
{
    atomic { tile = (BLOCKS - counter) & 255; counter = (counter + 255) & 255 } /* @ lib/device/warpgroup_lengths.h: tile = blocks - atom_global_add_u32(p.base.words, 0xffffffffu); */
}

inline pass_empty()
{
    do
    :: atomic { tile < TILES && is_empty[tile] -> after = tile + 1 }; /* @ lib/device/warpgroup_lengths.h: while (place_tile<TILE_M>(work, shape, tile)) { */
        do
        :: atomic { after < TILES && is_empty[after] -> after++ }
        :: break /* or no further */
        od;
#ifdef TOO_FAR
        after++;
#endif
        atomic {
            if
#ifdef NO_GUARD
            :: true ->
#else
            :: after > BLOCKS -> /* @ lib/device/warpgroup_lengths.h: if (after > blocks) | atomicMin(p.base.words, blocks - after); | tile = blocks - atom_global_add_u32(p.base.words, 0xffffffffu); */
#endif
#ifdef MOVE_BACK
                counter = (BLOCKS - after) & 255
#else
                counter = (((BLOCKS - after) & 255) < counter -> (BLOCKS - after) & 255 : counter)
#endif
            :: else
            fi;
            after = 0
        }
        take()
    :: else -> break /* @ lib/device/warpgroup_lengths.h: if (work.query0 < own.seqlen_q) | return true; */
    od
}

proctype other()
{
    byte tile = 1, after;
    do
    ::
        pass_empty();
        atomic {
            if
            :: tile >= TILES -> break
            :: else -> assert(owner[tile] == 0); owner[tile] = 2; worked[tile] = READERS
            fi
        }
        take()
    od
}

proctype loader()
{
    byte tile = 0, stage = 0, after;
    bit phase = 0;
    do
    ::
        pass_empty();
#ifndef EARLY_STORE
        at.freed[stage] != 1 - phase; /* @ lib/device/warpgroup_lengths.h: slots::wait_empty(shared, ring); | put_mask(slots::tile(shared, ring), mask); | put_place(shared, ring, work.query0, work.batch, work.head_q, true); */
#endif
        at.number[stage] = (tile < TILES -> tile : NONE); /* @ lib/device/warpgroup_lengths.h: slots::wait_empty(shared, ring); | put_place(shared, ring, 0, 0, 0, false); */
        at.filled[stage] = 1 - at.filled[stage]; /* @ lib/device/warpgroup_lengths.h: st_shared_u32x4(slots::tile(shared, ring) + 16, place); | if (SLOT == 32) | tell(shared, ring); */
        ring_advance(); /* @ lib/device/warpgroup_persistent.h: queue::announce(shared, t, work, mask); | ring_advance<queue::stages>(t); */
        if
        :: tile >= TILES -> break /* @ lib/device/warpgroup_persistent.h: queue::announce_end(shared, t); | return false; */
        :: else -> take()
        fi
    od
}

/* The one who loads values gives the tile back when it has read where it is. */
proctype passer()
{
    byte tile, stage = 0;
    bit phase = 0;
    do
    ::
        atomic {
            at.filled[stage] != phase; /* @ lib/device/warpgroup_lengths.h: slots::wait_full(shared, ring); | return get(shared, ring, work); */
            tile = at.number[stage];
            if
            :: tile == NONE -> break
            :: else -> count(); tile = 0
            fi
        };
        atomic { give_back(stage); ring_advance() }
    od
}

/* Those who compute read its mask until its end. Blind tiles are the scanners'. */
proctype keeper()
{
    byte tile, stage = 0, held = NONE;
    bit phase = 0;
    do
    ::
        atomic {
            at.filled[stage] != phase;
            tile = at.number[stage];
            if
            :: tile == NONE -> break
            :: else -> count()
            fi
        };
        atomic {
            assert(at.number[stage] == tile);
            if
            :: is_blind[tile] -> give_back(stage) /* @ lib/device/warpgroup_persistent.h: while (BLIND && any && work.last < 0) { | Tiles::give_back(shared, t); | any = Tiles::template wait<true, true>(work, p, shared, t); */
            :: else ->
#ifdef HELD
                if
                :: held != NONE -> give_back(held)
                :: else
                fi;
                held = stage
#else
                give_back(stage) /* @ lib/device/warpgroup_persistent.h: Tiles::keep(shared, t); | Tiles::give_back(shared, t); */
#endif
            fi;
            tile = 0;
            ring_advance()
        }
    od
}

init
{
    byte i;
    atomic {
        for (i : 0 .. TILES - 1) {
            if
            :: is_empty[i] = 1
            :: is_blind[i] = 1
            :: skip
            fi
        }
        for (i : 0 .. SLOTS - 1) { at.wanted[i] = READERS }
        run loader();
        run passer();
        run keeper();
        run other()
    }
    atomic {
        _nr_pr == 1;
        for (i : 0 .. TILES - 1) { assert(is_empty[i] || worked[i] == READERS) }
    }
}
