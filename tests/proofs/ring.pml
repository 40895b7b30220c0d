/* A ring of stages (lib/device/warpgroup_ring.h): one loader, whose copies arrive in any order, and READERS that read each tile. In every order of
 * events a reader finds the tile of its step, no copy writes where somebody still reads, and nobody waits for ever.
 * FAULTS: EARLY_RELEASE WRONG_PARITY ONE_ARRIVAL NO_EXPECT
 *
 * An mbarrier has a phase, the arrivals that it still wants and the bytes that are still to come; when there are neither, its phase ends. A wait for a
 * parity passes when the phase of that parity has ended: PTX ISA, "mbarrier.try_wait". */
#define STAGES 2
#define STEPS 5
#define READERS 2

typedef mbarrier {
    bit phase;
    byte wanted, count, bytes
}
mbarrier filled[STAGES], free[STAGES];
byte tile[STAGES], reading[STAGES];
byte copying[STAGES]; /* the step whose tile is on its way; 0: none */

inline end_phase(b)
{
    if
    :: b.wanted == 0 && b.bytes == 0 -> b.phase = 1 - b.phase; b.wanted = b.count
    :: else
    fi
}

inline arrive(b) { atomic { b.wanted--; end_phase(b) } }

inline ring_advance() /* @ lib/device/warpgroup_ring.h: if (stages == 1 || ++ring.stage == stages) { */
{
    stage++;
    if
    :: stage == STAGES -> stage = 0; phase = 1 - phase /* @ lib/device/warpgroup_ring.h: ring.phase ^= 1; */
    :: else
    fi
}

proctype loader()
{
    byte stage = 0, step = 1;
    bit phase = 0;
    do
    :: step <= STEPS ->
#ifdef WRONG_PARITY
        free[stage].phase != phase;
#else
        free[stage].phase != 1 - phase; /* @ lib/device/warpgroup_ring.h: mbarrier_wait(empty(shared, ring), ring.phase ^ 1); */
#endif
#ifdef NO_EXPECT
        arrive(filled[stage]);
#else
        atomic { filled[stage].bytes = filled[stage].bytes + 1; arrive(filled[stage]) } /* @ lib/device/warpgroup_ring.h: mbarrier_arrive_expect(full(shared, ring), filled); */
#endif
        assert(copying[stage] == 0);
        copying[stage] = step;
        ring_advance();
        step++
    :: else -> break
    od
}

inline deliver(s)
{
    assert(reading[s] == 0);
    tile[s] = copying[s];
    copying[s] = 0;
#ifndef NO_EXPECT
    filled[s].bytes--;
    end_phase(filled[s])
#endif
}

proctype engine() /* copies end in any order */
{
end:do
    :: atomic { copying[0] != 0 -> deliver(0) }
    :: atomic { copying[1] != 0 -> deliver(1) }
    od
}

proctype reader(byte number)
{
    byte stage = 0, step = 1;
    bit phase = 0;
    do
    :: step <= STEPS ->
        filled[stage].phase != phase; /* @ lib/device/warpgroup_ring.h: mbarrier_wait(full(shared, ring), ring.phase); */
#ifdef EARLY_RELEASE
        arrive(free[stage]);
#endif
        atomic { reading[stage]++; assert(tile[stage] == step) }
        atomic { assert(tile[stage] == step); reading[stage]-- }
#ifdef ONE_ARRIVAL
        if
        :: number == 0 -> arrive(free[stage])
        :: else
        fi;
#else
#ifndef EARLY_RELEASE
        arrive(free[stage]); /* @ lib/device/warpgroup_ring.h: mbarrier_arrive(slots::empty(shared, ring)); */
#endif
#endif
        ring_advance();
        step++
    :: else -> break
    od
}

init
{
    byte i;
    atomic {
        for (i : 0 .. STAGES - 1) {
            filled[i].wanted = 1; filled[i].count = 1;               /* @ lib/device/warpgroup_ring.h: mbarrier_init(shared + full_at + 8 * i, fills); */
            free[i].wanted = READERS; free[i].count = READERS; /* @ lib/device/warpgroup_ring.h: mbarrier_init(shared + empty_at + 8 * i, readers); */
        }
        run loader();
        run engine();
        for (i : 0 .. READERS - 1) { run reader(i) }
    }
}
