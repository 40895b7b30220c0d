/* What a block of a server's step does with its units (lib/device/warpgroup_step_load.h and warpgroup_step_kernel.h):
 * one warp loads K and Q and says which unit is next, one loads V, two (here one, which arrives for both) scan the tiles of V that a mask cuts,
 * and two warpgroups compute. A unit is of both warpgroups or of one, and then its tiles pass by the other one. In
 * every order of events each finds the tile, the rows and the unit that it is at, nothing is written where somebody
 * still reads, and nobody waits for ever.
 * FAULTS: Q_EARLY PASS_BLIND ONE_SCANNER UNIT_UNHELD
 *
 * An mbarrier's phase is what ring.pml says; copies arrive at once, as ring.pml has them late. A warpgroup is one
 * reader here, and four there. */
#define UNITS 3 /* that there are; the ring has two slots here, and three there */
#define SLOTS 2
#define STAGES 2
#define BOTH 2

typedef barrier { bit phase; byte wanted, count }
barrier unit_filled[SLOTS], unit_free[SLOTS], k_filled[STAGES], k_free[STAGES], v_filled[STAGES], v_free[STAGES], v_cut[STAGES];
barrier q_filled[2], q_free[2];
byte unit[SLOTS];            /* its number, from 1 on; 0: there are no more */
byte who[UNITS + 1], tiles[UNITS + 1];
bit cut[UNITS + 1];          /* its last tile */
byte k[STAGES], v[STAGES];   /* the step of all steps that it is of, from 1 on */
byte q[2];                   /* the unit whose rows they are */

inline arrive(b) { b.wanted--; if :: b.wanted == 0 -> b.wanted = b.count; b.phase = 1 - b.phase :: else fi }
inline set(b, n) { b.count = n; b.wanted = n }
inline advance(stage, phase, stages)
{
    stage++;
    if
    :: stage == stages -> stage = 0; phase = 1 - phase /* @ lib/device/warpgroup_ring.h: if (stages == 1 || ++ring.stage == stages) { | ring.stage = 0; | ring.phase ^= 1; */
    :: else
    fi
}

proctype load_units()
{
    byte number = 1, ks, us, i, w, step;
    bit kp, up, qp0, qp1;
    do
    ::
        atomic {
            unit_free[us].phase != 1 - up; /* @ lib/device/warpgroup_step_load.h: unit_ring::wait_empty(shared, u); */
            unit[us] = (number <= UNITS -> number : 0);
            arrive(unit_filled[us]); /* @ lib/device/warpgroup_step_load.h: mbarrier_arrive(unit_ring::full(shared, u)); */
            if
            :: number > UNITS -> break
            :: else -> i = tiles[number]
            fi
        };
        do
        ::
            atomic {
                i > 0;
                k_free[ks].phase != 1 - kp; /* @ lib/device/warpgroup_step_load.h: key_ring::wait_empty(shared, k); | if (lane_index() == 0) | mbarrier_arrive_expect(full, key_tile::bytes); */
                step++;
                k[ks] = step;
                arrive(k_filled[ks]);
                advance(ks, kp, STAGES);
                w = (i == tiles[number] -> 0 : 2); /* @ lib/device/warpgroup_step_load.h: if (tile == begin) | queries(); */
                i--
            };
            do
            :: atomic { w < 2 && who[number] != BOTH && who[number] != w -> w++ } /* @ lib/device/warpgroup_step_load.h: if (who != 2 && who != w) | continue; */
            :: atomic {
                w < 2 && (who[number] == BOTH || who[number] == w);
#ifndef Q_EARLY
                q_free[w].phase != 1 - (w == 0 -> qp0 : qp1); /* @ lib/device/warpgroup_step_load.h: mbarrier_wait(shared + tiles::Q_EMPTY + 8 * w, phase[w] ^ 1); | phase[w] ^= 1; */
#endif
                if
                :: w == 0 -> qp0 = 1 - qp0
                :: else -> qp1 = 1 - qp1
                fi;
                q[w] = number;
                arrive(q_filled[w]); /* @ lib/device/warpgroup_step_load.h: mbarrier_arrive_expect(full, (uint32_t)(count * tiles::SLABS) * bytes); */
                w++ }
            :: w == 2 -> break
            od
        :: i == 0 -> break
        od;
        atomic {
            arrive(unit_free[us]); /* @ lib/device/warpgroup_step_load.h: if (lane_index() == 0) /* as a reader */
            advance(us, up, SLOTS);
            number++;
            w = 0
        }
    od
}

