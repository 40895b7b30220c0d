/* The two kernels of decode (lib/device/decode/merge.h): blocks leave slots, and the blocks of a second kernel merge
 * them. Nobody counts who comes last: a kernel may start when all blocks of the one before have admitted it or ended,
 * and waits until that one has ended. CALLS calls follow one another in one workspace; one has no items, and no row is
 * left to merge in it. In every order of events a merge finds the slots of its own call, and no call writes a slot
 * that the one before still reads.
 * FAULTS: ITEMS_EARLY MERGE_EARLY RETURN_EARLY
 *
 * griddepcontrol.wait: all blocks of the launch before have ended, and what they wrote is seen. It holds for launches
 * further back as well because no block ends before it has waited. */
#define CALLS 3
#define BLOCKS 2 /* of each kernel, and as many slots */
#define LAUNCHES 6

byte admitted[LAUNCHES], ended[LAUNCHES]; /* blocks */
byte items[CALLS];
byte slot[BLOCKS]; /* the call that wrote it, from 1 on */

inline start(launch) /* @ lib/device/ptx/device_impl.h: asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); */
{
    if
    :: launch == 0
    :: else -> admitted[launch - 1] == BLOCKS
    fi;
    admitted[launch]++
}

inline await(launch) /* @ lib/device/ptx/device_impl.h: asm volatile("griddepcontrol.wait;" ::: "memory"); */
{
    if
    :: launch == 0
    :: else -> ended[launch - 1] == BLOCKS
    fi
}

proctype decoder(byte call; byte block)
{
    atomic { start(2 * call) } /* @ gen/templates/sm80_dec.cu.lua: admit_successors(); | await_predecessors(); */
#ifdef RETURN_EARLY
    if
    :: block >= items[call] -> goto done
    :: else
    fi;
#endif
#ifndef ITEMS_EARLY
    await(2 * call);
#endif
    if
    :: block >= items[call] -> goto done /* @ gen/templates/sm80_dec.cu.lua: if (block_index() >= p.items) /* without a row one block looks at the lengths, and does nothing else */
    :: else
    fi;
    slot[block] = call + 1;
done:
    ended[2 * call]++
}

proctype merger(byte call; byte block)
{
    byte i = 0;
    atomic { start(2 * call + 1) } /* @ lib/device/decode/merge.h: admit_successors(); | await_predecessors(); */
#ifdef RETURN_EARLY
    if
    :: items[call] == 0 -> goto done
    :: else
    fi;
#endif
#ifndef MERGE_EARLY
    await(2 * call + 1);
#endif
    if
    :: items[call] == 0 -> goto done /* @ lib/device/decode/merge.h: if (tile.row0 + first_row >= own.rows) | return; */
    :: else
    fi;
    do
    :: atomic { i < BLOCKS -> assert(slot[i] == call + 1); i++ } /* @ lib/device/decode/merge.h: more[i].maximum = ld_global_f32(row_at + (mine + i - left) * row_step); */
    :: else -> break
    od;
    i = 0;
done:
    ended[2 * call + 1]++
}

init
{
    byte call, i;
    atomic {
        for (call : 0 .. CALLS - 1) {
            items[call] = (call == 1 -> 0 : BLOCKS);
            for (i : 0 .. BLOCKS - 1) {
                run decoder(call, i);
                run merger(call, i)
            }
        }
    }
}
