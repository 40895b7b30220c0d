/* What a block, its warps and its threads have of all that hopper.h tells of. */
#ifndef GLINT_HOSTSIM_HOPPER_STATE_H
#define GLINT_HOSTSIM_HOPPER_STATE_H

#include <deque>
#include <map>
#include <vector>

#include "tests/hostsim/hopper.h"

namespace sim
{

struct Operation; /* hopper_wgmma.cc */
struct Accumulator;

struct Touched {
    const char *first, *end; /* of a thread */
};

struct WarpState {
    bool fenced;                      /* a wgmma.fence since the start and the last wait */
    std::vector<Touched> touched[32]; /* by each lane since then, of those that products use */
    std::vector<Operation *> open;
    std::deque<std::vector<Operation *>> groups; /* oldest first */
    std::map<float *, Accumulator *> accumulators;
    uint32_t registers; /* of a thread */
    uint32_t elected;   /* lane + 1; 0: not yet drawn */
};

struct ThreadState {
    bool cluster_arrived;
    uint32_t cluster_generation;  /* of the barrier it arrived at */
    std::vector<uint32_t> fences; /* clocks of fence.proxy.async */
    std::vector<Transfer *> open;
    std::deque<std::vector<Transfer *>> groups;
};

struct BlockState {
    std::map<uint32_t, Mbarrier> mbarriers;
    std::vector<WarpState> warps;
    std::vector<ThreadState> threads;
    uint32_t free_registers, registers_given; /* of all threads together; how often */
    std::vector<Thread *> want_registers;
    ~BlockState();
};

BlockState &state_of(Block *block);
inline WarpState &warp_state()
{
    return state_of(self->block).warps[self->warp->index];
}
inline ThreadState &thread_state()
{
    return state_of(self->block).threads[self->index];
}

void operations_dropped(WarpState &warp); /* hopper_wgmma.cc */
bool products_under_way(const WarpState &warp, Site &site);

} // namespace sim

#endif
