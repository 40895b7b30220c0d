/* The sixteen barriers of a block: PTX ISA, "bar, barrier". All instructions are the .aligned ones: a warp comes as a
 * whole, all its lanes at one place. */
#include "tests/hostsim/state.h"

namespace sim
{

namespace
{

struct Arrival {
    uint32_t id, threads;
    bool condition, answer;
};

/* Where a warp is held until the barrier completes. */
Arrival &arrival_of(const Warp *warp, uint32_t lane)
{
    return *(Arrival *)warp->arguments[lane];
}

/* At barrier 0, the one of all threads, those that have ended without coming are not waited for. */
bool complete(const Block *block, const Barrier &barrier)
{
    uint32_t ended = 0;

    if (&barrier == &block->barriers[0] && barrier.expected == grid.launch.threads)
        for (const Warp &warp : block->warps)
            if ((barrier.came >> warp.index & 1) == 0)
                ended += (uint32_t)__builtin_popcount(warp.ended);
    return barrier.arrived + ended >= barrier.expected;
}

/* What those know who only arrived: each thread's events until now. */
void gather(Barrier &barrier, Warp *warp)
{
    const Known *last = nullptr;

    for (uint32_t lane = 0; lane < 32; ++lane) {
        Thread &thread = warp->thread[lane];

        if (thread.known != last) {
            last = thread.known;
            barrier.gathered = merge(barrier.gathered, last);
        }
        if (barrier.gathered->references > 1) { /* still the thread's own */
            Known *mine = new Known{1, nullptr, barrier.gathered->clock};
            mine = merge(mine, barrier.gathered);
            drop(barrier.gathered);
            barrier.gathered = mine;
        }
        barrier.gathered->clock[thread.index] = thread.clock++;
    }
}

/* Those who waited know what all did. */
void release(Barrier &barrier)
{
    std::vector<Thread *> threads;

    for (Warp *warp : barrier.waiting)
        for (uint32_t lane = 0; lane < 32; ++lane)
            threads.push_back(&warp->thread[lane]);
    join_threads(threads.data(), (uint32_t)threads.size());
    if (barrier.gathered != nullptr) {
        Known *all = merge(keep(threads[0]->known), barrier.gathered);
        for (Thread *thread : threads) {
            drop(thread->known);
            thread->known = keep(all);
        }
        drop(all);
    }
    for (Warp *warp : barrier.waiting) {
        for (uint32_t lane = 0; lane < 32; ++lane)
            arrival_of(warp, lane).answer = barrier.any;
        release_warp(warp);
    }
    drop(barrier.gathered);
    barrier = Barrier();
}

Barrier &come(Warp *warp, const char *what, bool reduces, bool waits, Site site)
{
    const Arrival &first = arrival_of(warp, 0);
    const uint32_t id = first.id, threads = first.threads;

    for (uint32_t lane = 1; lane < 32; ++lane)
        if (arrival_of(warp, lane).id != id || arrival_of(warp, lane).threads != threads)
            report(Kind::divergence, site, "%s: lane 0 of warp %u comes to barrier %u of %u threads, lane %u to %u of %u", what,
                   warp->index, id, threads, lane, arrival_of(warp, lane).id, arrival_of(warp, lane).threads);
    if (id > 15)
        report(Kind::misuse, site, "%s: barrier %u; there are 0 to 15", what, id);
    if (threads % 32 != 0 || threads == 0 || threads > grid.launch.threads)
        report(Kind::misuse, site, "%s: barrier %u of %u threads; a multiple of 32 up to the block's %u would be right", what, id,
               threads, grid.launch.threads);
    Barrier &barrier = warp->block->barriers[id];
    if (barrier.arrived != 0 && barrier.expected != threads)
        report(Kind::misuse, site, "%s: barrier %u of %u threads, and others came to it as one of %u", what, id, threads,
               barrier.expected);
    if (waits && !barrier.waiting.empty() && barrier.reduces != reduces)
        report(Kind::misuse, site, "%s: others wait at barrier %u with %s", what, id, reduces ? "bar.sync" : "bar.red");
    if (barrier.arrived + 32 > threads)
        report(Kind::misuse, site, "%s: barrier %u of %u threads has all of them already", what, id, threads);
    barrier.expected = threads;
    barrier.arrived += 32;
    barrier.came |= 1u << warp->index;
    event(what, site, id, threads, true);
    return barrier;
}

template <bool reduces> void perform_wait(Warp *warp, void *const[32], Site site)
{
    Barrier &barrier = come(warp, reduces ? "bar.red" : "bar.sync", reduces, true, site);

    barrier.reduces = reduces;
    for (uint32_t lane = 0; lane < 32; ++lane)
        barrier.any |= arrival_of(warp, lane).condition;
    barrier.waiting.push_back(warp);
    hold_warp(warp, arrival_of(warp, 0).id, site);
    if (complete(warp->block, barrier))
        release(barrier);
}

void perform_arrive(Warp *warp, void *const[32], Site site)
{
    Barrier &barrier = come(warp, "bar.arrive", false, false, site);

    gather(barrier, warp);
    if (complete(warp->block, barrier)) {
        if (!barrier.waiting.empty())
            release(barrier);
        else
            report(Kind::misuse, site, "bar.arrive completes a barrier that nobody waits at");
    }
}

const Collective SYNC = {"bar.sync", perform_wait<false>, true}, RED = {"bar.red", perform_wait<true>, true},
                 ARRIVE = {"bar.arrive", perform_arrive, true};

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

void barriers_thread_ended(Block *block)
{
    for (Barrier &barrier : block->barriers)
        if (!barrier.waiting.empty() && complete(block, barrier))
            release(barrier);
}

void barrier_sync(uint32_t id, uint32_t threads, Site site)
{
    Arrival arrival = {id, threads, false, false};

    collective(SYNC, &arrival, site);
}

void barrier_arrive(uint32_t id, uint32_t threads, Site site)
{
    Arrival arrival = {id, threads, false, false};

    collective(ARRIVE, &arrival, site);
}

bool barrier_any(uint32_t id, uint32_t threads, bool condition, Site site)
{
    Arrival arrival = {id, threads, condition, false};

    collective(RED, &arrival, site);
    return arrival.answer;
}

static std::string state_of(const Thread &thread)
{
    if (thread.ended)
        return "ended";
    const Wait wait = wait_of(thread);
    if (wait.what == nullptr)
        return "can run";
    return std::string(wait.what) + " " + std::to_string(wait.id) + " at " + wait.at.file + ":" + std::to_string(wait.at.line);
}

std::string barrier_states()
{
    std::string text;

    for (const Block *block : grid.resident) {
        const std::string name = "  block " + std::to_string(block->index);

        for (uint32_t id = 0; id < 16; ++id) {
            const Barrier &barrier = block->barriers[id];
            if (barrier.arrived != 0)
                text += name + " barrier " + std::to_string(id) + ": " + std::to_string(barrier.arrived) + " of " +
                        std::to_string(barrier.expected) + " threads have come\n";
        }
        text += mbarrier_states(block);
        for (const Warp &warp : block->warps)
            for (uint32_t lane = 0, end; lane < 32; lane = end) { /* neighbours in the same state make one line */
                const std::string state = state_of(warp.thread[lane]);
                for (end = lane + 1; end < 32 && state_of(warp.thread[end]) == state;)
                    ++end;
                text += name + " warp " + std::to_string(warp.index) + " lanes " + std::to_string(lane) + " to " +
                        std::to_string(end - 1) + ": " + state + "\n";
            }
    }
    return text;
}

} // namespace sim
