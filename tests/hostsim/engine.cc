/* Fibers, the scheduler and launches. */
#include "tests/hostsim/engine.h"

#include <cstdio>
#include <cstdlib>

#include "tests/hostsim/fiber.h"
#include "tests/hostsim/state.h"
#include "tests/support/rand.h"

#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace sim
{

Thread *self;
Grid grid;
void (*on_event)(const Event &event);

namespace
{

constexpr uint64_t POLL_LIMIT = 200000; /* without anything that a poll could see */
constexpr uint32_t MOST_RESIDENT = 4;

struct rand order = {1}; /* whose turn it is */
uint64_t the_seed = 1, step_limit = 400000000, all_steps = 0;
void *host_pointer; /* the stack that run() was called on */
#if defined(__SANITIZE_ADDRESS__)
void *host_sanitizer;
const void *host_bottom;
size_t host_bytes;
#endif

/* ---- switching ---- */

/* The first thing on a stack that is switched to, by the thread (null: the host) whose it is. */
void resumed(const Thread *thread)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(thread == nullptr ? host_sanitizer : thread->sanitizer, nullptr, nullptr);
#else
    (void)thread;
#endif
}

/* From a thread (null: the host) to another. */
void switch_to(Thread *from, Thread *to)
{
    self = to;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(from == nullptr ? &host_sanitizer : &from->sanitizer, to == nullptr ? host_bottom : to->stack,
                                   to == nullptr ? host_bytes : fiber_stack_bytes());
#endif
    sim_fiber_switch(from == nullptr ? &host_pointer : &from->stack_pointer, to == nullptr ? host_pointer : to->stack_pointer);
    resumed(from);
}

void make_ready(Warp *warp, uint32_t lanes)
{
    if (warp->runnable == 0) {
        warp->ready_at = (int)grid.ready.size();
        grid.ready.push_back(warp);
    }
    warp->runnable |= lanes;
}

void make_waiting(Warp *warp, uint32_t lanes)
{
    warp->runnable &= ~lanes;
    if (warp->runnable == 0 && warp->ready_at >= 0) {
        Warp *last = grid.ready.back();
        grid.ready[(size_t)warp->ready_at] = last;
        last->ready_at = warp->ready_at;
        grid.ready.pop_back();
        warp->ready_at = -1;
    }
}

/* Of the lanes that can run the first after this one, or the first of all. */
Thread *lane_after(Warp *warp, uint32_t lane)
{
    const uint32_t after = warp->runnable >> 1 >> lane;
    const uint32_t from = after != 0 ? lane + 1 : 0;
    return &warp->thread[from + (uint32_t)__builtin_ctz(after != 0 ? after : warp->runnable)];
}

/* The next thread: mostly the next lane of the same warp, now and then any other. */
Thread *choose(Warp *current, uint32_t lane)
{
    Warp *warp = current;

    if (warp == nullptr || warp->runnable == 0 || grid.stay-- == 0) {
        grid.stay = draw(32);
        warp = grid.ready[draw((uint32_t)grid.ready.size())];
        lane = draw(32);
    }
    return lane_after(warp, lane);
}

[[noreturn]] void nobody_can_run(const char *why)
{
    static std::string text; /* a report does not come back */
    Site site = {"", 0};

    for (const Block *block : grid.resident)
        for (const Thread &thread : block->threads)
            if (!thread.ended && wait_of(thread).what != nullptr && site.line == 0)
                site = wait_of(thread).at;
    text = barrier_states();
    report(Kind::deadlock, site, "%s\n%s", why, text.c_str());
}

/* Goes on with another thread; the caller is no longer in its warp's runnable lanes, or only steps back for a while. */
void yield_from(Thread *thread, bool for_good)
{
    if (++grid.step > step_limit)
        nobody_can_run("the launch does not end");
    while (grid.ready.empty() && async_step(true))
        ;
    if (grid.ready.empty()) {
        if (for_good && grid.ended_blocks == grid.launch.blocks) {
            switch_to(thread, nullptr);
            std::abort();
        }
        nobody_can_run("no thread can go on");
    }
    Thread *next = choose(thread->block == nullptr ? nullptr : thread->warp, thread->lane);
    if (next != thread)
        switch_to(thread, next);
}

/* ---- blocks ---- */

void fiber_main();

void start_block()
{
    Block *block = new Block();
    const uint32_t threads = grid.launch.threads;

    block->index = grid.next_block++;
    block->threads.resize(threads);
    block->warps.resize(threads / 32);
    block->alive = threads;
    block->shared = shared_new(grid.launch.shared_bytes, threads / 32);
    block->more = nullptr;
    Known *nothing = known_new(threads);
    for (uint32_t w = 0; w < threads / 32; ++w)
        block->warps[w] = Warp{block, &block->threads[w * 32], w, 0, 0, -1, nullptr, Site{"", 0}, 0, {}, false};
    for (uint32_t t = 0; t < threads; ++t) {
        Thread &thread = block->threads[t];
        thread.block = block;
        thread.warp = &block->warps[t / 32];
        thread.index = t;
        thread.lane = t % 32;
        thread.clock = 1;
        thread.known = keep(nothing);
        thread.stack = fiber_stack(&thread.sanitizer);
        thread.stack_pointer = fiber_prepare(thread.stack, fiber_main);
    }
    drop(nothing);
    barriers_begin(block);
    grid.resident.push_back(block);
    for (Warp &warp : block->warps)
        make_ready(&warp, 0xffffffffu);
}

void end_block(Block *block)
{
    if (counting)
        costs_block_ends(block);
    for (Thread &thread : block->threads) {
        fiber_stack_back(thread.stack, thread.sanitizer);
        drop(thread.known);
        drop(thread.released);
        drop(thread.seen);
    }
    barriers_end(block);
    async_block_gone(block);
    shared_delete(block->shared);
    for (size_t i = 0; i < grid.resident.size(); ++i)
        if (grid.resident[i] == block)
            grid.resident.erase(grid.resident.begin() + (long)i);
    delete block;
}

/* Blocks begin in the order of their index; as many as are resident at a time. */
void fill_up()
{
    while (grid.next_block < grid.launch.blocks && grid.resident.size() + grid.launch.cluster <= grid.resident_limit)
        for (uint32_t i = 0; i < grid.launch.cluster; ++i)
            start_block();
}

std::vector<Block *> finished; /* their last thread still runs on one of their stacks */

void bury()
{
    for (Block *block : finished)
        end_block(block);
    finished.clear();
}

void end_thread()
{
    Thread *thread = self;
    Warp *warp = thread->warp;
    Block *block = thread->block;

    copies_end(thread);
    async_thread_ends(thread);
    thread->ended = true;
    warp->ended |= 1u << thread->lane;
    if (warp->collective != nullptr)
        report(Kind::divergence, warp->collective_at, "%s has ended, and other lanes of its warp wait for it at %s",
               who(thread).c_str(), warp->collective->name);
    make_waiting(warp, 1u << thread->lane);
    progress();
    --block->alive;
    barriers_thread_ended(block);
    if (block->alive == 0) {
        async_block_ends(block);
        ++grid.ended_blocks;
        finished.push_back(block);
        event("block ends", Site{"", 0});
        for (size_t i = 0; i < grid.resident.size(); ++i)
            if (grid.resident[i] == block) {
                grid.resident.erase(grid.resident.begin() + (long)i);
                break;
            }
        fill_up();
    }
    yield_from(thread, true);
    std::abort();
}

void fiber_main()
{
    resumed(self);
    if (self->index == 0)
        event("block begins", Site{"", 0});
    grid.launch.call(grid.launch.parameters);
    end_thread();
    std::abort();
}

} // namespace