/* Where a unit is read: the words stay until this reader has released them. */
inline take_unit() /* @ lib/device/warpgroup_step_load.h: unit_ring::wait_full(shared, u); | if (!unit_word(unit, UNIT_ANY)) | return; */
{
    unit_filled[us].phase != up;
    number = unit[us];
    if
    :: number == 0 -> break
    :: else -> i = tiles[number]
    fi
}
inline release_unit() /* @ lib/device/warpgroup_step_load.h: mbarrier_arrive(unit_ring::empty(shared, u)); | ring_advance<UNITS>(u); */
{
    assert(unit[us] == number);
    arrive(unit_free[us]);
    advance(us, up, SLOTS);
    number = 0
}

proctype load_values()
{
    byte number, vs, us, i, cs, step;
    bit vp, up, cp;
    do
    ::
        atomic {
            take_unit()
        };
        do
        :: atomic {
            i > 0;
            v_free[vs].phase != 1 - vp; /* @ lib/device/warpgroup_step_load.h: value_ring::wait_empty(shared, v); */
            assert(unit[us] == number);
            step++;
            v[vs] = step;
            i--;
            if
            :: cut[number] && i == 0 -> /* @ lib/device/warpgroup_step_load.h: full = shared + V_CUT + 8 * cut.stage; | ring_advance<STAGES>(cut); */
                arrive(v_cut[cs]);
                advance(cs, cp, STAGES)
            :: else ->
                arrive(v_filled[vs]); /* @ lib/device/warpgroup_step_load.h: mbarrier_arrive(full); /* for the second scanner, and below for the first */
                arrive(v_filled[vs])  /* @ lib/device/warpgroup_step_load.h: mbarrier_arrive_expect(full, key_tile::bytes); | warp_sync(); | load_keys(&p.map[MAP_V], value_ring::tile(shared, v), part, place, head, full, hint); */
            fi;
            advance(vs, vp, STAGES) }
        :: i == 0 -> break
        od;
        atomic { release_unit() }
    od
}

proctype scan()
{
    byte number, vs, us, i, cs, step;
    bit vp, up, cp;
    do
    ::
        atomic {
            take_unit();
            do
            :: i > cut[number] -> advance(vs, vp, STAGES); step++; i-- /* @ lib/device/warpgroup_step_load.h: ring_skip<STAGES>(v, (uint32_t)(from - begin)); */
            :: else -> break
            od
        };
        do
        :: atomic {
            i > 0;
            v_cut[cs].phase != cp; /* @ lib/device/warpgroup_step_load.h: mbarrier_wait(shared + V_CUT + 8 * cut.stage, cut.phase); | ring_advance<STAGES>(cut); */
            advance(cs, cp, STAGES);
            step++;
            assert(v[vs] == step);
#ifndef ONE_SCANNER
            arrive(v_filled[vs]);
#endif
            arrive(v_filled[vs]); /* @ lib/device/warpgroup_step_load.h: mbarrier_arrive(value_ring::full(shared, v)); */
            advance(vs, vp, STAGES);
            i-- }
        :: i == 0 -> break
        od;
        atomic { release_unit() }
    od
}

inline wait_keys()
{
    k_filled[ks].phase != kp; /* @ lib/device/warpgroup_step_kernel.h: key_ring::wait_full(shared, k); */
    kstep++;
    assert(k[ks] == kstep)
}
inline release_keys() /* @ lib/device/warpgroup_step_kernel.h: release(key_ring::empty(shared, k)); | tiles::next_keys(k, first, last); */
{
    assert(k[ks] == kstep);
    arrive(k_free[ks]);
    advance(ks, kp, STAGES)
}
inline wait_values()
{
    v_filled[vs].phase != vp; /* @ lib/device/warpgroup_step_kernel.h: value_ring::wait_full(shared, v); */
    vstep++;
    assert(v[vs] == vstep)
}
inline release_values() /* @ lib/device/warpgroup_step_kernel.h: release(value_ring::empty(shared, v)); | tiles::next_values(v, tile + 2 == end); */
{
    assert(v[vs] == vstep);
    arrive(v_free[vs]);
    advance(vs, vp, STAGES)
}

