/* The ordered sums of dQ (lib/device/warpgroup_backward.h): BLOCKS blocks of keys add to TILES tiles of queries, each tile in the order of the keys, so
 * that the bits of the sum do not depend on who is fast. RESIDENT blocks run at a time; the device starts them in the order of their numbers. In
 * every order of events each addition finds those of all blocks before it, and nobody waits for ever.
 * FAULTS: EARLY_PASS UNORDERED REVERSE
 *
 * A bulk copy is under way until the engine has done it. */
#define BLOCKS 4
#define TILES 3
#define RESIDENT 2

byte turn[TILES]; /* blocks whose sum is in the tile */
byte added[TILES];
byte adding[BLOCKS]; /* the tile, from 1 on, that the engine adds to; 0: none */
byte ended;

inline add(b)
{
    assert(added[adding[b] - 1] == b);
    added[adding[b] - 1] = b + 1;
    adding[b] = 0
}

proctype engine() /* additions of several blocks end in any order */
{
end:do
    :: atomic { adding[0] != 0 -> add(0) }
    :: atomic { adding[1] != 0 -> add(1) }
    :: atomic { adding[2] != 0 -> add(2) }
    :: atomic { adding[3] != 0 -> add(3) }
    od
}

proctype block(byte b)
{
    byte t = 0;
#ifdef REVERSE
    ended >= (BLOCKS - 1 - b) - (RESIDENT - 1) || BLOCKS - 1 - b < RESIDENT;
#else
    ended >= b - (RESIDENT - 1) || b < RESIDENT;
#endif
    do
    :: t < TILES ->
#ifndef UNORDERED
        turn[t] >= b; /* @ lib/device/warpgroup_backward.h: while (ld_acquire_u32(turn) < keys) */
#endif
        atomic { adding[b] == 0; adding[b] = t + 1 } /* @ lib/device/warpgroup_keys.h: bulk_reduce_add_f32(sum, out, OUT_BYTES); */
#ifndef EARLY_PASS
        adding[b] == 0; /* @ lib/device/warpgroup_backward.h: bulk_wait<0>(); */
#endif
        turn[t] = b + 1; /* @ lib/device/warpgroup_backward.h: st_release_u32(turn, keys); */
        t++
    :: else -> break
    od;
    ended++
}

init
{
    byte i;
    atomic {
        run engine();
        for (i : 0 .. BLOCKS - 1) { run block(i) }
    }
}