/* ---- the seed ---- */

void set_seed(uint64_t value)
{
    the_seed = value;
}

void set_step_limit(uint64_t steps)
{
    step_limit = steps;
}

uint64_t steps_so_far()
{
    return all_steps;
}

uint64_t seed()
{
    return the_seed;
}

uint32_t draw(uint32_t n)
{
    return (uint32_t)rand_below(&order, n);
}

/* ---- waiting ---- */

Wait wait_of(const Thread &thread)
{
    const Warp &warp = *thread.warp;

    if (warp.arrived >> thread.lane & 1) /* lanes that wait for others have nothing written about them */
        return {warp.collective->name, warp.collective_at, 0};
    return {thread.waits_for, thread.waits_at, thread.waits_id};
}

void wait(const char *what, Site site, uint32_t id)
{
    Thread *thread = self;

    thread->waits_for = what;
    thread->waits_at = site;
    thread->waits_id = id;
    event("wait begins", site, id);
    make_waiting(thread->warp, 1u << thread->lane);
    async_step(false);
    yield_from(thread, false);
    if (!finished.empty())
        bury();
    thread->waits_for = nullptr;
    event("wait ends", site, id);
}

void wake(Thread *thread)
{
    make_ready(thread->warp, 1u << thread->lane);
    progress();
}

void progress()
{
    grid.idle_polls = 0;
}

void poll(const char *what, Site site)
{
    Thread *thread = self;

    thread->waits_for = what;
    thread->waits_at = site;
    if (async_step(grid.idle_polls % 64 == 63))
        grid.idle_polls = 0;
    if (++grid.idle_polls > POLL_LIMIT)
        nobody_can_run("threads poll, and nothing changes");
    /* Somewhere else: a lane of the same warp would poll too. */
    Thread *next = choose(nullptr, 0);
    ++grid.step;
    if (next != thread) {
        switch_to(thread, next);
        if (!finished.empty())
            bury();
    }
    thread->waits_for = nullptr;
}

/* The stacks of a grid's threads are more than the caches near the core hold: what the lanes after the next one have
 * there is fetched while others run. */
