/* PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". */
#include "tests/hostsim/hopper_state.h"
#include "tests/hostsim/state.h"

namespace sim
{

namespace
{

constexpr uint32_t MOST_ARRIVALS = (1u << 20) - 1;
constexpr int64_t MOST_BYTES = (1 << 20) - 1;

uint32_t offset(uint32_t address)
{
    return address - shared_window();
}

Mbarrier &find(Block *block, uint32_t address, const char *what, Site site)
{
    BlockState &state = state_of(block);
    const auto found = state.mbarriers.find(address);

    if (address % 8 != 0)
        report(Kind::alignment, site, "%s: %s at shared address %u; a multiple of 8 would be right", who(self).c_str(), what,
               offset(address));
    if (found == state.mbarriers.end())
        report(Kind::misuse, site, "%s: %s, but no mbarrier was made at shared address %u", who(self).c_str(), what,
               offset(address));
    return found->second;
}

Mbarrier &use(uint32_t address, const char *what, Site site)
{
    Mbarrier &barrier = find(self->block, address, what, site);

    if (!knows(self, self->block->index, barrier.made_by, barrier.made_at))
        report(Kind::race, site,
               "%s: %s of the mbarrier at shared address %u, which %s made at %s:%d, with nothing between that orders the two",
               who(self).c_str(), what, offset(address), who(self->block->index, barrier.made_by).c_str(), barrier.site.file,
               barrier.site.line);
    return barrier;
}

/* Ends the phase if nothing is missing. What copies wrote stays out of bounds until somebody has waited for it: nothing
 * else tells that it is there. */
void settle(Mbarrier &barrier)
{
    if (barrier.pending != 0 || barrier.bytes != 0)
        return;
    barrier.hidden.insert(barrier.hidden.end(), barrier.landed.begin(), barrier.landed.end());
    barrier.landed.clear();
    ++barrier.phase;
    barrier.pending = barrier.count;
    drop(barrier.last);
    barrier.last = barrier.gathered;
    barrier.gathered = nullptr;
    progress();
    for (Thread *thread : barrier.waiting)
        wake(thread);
    barrier.waiting.clear();
}

void gather(Mbarrier &barrier)
{
    Known *mine = publish();

    barrier.gathered = merge(barrier.gathered, mine);
    drop(mine);
}

void add_bytes(Mbarrier &barrier, int64_t bytes, uint32_t address, Site site)
{
    barrier.bytes += bytes;
    if (barrier.bytes > MOST_BYTES || barrier.bytes < -MOST_BYTES)
        report(Kind::misuse, site, "the mbarrier at shared address %u expects %lld bytes; 2^20 - 1 is the most", offset(address),
               (long long)barrier.bytes);
}

/* The running thread has seen that the newest phase ended. */
void acquire(Mbarrier &barrier)
{
    learn(self, barrier.last);
    for (const Piece &piece : barrier.hidden) {
        shared_landed(self->block, piece.shared, piece.bytes);
        if (piece.global != nullptr)
            global_end_async(piece.global, piece.bytes, Use::read, barrier.site);
    }
    barrier.hidden.clear();
}

bool ended(const Mbarrier &barrier, uint32_t parity)
{
    return (barrier.phase & 1) != (parity & 1);
}

} // namespace

void mbarrier_init(uint32_t address, uint32_t count, Site site)
{
    event("mbarrier.init", site, offset(address), count);
    if (address % 8 != 0 || count == 0 || count > MOST_ARRIVALS)
        report(Kind::misuse, site, "%s: an mbarrier at shared address %u of %u arrivals", who(self).c_str(), offset(address),
               count);
    BlockState &state = state_of(self->block);
    if (state.mbarriers.count(address) != 0)
        report(Kind::misuse, site, "%s: there is an mbarrier at shared address %u already; mbarrier.inval comes first",
               who(self).c_str(), offset(address));
    shared(address, 8, Use::write, site);
    shared_is_mbarrier(self->block, address, true);
    Mbarrier barrier = {};
    barrier.count = barrier.pending = count;
    barrier.made_by = self->index;
    barrier.made_at = self->clock;
    barrier.site = site;
    state.mbarriers[address] = barrier;
}

void mbarrier_inval(uint32_t address, Site site)
{
    event("mbarrier.inval", site, offset(address));
    Mbarrier &barrier = use(address, "mbarrier.inval", site);

    if (!barrier.waiting.empty())
        report(Kind::misuse, site, "%s: mbarrier.inval at shared address %u, where threads wait", who(self).c_str(),
               offset(address));
    drop(barrier.gathered);
    drop(barrier.last);
    state_of(self->block).mbarriers.erase(address);
    shared_is_mbarrier(self->block, address, false);
    shared(address, 8, Use::write, site);
}

void mbarriers_fenced()
{
    for (auto &entry : state_of(self->block).mbarriers)
        if (entry.second.made_by == self->index)
            entry.second.fenced = true;
}

void mbarrier_arrive(uint32_t address, uint32_t expected_bytes, const char *what, Site site)
{
    event(what, site, offset(address), expected_bytes);
    Mbarrier &barrier = use(address, what, site);

    if (barrier.pending == 0)
        report(Kind::misuse, site, "%s: %s at shared address %u, to whose phase %u all %u arrivals have come", who(self).c_str(),
               what, offset(address), barrier.phase, barrier.count);
    add_bytes(barrier, expected_bytes, address, site);
    gather(barrier);
    --barrier.pending;
    settle(barrier);
}

const void *mbarrier_arrive_remote(Block *block, uint32_t address, Site site)
{
    Mbarrier &barrier = find(block, address, "mbarrier.arrive", site);

    if (barrier.pending == 0)
        report(Kind::misuse, site,
               "%s: mbarrier.arrive at shared address %u of block %u, to whose phase %u all %u arrivals have come",
               who(self).c_str(), offset(address), block->index, barrier.phase, barrier.count);
    --barrier.pending;
    settle(barrier);
    return &barrier;
}

void mbarrier_expect(uint32_t address, uint32_t bytes, Site site)
{
    event("mbarrier.expect_tx", site, offset(address), bytes);
    Mbarrier &barrier = use(address, "mbarrier.expect_tx", site);

    add_bytes(barrier, bytes, address, site);
    settle(barrier);
}

bool mbarrier_test(uint32_t address, uint32_t parity, const char *what, Site site)
{
    poll(what, site);
    Mbarrier &barrier = use(address, what, site);
    const bool done = ended(barrier, parity);

    event(what, site, offset(address), done);
    if (done)
        acquire(barrier);
    return done;
}

void mbarrier_wait(uint32_t address, uint32_t parity, Site site)
{
    for (;;) {
        Mbarrier &barrier = use(address, "mbarrier.try_wait", site);
        if (ended(barrier, parity)) {
            event("mbarrier.try_wait", site, offset(address), barrier.phase);
            acquire(barrier);
            return;
        }
        barrier.waiting.push_back(self);
        wait("mbarrier.try_wait", site, offset(address));
    }
}

void mbarrier_take_signals(Block *block, uint32_t address, Site site)
{
    Mbarrier &barrier = block == self->block ? use(address, "the signal of a bulk copy", site)
                                             : find(block, address, "the signal of a bulk copy", site);

    if (!barrier.fenced)
        report(Kind::misuse, site,
               "%s: a bulk copy signals the mbarrier at shared address %u, after whose init at %s:%d no fence_mbarrier_init came",
               who(self).c_str(), offset(address), barrier.site.file, barrier.site.line);
}

void mbarrier_landed(Block *block, uint32_t address, uint32_t bytes, const Known *known, const std::vector<Piece> &pieces,
                     Site site)
{
    Mbarrier &barrier = find(block, address, "the signal of a bulk copy", site);

    add_bytes(barrier, -(int64_t)bytes, address, site);
    barrier.gathered = merge(barrier.gathered, known);
    barrier.landed.insert(barrier.landed.end(), pieces.begin(), pieces.end());
    settle(barrier);
}

std::string mbarrier_states(const Block *block)
{
    std::string text;

    if (block->more == nullptr)
        return text;
    for (const auto &entry : ((const BlockState *)block->more)->mbarriers) {
        const Mbarrier &barrier = entry.second;
        text += "  block " + std::to_string(block->index) + " mbarrier at shared address " + std::to_string(offset(entry.first)) +
                ": phase " + std::to_string(barrier.phase) + ", " + std::to_string(barrier.pending) + " of " +
                std::to_string(barrier.count) + " arrivals and " + std::to_string(barrier.bytes) + " bytes to come, " +
                std::to_string(barrier.waiting.size()) + " threads wait\n";
    }
    return text;
}

} // namespace sim
