/* How long threads would stand at a block's barriers if every instruction that the simulator knows took the same time:
 * a clock a thread, which waits carry forward to the last one's. Waits at mbarriers are not in it. Nothing here depends
 * on the order in which threads run. */
#ifndef GLINT_HOSTSIM_COST_IDLE_H
#define GLINT_HOSTSIM_COST_IDLE_H

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

class Idle
{
  public:
    explicit Idle(uint32_t block_threads = 0) : threads(block_threads) {}

    void thread_works(uint32_t block, uint32_t thread)
    {
        ++at(block).clock[thread];
    }

    /* An instruction of the warp begins when its last lane has come. */
    void warp_works(uint32_t block, uint32_t warp)
    {
        uint64_t *clock = &at(block).clock[warp * 32];
        const uint64_t last = *std::max_element(clock, clock + 32);
        std::fill(clock, clock + 32, last + 1);
    }

    /* At barrier `id` of `count` threads, there to wait or not. */
    void warp_comes(uint32_t block, uint32_t warp, uint32_t id, uint32_t count, bool waits)
    {
        Block &of = at(block);
        Barrier &barrier = of.barriers[id];

        warp_works(block, warp);
        barrier.last = std::max(barrier.last, of.clock[warp * 32]);
        if (waits)
            barrier.waiting.push_back(warp);
        barrier.arrived += 32;
        if (barrier.arrived < count)
            return;
        for (uint32_t waiting : barrier.waiting) {
            uint64_t *clock = &of.clock[waiting * 32];
            of.idle += 32 * (barrier.last - *clock);
            std::fill(clock, clock + 32, barrier.last);
        }
        barrier = Barrier();
    }

    /* The idle share of all threads' time. */
    uint32_t per_mille() const
    {
        uint64_t idle = 0, time = 0;

        for (const auto &block : blocks) {
            idle += block.second.idle;
            for (uint64_t clock : block.second.clock)
                time += clock;
        }
        return time == 0 ? 0 : (uint32_t)((1000 * idle + time / 2) / time);
    }

  private:
    struct Barrier {
        uint32_t arrived = 0;
        uint64_t last = 0;
        std::vector<uint32_t> waiting;
    };
    struct Block {
        std::vector<uint64_t> clock;
        Barrier barriers[16];
        uint64_t idle = 0;
    };

    Block &at(uint32_t block)
    {
        Block &of = blocks[block];
        of.clock.resize(threads);
        return of;
    }

    uint32_t threads;
    std::map<uint32_t, Block> blocks;
};

#endif
