/* Clusters: PTX ISA, "barrier.cluster", "mapa", .shared::cluster. Blocks of a cluster are resident together.
 *
 * An address in another block's shared memory carries that block's rank, plus one, above bit 24. Accesses to another
 * block are looked at for bounds, for copies under way and for whether the block is still there, and their order for
 * global memory is kept; but races between blocks in shared memory are not found. */
#include <cstring>
#include <map>

#include "tests/hostsim/hopper_state.h"
#include "tests/hostsim/numbers.h"
#include "tests/hostsim/state.h"

namespace sim
{

namespace
{

constexpr uint32_t RANK_SHIFT = 24, OFFSET_MASK = (1u << RANK_SHIFT) - 1;

struct ClusterBarrier {
    uint32_t arrived, generation;
    std::vector<Thread *> waiting;
};
std::map<uint32_t, ClusterBarrier> barriers;

uint32_t cluster_of(const Block *block)
{
    return block->index / grid.launch.cluster;
}

Block *block_of_rank(uint32_t rank, Site site)
{
    const uint32_t index = cluster_of(self->block) * grid.launch.cluster + rank;

    if (rank < grid.launch.cluster)
        for (Block *block : grid.resident)
            if (block->index == index)
                return block;
    report(Kind::misuse, site, "%s reaches for block %u of its cluster of %u, which %s", who(self).c_str(), rank,
           grid.launch.cluster, rank < grid.launch.cluster ? "has ended" : "there is not");
}

Block *block_of(uint32_t address, Site site)
{
    return address >> RANK_SHIFT == 0 ? self->block : block_of_rank((address >> RANK_SHIFT) - 1, site);
}

/* What this thread did before is known to whoever acquires the word. */
void release_more(const void *word)
{
    fence();
    relaxed_write_to(word, true);
}

} // namespace

uint32_t cluster_rank()
{
    return self->block->index % grid.launch.cluster;
}

uint32_t cluster_address(uint32_t shared, uint32_t rank, Site site)
{
    if (rank >= grid.launch.cluster)
        block_of_rank(rank, site);
    return (shared & OFFSET_MASK) | (rank + 1) << RANK_SHIFT;
}

float cluster_load(uint32_t address, Site site)
{
    float value;

    event("ld.shared::cluster", site, address);
    std::memcpy(&value, shared_remote(block_of(address, site), address & OFFSET_MASK, 4, Use::read, site), 4);
    return value;
}

void cluster_store(uint32_t address, float value, Site site)
{
    event("st.shared::cluster", site, address);
    std::memcpy(shared_remote(block_of(address, site), address & OFFSET_MASK, 4, Use::write, site), &value, 4);
}

void cluster_arrive(Site site)
{
    ClusterBarrier &barrier = barriers[cluster_of(self->block)];
    ThreadState &mine = thread_state();

    event("barrier.cluster.arrive", site);
    if (mine.cluster_arrived)
        report(Kind::misuse, site, "%s arrives a second time at the barrier of its cluster without a wait", who(self).c_str());
    mine.cluster_arrived = true;
    mine.cluster_generation = barrier.generation;
    release_more(&barrier);
    if (++barrier.arrived < grid.launch.cluster * grid.launch.threads)
        return;
    barrier.arrived = 0;
    ++barrier.generation;
    for (Thread *thread : barrier.waiting)
        wake(thread);
    barrier.waiting.clear();
    progress();
}

void cluster_wait(Site site)
{
    ClusterBarrier &barrier = barriers[cluster_of(self->block)];
    ThreadState &mine = thread_state();

    if (!mine.cluster_arrived)
        report(Kind::misuse, site, "%s waits at the barrier of its cluster and has not arrived", who(self).c_str());
    while (barrier.generation == mine.cluster_generation) {
        barrier.waiting.push_back(self);
        wait("barrier.cluster.wait", site, 0);
    }
    mine.cluster_arrived = false;
    acquire_from(&barrier);
}

void cluster_mbarrier_arrive(uint32_t address, Site site)
{
    Block *block = block_of(address, site);

    if (block == self->block) {
        mbarrier_arrive(address & OFFSET_MASK, 0, "mbarrier.arrive", site);
        return;
    }
    event("mbarrier.arrive remote", site, address);
    fence();
    relaxed_write_to(mbarrier_arrive_remote(block, address & OFFSET_MASK, site), true);
}

bool cluster_mbarrier_test(uint32_t address, uint32_t parity, Site site)
{
    const bool done = mbarrier_test(address, parity, "mbarrier.try_wait", site);

    if (done)
        acquire_from(&state_of(self->block).mbarriers[address]);
    return done;
}

void cluster_mbarrier_wait(uint32_t address, uint32_t parity, Site site)
{
    mbarrier_wait(address, parity, site);
    acquire_from(&state_of(self->block).mbarriers[address]);
}

void cluster_tensor_load(uint32_t shared, const struct tensor_map *map, int rank, const int32_t at[], uint32_t barrier,
                         uint16_t blocks, Site site)
{
    for (uint32_t other = 0; other < 16; ++other)
        if (blocks >> other & 1)
            tensor_load_to(block_of_rank(other, site), shared, map, rank, at, barrier, site);
}

void clusters_launch_ends()
{
    barriers.clear();
}

} // namespace sim