proctype attend(byte w)
{
    byte number, ks, vs, us, i, kstep, vstep;
    bit kp, vp, up, qp, mine;
    do
    ::
        atomic { /* @ lib/device/warpgroup_step_kernel.h: unit_ring::wait_full(shared, u); | if (!word(UNIT_ANY)) | return; */
            take_unit();
#ifdef UNIT_UNHELD
            arrive(unit_free[us]);
#endif
            mine = (who[number] == BOTH || who[number] == w) /* @ lib/device/warpgroup_step_kernel.h: if (who != 2 && who != (int32_t)w) { */
        };
        do
        :: i > 0 && !mine -> /* @ lib/device/warpgroup_step_kernel.h: key_ring::wait_full(shared, k); | warp_sync(); | release_keys(tile == begin, tile == end - 1); | tiles::pass_scales(shared, scales); | value_ring::wait_full(shared, v); | warp_sync(); | release(value_ring::empty(shared, v)); | tiles::next_values(v, tile + 2 == end); */
#ifdef PASS_BLIND
            atomic { kstep++; arrive(k_free[ks]); advance(ks, kp, STAGES) };
#else
            atomic { wait_keys(); release_keys() };
#endif
            atomic { wait_values(); release_values(); i-- }
        :: i > 0 && mine ->
            atomic {
                q_filled[w].phase != qp; /* @ lib/device/warpgroup_step_kernel.h: mbarrier_wait(shared + Q_FULL + 8 * w, q_phase); | q_phase ^= 1; */
                qp = 1 - qp
            };
            atomic { wait_keys(); assert(q[w] == number) };
            atomic { release_keys() }; /* @ lib/device/warpgroup_step_kernel.h: release_keys(true, begin == end - 1); | soften(begin); */
            do
            :: i > 1 ->
                atomic { wait_keys() };   /* @ lib/device/warpgroup_step_kernel.h: key_ring::wait_full(shared, k); | hold_all(); | begin_scores(); | if (pending) */
                atomic { wait_values() }; /* @ lib/device/warpgroup_step_kernel.h: value_ring::wait_full(shared, v); | wgmma_hold(o, HEAD_DIM / 2); | begin_values(); */
                atomic { assert(q[w] == number); release_keys() }; /* @ lib/device/warpgroup_step_kernel.h: release_keys(false, tile == end - 2); | if (tile + 1 == next) { */
                atomic { release_values(); i-- } /* @ lib/device/warpgroup_step_kernel.h: have_values(tile); */
            :: else -> break
            od;
            atomic { arrive(q_free[w]) }; /* @ lib/device/warpgroup_step_kernel.h: release(shared + Q_EMPTY + 8 * w); | if (pending) */
            atomic { wait_values() };
            atomic { release_values(); i-- } /* @ lib/device/warpgroup_step_kernel.h: have_values(end - 1); */
        :: i == 0 -> break
        od;
#ifdef UNIT_UNHELD
        atomic { assert(unit[us] == number); advance(us, up, SLOTS); number = 0; mine = 0 }
#else
        atomic { release_unit(); mine = 0 } /* @ lib/device/warpgroup_step_kernel.h: release(unit_ring::empty(shared, u)); | ring_advance<UNITS>(u); */
#endif
    od
}

init
{
    byte i;
    atomic {
        if /* some orders: of units of one warpgroup, which take turns, and of both */
        :: who[1] = 0; who[2] = 1; who[3] = BOTH
        :: who[1] = BOTH; who[2] = 1; who[3] = 0
        fi;
        if /* and of short ones, cut ones and one without keys */
        :: tiles[1] = 2; tiles[2] = 1; tiles[3] = 2; cut[1] = 1; cut[3] = 1
        :: tiles[1] = 1; tiles[2] = 0; tiles[3] = 2; cut[1] = 1
        :: tiles[1] = 2; tiles[2] = 2; tiles[3] = 1; cut[2] = 1
        fi;
        for (i : 0 .. 1) {
            set(unit_filled[i], 1); set(unit_free[i], 5); /* @ lib/device/warpgroup_step_load.h: unit_ring::init(shared, 1, 12); /* all warps */
            set(k_filled[i], 1); set(k_free[i], 2);       /* @ lib/device/warpgroup_step_load.h: key_ring::init(shared, 1, 8); */
            set(v_filled[i], 2); set(v_free[i], 2);       /* @ lib/device/warpgroup_step_load.h: value_ring::init(shared, 2, 8); */
            set(v_cut[i], 1);                             /* @ lib/device/warpgroup_step_load.h: mbarrier_init(shared + V_CUT + 8 * i, 1); */
            set(q_filled[i], 1); set(q_free[i], 1)        /* @ lib/device/warpgroup_step_kernel.h: mbarrier_init(shared + Q_FULL + 8 * w, 1); | mbarrier_init(shared + Q_EMPTY + 8 * w, 4); */
        }
        run load_units();
        run load_values();
        run scan();
        run attend(0);
        run attend(1)
    }
}