static void fetch_lanes(const Thread *thread, const Warp *warp)
{
    const char *soon = (const char *)warp->thread[(thread->lane + 3) % 32].stack_pointer;

    __builtin_prefetch(&warp->thread[(thread->lane + 7) % 32]);
    for (uint32_t byte = 0; byte < 256; byte += 64)
        __builtin_prefetch(soon + byte);
}

/* Most switches are here, and from a lane to the next of its warp: nothing is written that the warp tells too. */
static void await_lanes(Thread *thread, Warp *warp)
{
    const uint32_t others = warp->runnable & ~(1u << thread->lane);

    if (others == 0 || grid.stay == 0 || grid.step >= step_limit) {
        make_waiting(warp, 1u << thread->lane);
        yield_from(thread, false);
    } else {
        --grid.stay;
        ++grid.step;
        warp->runnable = others;
        fetch_lanes(thread, warp);
        switch_to(thread, lane_after(warp, thread->lane));
    }
    if (!finished.empty())
        bury();
}

void collective(const Collective &what, void *arguments, Site site)
{
    Thread *thread = self;
    Warp *warp = thread->warp;

    if (warp->collective == nullptr) {
        if (warp->ended != 0)
            report(Kind::divergence, site, "%s waits for lanes of its warp that have ended", what.name);
        warp->collective = &what;
        warp->collective_at = site;
    } else if (warp->collective != &what || warp->collective_at.line != site.line || warp->collective_at.file != site.file) {
        report(Kind::divergence, site, "%s is at %s, and other lanes of its warp at %s, %s:%d", who(thread).c_str(), what.name,
               warp->collective->name, warp->collective_at.file, warp->collective_at.line);
    }
    warp->arguments[thread->lane] = arguments;
    warp->arrived |= 1u << thread->lane;
    if (warp->arrived != 0xffffffffu) {
        await_lanes(thread, warp);
        return;
    }
    warp->collective = nullptr;
    warp->arrived = 0;
    thread->waits_for = what.name;
    thread->waits_at = site;
    progress();
    if (!what.tells)
        event(what.name, site, 0, 0, true);
    what.perform(warp, warp->arguments, site);
    if (!warp->held) {
        make_ready(warp, 0xffffffffu);
        thread->waits_for = nullptr;
    } else {
        yield_from(thread, false);
        if (!finished.empty())
            bury();
    }
}

void hold_warp(Warp *warp, uint32_t id, Site site)
{
    warp->held = true;
    make_waiting(warp, 0xffffffffu);
    for (uint32_t lane = 0; lane < 32; ++lane) {
        warp->thread[lane].waits_for = self->waits_for != nullptr ? self->waits_for : "waits";
        warp->thread[lane].waits_at = site;
        warp->thread[lane].waits_id = id;
    }
    event("wait begins", site, id, 0, true);
}

void release_warp(Warp *warp)
{
    warp->held = false;
    for (uint32_t lane = 0; lane < 32; ++lane)
        warp->thread[lane].waits_for = nullptr;
    make_ready(warp, 0xffffffffu);
    progress();
}

/* ---- launches ---- */

const Launch &launch()
{
    return grid.launch;
}

void abandon_launch()
{
    grid.failed = true;
    if (self == nullptr)
        std::abort(); /* nothing reports outside of a launch */
    switch_to(self, nullptr);
    std::abort();
}

static void drop_all()
{
    bury();
    while (!grid.resident.empty())
        end_block(grid.resident.back());
    grid.ready.clear();
}

static void learn_host_stack()
{
#if defined(__SANITIZE_ADDRESS__)
    pthread_attr_t attributes;
    void *bottom = nullptr;

    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &bottom, &host_bytes);
    pthread_attr_destroy(&attributes);
    host_bottom = bottom;
#endif
}

bool run(const Launch &what)
{
    const uint64_t number = grid.number + 1;

    grid = Grid();
    grid.launch = what;
    grid.number = number;
    order.state = the_seed * UINT64_C(0x2545f4914f6cdd1d) + number;
    if (what.threads == 0 || what.threads % 32 != 0 || what.threads > 1024) {
        std::fprintf(stderr, "a block of %u threads\n", what.threads);
        std::abort();
    }
    grid.resident_limit = what.cluster * (1 + draw(MOST_RESIDENT));
    learn_host_stack();
    fill_up();
    if (what.blocks > 0) {
        Thread *first = choose(nullptr, 0);
        switch_to(nullptr, first);
    }
    self = nullptr;
    async_launch_ends();
    drop_all();
    clocks_launch_ends();
    all_steps += grid.step;
    return !grid.failed;
}

void tell(const char *name, Site site, uint64_t a, uint64_t b, bool whole_warp)
{
    on_event(Event{grid.step, self->block->index, self->warp->index, whole_warp ? -1 : (int)self->lane, name, site, a, b});
}

} // namespace sim
