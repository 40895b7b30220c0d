/* What threads know of each other: happens-before as vector clocks (Mattern 1989; epochs as in FastTrack, Flanagan and
 * Freund 2009). An access is the pair (thread, clock); it happened before what thread t does now iff t knows a clock at
 * least as great. */
#include <algorithm>
#include <unordered_map>

#include "tests/hostsim/state.h"

namespace sim
{

namespace
{

/* What was released to words of global memory in this launch. */
std::unordered_map<const void *, Known *> released;

Far *far_keep(Far *far)
{
    if (far != nullptr)
        ++far->references;
    return far;
}

void far_drop(Far *far)
{
    if (far != nullptr && --far->references == 0)
        delete far;
}

bool covers(const std::vector<uint32_t> &a, const std::vector<uint32_t> &b)
{
    for (size_t i = 0; i < b.size(); ++i)
        if (a[i] < b[i])
            return false;
    return true;
}

void raise(std::vector<uint32_t> &a, const std::vector<uint32_t> &b)
{
    for (size_t i = 0; i < b.size(); ++i)
        a[i] = std::max(a[i], b[i]);
}

/* Takes over a's reference. */
Far *far_merge(Far *a, Far *b)
{
    if (b == nullptr || a == b)
        return a;
    if (a == nullptr)
        return far_keep(b);
    if (covers(a->clock, b->clock))
        return a;
    if (a->references > 1) {
        --a->references;
        a = new Far{1, a->clock};
    }
    raise(a->clock, b->clock);
    return a;
}

/* What `thread` knows, with itself, for threads of any block. */
Known *publish_far(const Thread *thread)
{
    const uint32_t threads = grid.launch.threads;
    Far *far = new Far{1, {}};

    if (thread->known->far != nullptr)
        far->clock = thread->known->far->clock;
    else
        far->clock.assign((size_t)grid.launch.blocks * threads, 0);
    uint32_t *own = &far->clock[(size_t)thread->block->index * threads];
    for (uint32_t t = 0; t < threads; ++t)
        own[t] = std::max(own[t], thread->known->clock[t]);
    own[thread->index] = thread->clock;
    return new Known{1, far, {}};
}

/* The thread learns what a word carried: of its own block too, if that came round through another. */
void learn_far(Thread *thread, const Known *carried)
{
    if (carried == nullptr)
        return;
    const uint32_t threads = grid.launch.threads;
    const uint32_t *own = &carried->far->clock[(size_t)thread->block->index * threads];
    Known *now = new Known{1, far_merge(far_keep(thread->known->far), carried->far), thread->known->clock};

    for (uint32_t t = 0; t < threads; ++t)
        now->clock[t] = std::max(now->clock[t], own[t]);
    drop(thread->known);
    thread->known = now;
}

} // namespace

Known *known_new(uint32_t threads)
{
    return new Known{1, nullptr, std::vector<uint32_t>(threads, 0)};
}

Known *keep(Known *known)
{
    if (known != nullptr)
        ++known->references;
    return known;
}

void drop(Known *known)
{
    if (known != nullptr && --known->references == 0) {
        far_drop(known->far);
        delete known;
    }
}

Known *merge(Known *a, const Known *b)
{
    if (b == nullptr || a == b)
        return a;
    if (a == nullptr)
        return keep(const_cast<Known *>(b));
    if (a->references > 1) {
        Known *mine = new Known{1, far_keep(a->far), a->clock};

        --a->references;
        a = mine;
    }
    raise(a->clock, b->clock);
    a->least = UINT32_MAX;
    a->far = far_merge(a->far, b->far);
    return a;
}

Known *publish()
{
    Known *now = new Known{1, far_keep(self->known->far), self->known->clock};

    now->clock[self->index] = self->clock++;
    return now;
}

void learn(Thread *thread, const Known *published)
{
    thread->known = merge(thread->known, published);
}

void join_threads(Thread *const *threads, uint32_t count)
{
    Known *all = nullptr;
    const Known *last = nullptr;

    for (uint32_t i = 0; i < count; ++i)
        if (threads[i]->known != last) {
            last = threads[i]->known;
            all = merge(all, last);
        }
    if (all->references > 1) {
        --all->references;
        all = new Known{1, far_keep(all->far), all->clock};
    }
    for (uint32_t i = 0; i < count; ++i)
        all->clock[threads[i]->index] = threads[i]->clock++;
    all->least = UINT32_MAX;
    for (uint32_t i = 0; i < count; ++i) {
        drop(threads[i]->known);
        threads[i]->known = keep(all);
    }
    drop(all);
}

uint32_t least_of(Known *known)
{
    return known->least = *std::min_element(known->clock.begin(), known->clock.end());
}

/* ---- words of global memory: PTX ISA, "Memory Consistency Model", release and acquire patterns ---- */

void release_to(const void *word)
{
    Known *&at = released[word];

    drop(at);
    at = publish_far(self);
    ++self->clock;
}

void acquire_from(const void *word)
{
    const auto found = released.find(word);

    if (found != released.end())
        learn_far(self, found->second);
}

/* A fence and then a relaxed write is a release; a relaxed read and then a fence is an acquire. A read-modify-write
 * hands on what the word carried. */
void relaxed_write_to(const void *word, bool read_too)
{
    const auto found = released.find(word);

    if (!read_too && found != released.end()) {
        drop(found->second);
        released.erase(found);
    }
    if (self->released != nullptr) {
        Known *&at = released[word];

        if (at == nullptr)
            at = keep(self->released);
        else
            at = merge(at, self->released);
    }
}

void relaxed_read_from(const void *word)
{
    const auto found = released.find(word);

    if (found != released.end())
        self->seen = merge(self->seen, found->second);
}

void fence()
{
    learn_far(self, self->seen);
    drop(self->seen);
    self->seen = nullptr;
    drop(self->released);
    self->released = publish_far(self);
    ++self->clock;
}

void clocks_launch_ends()
{
    for (const auto &entry : released)
        drop(entry.second);
    released.clear();
}

} // namespace sim
