/* The sixteen barriers of a block: PTX ISA, "bar, barrier". */
#include "tests/hostsim/state.h"

namespace sim
{

namespace
{

Barrier &come(uint32_t id, uint32_t threads, const char *what, Site site)
{
    if (id > 15)
        report(Kind::misuse, site, "%s: barrier %u; there are 0 to 15", what, id);
    if (threads % 32 != 0 || threads == 0 || threads > grid.launch.threads)
        report(Kind::misuse, site, "%s: barrier %u of %u threads; a multiple of 32 up to the block's %u would be right", what, id,
               threads, grid.launch.threads);
    Barrier &barrier = self->block->barriers[id];

    if (barrier.arrived != 0 && barrier.expected != threads)
        report(Kind::misuse, site, "%s: barrier %u of %u threads, and others came to it as one of %u", what, id, threads,
               barrier.expected);
    barrier.expected = threads;
    ++barrier.arrived;
    return barrier;
}

void complete(Barrier &barrier)
{
    for (Thread *thread : barrier.waiting) {
        learn(thread, barrier.gathered);
        wake(thread);
    }
    drop(barrier.gathered);
    barrier.gathered = nullptr;
    barrier.waiting.clear();
    barrier.arrived = 0;
    ++barrier.generation;
}

/* When all who come also wait they end up knowing the same, and share it. */
void complete_all(Barrier &barrier)
{
    barrier.waiting.push_back(self);
    join_threads(barrier.waiting.data(), (uint32_t)barrier.waiting.size());
    barrier.waiting.pop_back();
    for (Thread *thread : barrier.waiting)
        wake(thread);
    barrier.waiting.clear();
    barrier.arrived = 0;
    ++barrier.generation;
}

void gather(Barrier &barrier)
{
    Known *mine = publish();

    barrier.gathered = merge(barrier.gathered, mine);
    drop(mine);
}

} // namespace

void barriers_begin(Block *block)
{
    for (Barrier &barrier : block->barriers)
        barrier = Barrier();
}

void barriers_end(Block *block)
{
    for (Barrier &barrier : block->barriers)
        drop(barrier.gathered);
}

void barrier_sync(uint32_t id, uint32_t threads, Site site)
{
    event("barrier arrive", site, id, threads);
    Barrier &barrier = come(id, threads, "bar.sync", site);

    if (barrier.arrived < threads) {
        barrier.waiting.push_back(self);
        wait("bar.sync", site, id);
    } else if (barrier.gathered == nullptr) {
        complete_all(barrier);
    } else {
        gather(barrier);
        for (Thread *thread : barrier.waiting) { /* what the waiting ones did, too */
            const Thread *before = self;
            self = thread;
            gather(barrier);
            self = const_cast<Thread *>(before);
        }
        learn(self, barrier.gathered);
        complete(barrier);
    }
}

void barrier_arrive(uint32_t id, uint32_t threads, Site site)
{
    event("barrier arrive", site, id, threads);
    Barrier &barrier = come(id, threads, "bar.arrive", site);

    gather(barrier);
    if (barrier.arrived == threads) {
        Thread *me = self;

        for (Thread *thread : barrier.waiting) {
            self = thread;
            gather(barrier);
        }
        self = me;
        complete(barrier);
    }
}

bool barrier_any(bool condition, Site site)
{
    Block *block = self->block;
    Barrier &barrier = block->barriers[0];

    if (barrier.arrived == 0)
        barrier.any = false;
    barrier.any |= condition;
    bool *answer = &barrier.answer[barrier.generation & 1];
    *answer = barrier.any;
    barrier_sync(0, grid.launch.threads, site);
    return *answer;
}

std::string barrier_states()
{
    std::string text;

    for (const Block *block : grid.resident) {
        for (uint32_t id = 0; id < 16; ++id) {
            const Barrier &barrier = block->barriers[id];
            if (barrier.arrived != 0)
                text += "  block " + std::to_string(block->index) + " barrier " + std::to_string(id) + ": " +
                        std::to_string(barrier.arrived) + " of " + std::to_string(barrier.expected) + " threads have come\n";
        }
        for (const Warp &warp : block->warps)
            for (uint32_t lane = 0; lane < 32;) { /* neighbours that do the same make one line */
                const Thread &first = warp.thread[lane];
                uint32_t end = lane + 1;
                while (end < 32 && warp.thread[end].waits_for == first.waits_for && warp.thread[end].ended == first.ended &&
                       warp.thread[end].waits_at.line == first.waits_at.line && warp.thread[end].waits_id == first.waits_id)
                    ++end;
                text += "  block " + std::to_string(block->index) + " warp " + std::to_string(warp.index) + " lanes " +
                        std::to_string(lane) + " to " + std::to_string(end - 1) + ": ";
                if (first.ended)
                    text += "ended\n";
                else if (first.waits_for == nullptr)
                    text += "can run\n";
                else
                    text += std::string(first.waits_for) + " " + std::to_string(first.waits_id) + " at " + first.waits_at.file +
                            ":" + std::to_string(first.waits_at.line) + "\n";
                lane = end;
            }
    }
    return text;
}

} // namespace sim
