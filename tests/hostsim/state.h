/* What the parts of the engine share with each other and with nobody else. */
#ifndef GLINT_HOSTSIM_STATE_H
#define GLINT_HOSTSIM_STATE_H

#include "tests/hostsim/findings.h"

namespace sim
{

/* The grid that is running. */
struct Grid {
    Launch launch;
    uint32_t next_block, ended_blocks, resident_limit;
    std::vector<Block *> resident;
    std::vector<Warp *> ready; /* warps with a thread that can run */
    uint64_t step;             /* switches so far: the engine's clock */
    uint32_t stay;             /* lanes that still run before another warp is drawn */
    uint64_t idle_polls;       /* since something happened that a poll could see */
    uint64_t number;           /* of the launch in this process, from 1 */
    bool failed;
};
extern Grid grid;

/* The name of a thread in a finding: "block 3 warp 1 lane 7". It owns nothing: a report leaves the stacks of the launch
 * as they are, and what a frame there owns is lost. */
struct Who {
    char text[64];
    const char *c_str() const
    {
        return text;
    }
};
Who who(uint32_t block, uint32_t thread);
Who who(const Thread *thread);

/* What a thread waits for, where, and its number; null: it can run. */
struct Wait {
    const char *what;
    Site at;
    uint32_t id;
};
Wait wait_of(const Thread &thread);

/* shared.cc */
struct Shared *shared_new(uint32_t bytes, uint32_t warps);
void shared_delete(struct Shared *shared);
void shared_fetch(const Warp *warp,
                  uint32_t address); /* 16 bytes there are read soon, by the warp: into the caches with what is kept of them */
/* global.cc */
/* clocks.cc */
Known *known_new(uint32_t threads);
void clocks_launch_ends();
inline bool knows(const Thread *thread, uint32_t block, uint32_t index, uint32_t clock)
{
    if (block == thread->block->index)
        return index == thread->index || clock <= thread->known->clock[index];
    const Far *far = thread->known->far;
    return far != nullptr && clock <= far->clock[(size_t)block * grid.launch.threads + index];
}
uint32_t least_of(Known *known);
/* Events up to this clock, of whatever thread of the block, happened before. */
inline uint32_t least_known(const Thread *thread)
{
    return thread->known->least != UINT32_MAX ? thread->known->least : least_of(thread->known);
}
/* barriers.cc */
void barriers_begin(Block *block);
void barriers_end(Block *block);
void barriers_thread_ended(Block *block);
std::string barrier_states();
/* costs.cc */
void costs_block_ends(Block *block);
/* copies.cc: nothing of a thread that has ended is under way any more */
void copies_end(Thread *thread);

/* hopper_async.cc: something that is under way goes on; true: it did. `must`: nobody can run otherwise. */
bool async_step(bool must);
void async_thread_ends(Thread *thread);
void async_block_ends(Block *block); /* its last thread has ended */
void async_block_gone(Block *block);
void async_launch_ends();
/* The clock of the first fence.proxy.async of a thread at or after one of its clocks; 0: there is none. */
uint32_t async_fence_after(Block *block, uint32_t thread, uint32_t clock);
/* Keeps a fence.proxy.async.global of a thread; finds a thread's first one, in any block of the launch. */
void async_fence_global(uint32_t block, uint32_t thread, uint32_t clock);
uint32_t async_global_fence_after(uint32_t block, uint32_t thread, uint32_t clock);
/* hopper_cluster.cc */
void clusters_launch_ends();
/* hopper_mbarrier.cc */
std::string mbarrier_states(const Block *block);

[[noreturn]] void abandon_launch();

} // namespace sim

#endif
