/* The three kernels of a server's step (lib/device/step_plan.h): one block plans, blocks take units from a
 * counter and leave slots, and blocks merge the slots. Each kernel may start when all blocks of the one before have
 * admitted it, and waits until that one has ended. A call of few sequences has no first kernel: each block plans for
 * itself, and takes units in turn. (The planner is there all the same, as one that does nothing and waits: so the
 * second kernel waits for what is before the call.) CALLS calls follow one another in one workspace, with other numbers
 * of units. In every order of events a unit is worked on once, a merge finds the slots of its own call, and no call
 * changes a plan or a slot that the one before still reads.
 * FAULTS: PLAN_EARLY UNITS_EARLY MERGE_EARLY NO_CLEAR TORN_TAKE NO_OFFSET SHORT_MERGE OWN_EARLY OWN_STRIDE
 *
 * griddepcontrol.wait: all blocks of the launches before have ended, and what they wrote is seen. It follows for those
 * further back, as no block ends before it has waited. */
#define CALLS 2
#define BLOCKS 2
#define MERGERS 2
#define MOST 3 /* units */
#define LAUNCHES 6

byte admitted[LAUNCHES], ended[LAUNCHES]; /* blocks */

/* The workspace. What is written is the number of the call that wrote it, from 1 on. */
byte records;
byte counter = 77; /* what a call finds there is any number */
byte units;
byte own_records[BLOCKS], own_units[BLOCKS];
bool own[CALLS];      /* blocks plan for themselves */
byte lengths[CALLS];  /* the number of units that follows from them */
byte slot[MOST], merged[MOST];

inline start(launch, before)
{
    if
    :: launch == 0
    :: else -> admitted[launch - 1] == before
    fi;
    admitted[launch]++ /* @ lib/device/ptx/device_impl.h: asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); */
}

inline await(launch, before) /* @ lib/device/ptx/device_impl.h: asm volatile("griddepcontrol.wait;" ::: "memory"); */
{
    if
    :: launch == 0
    :: else -> ended[launch - 1] == before
    fi
}

proctype planner(byte call)
{
    start(3 * call, MERGERS); /* @ lib/device/warpgroup_step_kernel.h: admit_successors(); | make_plan<order, PLAN_THREADS>(p, p.plan, shared_base()); */
#ifndef PLAN_EARLY
    await(3 * call, MERGERS); /* @ lib/device/step_plan.h: if (!early) | await_predecessors(); */
#endif
    if
    :: own[call] -> goto done
    :: else
    fi;
    records = call + 1; /* @ lib/device/step_plan.h: put_planned(p, plan, sequence, {at, chunks, second, units_before, before[3], before[2]}); */
    atomic { /* @ lib/device/step_plan.h: st_global_u32x4(plan, head); */
#ifndef NO_CLEAR
        counter = 0; /* @ lib/device/step_plan.h: const uint32_t head[4] = {0, (uint32_t)total[0], (uint32_t)total[1], (uint32_t)total[3]}; */
#endif
        units = lengths[call]
    }
done:
    ended[3 * call]++
}

inline plan_alone(call, block)
{
    if
    :: own[call] -> /* @ lib/device/warpgroup_step_kernel.h: if (plans) { | make_plan<order, 32>(p, plan_of_block(p), shared + tiles::FOLDED_AT, | tiles::EARLY ? unit_ring::tile(shared, {0, 0}) : 0); */
        own_records[block] = call + 1;
        own_units[block] = lengths[call]
    :: else
    fi
}

proctype worker(byte call; byte block)
{
    byte number = block, all, seen; /* @ lib/device/warpgroup_step_load.h: int32_t number = (int32_t)block_index(), turn = 0; */
    start(3 * call + 1, 1); /* @ lib/device/warpgroup_step_kernel.h: admit_successors(); | const bool plans = p.own_plan > 0 && warp == 0; | if (!plans) | await_predecessors(); */
#ifdef OWN_EARLY
    plan_alone(call, block);
#endif
#ifndef UNITS_EARLY
    await(3 * call + 1, 1);
#endif
#ifndef OWN_EARLY
    plan_alone(call, block); /* @ lib/device/step_plan.h: await_predecessors(); | if (sequence < shape.batch) { */
#endif
    atomic { /* @ lib/device/warpgroup_step_load.h: const int32_t many = int_at((const int32_t *)plan, PLAN_MANY), few = int_at((const int32_t *)plan, PLAN_FEW); */
        if
        :: own[call] -> all = own_units[block] /* @ lib/device/step_plan.h: const uint32_t own = block_index() * (uint32_t)p.own_plan; */
        :: else -> all = units
        fi
    }
    do
    :: number < all -> /* @ lib/device/step_plan.h: if (number >= many + few) { */
        atomic { assert(slot[number] != call + 1); assert((own[call] -> own_records[block] : records) == call + 1); slot[number] = call + 1 } /* @ lib/device/warpgroup_step_kernel.h: put_slot(slot_of(word(UNIT_SECOND) - 1)); */
        if
        :: own[call] ->
#ifdef OWN_STRIDE
            number = number + 1;
#else
            number = number + BLOCKS; /* @ lib/device/warpgroup_step_load.h: number += p.blocks; */
#endif
            goto taken
        :: else
        fi;
#ifdef TORN_TAKE
        seen = counter;
        atomic { counter = seen + 1; number = BLOCKS + seen; seen = 0 }
#else
#ifdef NO_OFFSET
        atomic { number = counter; counter++ }
#else
        atomic { number = BLOCKS + counter; counter++ } /* @ lib/device/warpgroup_step_load.h: number = p.blocks + warp_sum(lane_index() == 0 ? (int32_t)atom_global_add_u32(p.plan + PLAN_COUNTER, 1) : 0); */
#endif
#endif
taken:
        skip
    :: else -> break
    od;
    number = 0;
    ended[3 * call + 1]++
}

proctype merger(byte call; byte block)
{
    byte number = block, all;
    start(3 * call + 2, BLOCKS); /* @ lib/device/warpgroup_step_kernel.h: admit_successors(); | await_predecessors(); | merge_slots<element, bias_t, order, BELOW>(p); */
#ifndef MERGE_EARLY
    await(3 * call + 2, BLOCKS);
#endif
    all = (own[call] -> own_units[0] : units); /* @ lib/device/step_plan.h: const int32_t merges = int_at((const int32_t *)p.plan, PLAN_MERGES); */
#ifdef SHORT_MERGE
    number = number + MERGERS;
#endif
    do
    :: number < all -> /* @ lib/device/step_plan.h: for (int32_t number = (int32_t)block_index(); number < merges; number += 4 * p.blocks) { */
        atomic {
            assert((own[call] -> own_records[0] : records) == call + 1);
            assert(slot[number] == call + 1 && merged[number] != call + 1)
        }
        atomic { assert(slot[number] == call + 1); merged[number] = call + 1; number = number + MERGERS }
    :: else -> break
    od;
    number = 0;
    atomic {
        ended[3 * call + 2]++;
        if
        :: ended[3 * call + 2] == MERGERS ->
            for (number : 0 .. all - 1) { assert(merged[number] == call + 1) }
            number = 0
        :: else
        fi
    }
}

init
{
    byte call, i;
    atomic {
        for (call : 0 .. CALLS - 1) {
            if
            :: lengths[call] = MOST - call
            :: lengths[call] = 1
            fi;
            if
            :: own[call] = true
            :: own[call] = false
            fi;
            run planner(call);
            for (i : 0 .. BLOCKS - 1) { run worker(call, i) }
            for (i : 0 .. MERGERS - 1) { run merger(call, i) }
        }
    }
}
