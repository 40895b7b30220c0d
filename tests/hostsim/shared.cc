/* Shared memory and its shadow: who wrote each word, who of each warp read it last, which of its bytes hold
 * anything. */
#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/hostsim/state.h"

namespace sim
{

/* An access is clock << 10 | thread; 0 is none. Of each warp the last read is kept, and one by another lane that it did
 * not come after: lanes of a warp are not ordered by themselves. Words lie by four, as the widest accesses, which are
 * most of them, find them: those four mostly share their history, and then one look is enough. */
struct Shared {
    uint32_t bytes, warps;
    std::unique_ptr<unsigned char[]> storage;
    unsigned char *data; /* aligned to 1024, as the device's is */
    struct Words {
        uint32_t write[4];
        uint32_t newest_read; /* a clock: of all reads of all four the greatest */
        uint16_t write_site[4];
        uint8_t defined[4]; /* bits: written since the block began; last by the async proxy; part of an mbarrier */
        uint8_t pending[4]; /* 1: an asynchronous write may still land; 2 times the asynchronous reads under way */
    };
    std::unique_ptr<Words[]> words;
    struct Reads {
        uint32_t last[4], other[4];
        uint16_t last_site[4], other_site[4];
    };
    std::unique_ptr<Reads[]> reads; /* [warp * fours + four] */
    uint32_t fours;
};

namespace
{

constexpr uint32_t BASE = 1024;                         /* shared addresses do not begin at 0: the system's own room comes first */
constexpr uint8_t WRITTEN = 1, ASYNC = 2, MBARRIER = 4; /* of Word::defined */
constexpr uint32_t THREAD_BITS = 10, THREAD_MASK = (1u << THREAD_BITS) - 1;

uint32_t stamp(const Thread *thread)
{
    return thread->clock << THREAD_BITS | thread->index;
}

bool ordered(const Thread *thread, uint32_t access)
{
    const uint32_t other = access & THREAD_MASK;
    return other == thread->index || access >> THREAD_BITS <= thread->known->clock[other];
}

[[noreturn]] void found_race(const Thread *thread, Use use, Site site, uint32_t address, uint32_t other, uint16_t other_site,
                             bool other_wrote)
{
    const Site at = site_of(other_site);
    report(Kind::race, site, "%s %s shared address %u, which %s %s at %s:%d, with nothing between that orders the two",
           who(thread).c_str(), use == Use::read ? "reads" : "writes", address - BASE,
           who(thread->block->index, other & THREAD_MASK).c_str(), other_wrote ? "wrote" : "read", at.file, at.line);
}

[[noreturn, gnu::cold]] void found_outside(const Thread *thread, const Shared *shared, uint32_t address, uint32_t bytes, Site site)
{
    report(Kind::bounds, site, "%s: shared address %d, %u bytes; the block has %u", who(thread).c_str(), (int)(address - BASE),
           bytes, shared->bytes);
}

[[noreturn, gnu::cold]] void found_odd(const Thread *thread, uint32_t address, uint32_t bytes, Site site)
{
    report(Kind::alignment, site, "%s: shared address %u for %u bytes", who(thread).c_str(), address - BASE, bytes);
}

inline void look(const Thread *thread, const Shared *shared, uint32_t address, uint32_t bytes, Site site)
{
    if (address < BASE || address - BASE > shared->bytes || bytes > shared->bytes - (address - BASE))
        found_outside(thread, shared, address, bytes, site);
    if (address % (bytes >= 16 ? 16 : bytes) != 0)
        found_odd(thread, address, bytes, site);
}

/* A word's own part of what is kept of four. */
struct Word {
    uint32_t &write, &newest_read;
    uint16_t &write_site;
    uint8_t &defined, &pending;
};

Word word_at(Shared *shared, uint32_t w)
{
    Shared::Words &four = shared->words[w / 4];
    const uint32_t i = w % 4;
    return {four.write[i], four.newest_read, four.write_site[i], four.defined[i], four.pending[i]};
}

void check_word(Thread *thread, Shared *shared, uint32_t w, Use use, Site site)
{
    const Word word = word_at(shared, w);

    if (word.defined & MBARRIER)
        report(Kind::misuse, site, "%s %s shared address %u, which belongs to an mbarrier", who(thread).c_str(),
               use == Use::read ? "reads" : "writes", 4 * w);
    if (word.pending > 1 && use != Use::read)
        report(Kind::pending, site, "%s writes shared address %u, which a product or bulk copy under way may still read",
               who(thread).c_str(), 4 * w);
    if (word.pending & 1) {
        const Site at = site_of(word.write_site);
        report(Kind::pending, site, "%s %s shared address %u, where the copy that %s began at %s:%d may still land",
               who(thread).c_str(), use == Use::read ? "reads" : "writes", 4 * w,
               who(thread->block->index, word.write & THREAD_MASK).c_str(), at.file, at.line);
    }
    if (word.write != 0 && !ordered(thread, word.write))
        found_race(thread, use, site, BASE + 4 * w, word.write, word.write_site, true);
    if (use == Use::read) {
        if (!(word.defined & WRITTEN))
            report(Kind::uninitialised, site, "%s reads shared address %u, which nobody wrote", who(thread).c_str(), 4 * w);
        return;
    }
    if (word.newest_read <= least_known(thread)) /* as nearly always: after a barrier of the block */
        return;
    for (uint32_t i = 0; i < shared->warps; ++i) {
        const Shared::Reads &reads = shared->reads[(size_t)i * shared->fours + w / 4];
        const uint32_t last = reads.last[w % 4], other = reads.other[w % 4];
        if (last != 0 && !ordered(thread, last))
            found_race(thread, use, site, BASE + 4 * w, last, reads.last_site[w % 4], false);
        if (other != 0 && !ordered(thread, other))
            found_race(thread, use, site, BASE + 4 * w, other, reads.other_site[w % 4], false);
    }
}

} // namespace

Shared *shared_new(uint32_t bytes, uint32_t warps)
{
    Shared *shared = new Shared();
    const uint32_t fours = (bytes + 15) / 16;

    shared->bytes = bytes;
    shared->warps = warps;
    shared->fours = fours;
    shared->storage.reset(new unsigned char[bytes + 1024]);
    shared->data = shared->storage.get() + (1024 - (uintptr_t)shared->storage.get() % 1024) % 1024;
    std::memset(shared->data, 0xff, bytes); /* NaN in every dtype */
    shared->words.reset(new Shared::Words[fours]);
    std::memset(shared->words.get(), 0, fours * sizeof(Shared::Words));
    shared->reads.reset(new Shared::Reads[(size_t)fours * warps]);
    std::memset(shared->reads.get(), 0, (size_t)fours * warps * sizeof(Shared::Reads));
    return shared;
}

void shared_delete(Shared *shared)
{
    delete shared;
}

uint32_t shared_size(const Block *block)
{
    return block->shared->bytes;
}

unsigned char *shared_raw(Block *block, uint32_t address)
{
    return block->shared->data + (address - BASE);
}

static Shared::Reads &reads_of(const Thread *thread, uint32_t w)
{
    Shared *shared = thread->block->shared;
    return shared->reads[(size_t)thread->warp->index * shared->fours + w / 4];
}

/* A word that was written, that nothing asynchronous may write, and whose writer the thread knows of: what nearly every
 * read finds. */
static bool good_to_read(const Thread *thread, const Word &word)
{
    return (word.defined & (WRITTEN | MBARRIER)) == WRITTEN && (word.pending & 1) == 0 && ordered(thread, word.write);
}

static bool all_same(const uint32_t x[4])
{
    return x[0] == x[1] && x[1] == x[2] && x[2] == x[3];
}

static uint32_t four_bytes(const uint8_t x[4])
{
    uint32_t bytes;
    std::memcpy(&bytes, x, sizeof bytes);
    return bytes;
}

constexpr uint32_t EACH = 0x01010101;

static bool four_good_to_read(const Thread *thread, const Shared::Words &four)
{
    return (four_bytes(four.defined) & EACH * (WRITTEN | MBARRIER)) == EACH * WRITTEN && (four_bytes(four.pending) & EACH) == 0 &&
           all_same(four.write) && ordered(thread, four.write[0]);
}

static bool four_good_to_write(const Thread *thread, const Shared::Words &four)
{
    return (four_bytes(four.defined) & EACH * MBARRIER) == 0 && four_bytes(four.pending) == 0 && all_same(four.write) &&
           (four.write[0] == 0 || ordered(thread, four.write[0])) && four.newest_read <= least_known(thread);
}

template <typename T> static void set_four(T x[4], T value)
{
    x[0] = x[1] = x[2] = x[3] = value;
}

static void note_read(const Thread *thread, Shared::Reads &reads, uint32_t i, uint32_t now, uint16_t id)
{
    if (reads.last[i] != 0 && !ordered(thread, reads.last[i])) {
        reads.other[i] = reads.last[i];
        reads.other_site[i] = reads.last_site[i];
    }
    reads.last[i] = now;
    reads.last_site[i] = id;
}

static void read_four(Thread *thread, Shared *shared, uint32_t w, uint32_t now, uint16_t id, Site site)
{
    Shared::Words &four = shared->words[w / 4];
    Shared::Reads &reads = reads_of(thread, w);

    if (!four_good_to_read(thread, four))
        for (uint32_t i = 0; i < 4; ++i)
            if (!good_to_read(thread, word_at(shared, w + i)))
                check_word(thread, shared, w + i, Use::read, site);
    four.newest_read = std::max(four.newest_read, thread->clock);
    if (all_same(reads.last) && (reads.last[0] == 0 || ordered(thread, reads.last[0]))) {
        set_four(reads.last, now);
        set_four(reads.last_site, id);
    } else {
        for (uint32_t i = 0; i < 4; ++i)
            note_read(thread, reads, i, now, id);
    }
}

static void check_four_writes(Thread *thread, Shared *shared, uint32_t w, Site site)
{
    if (!four_good_to_write(thread, shared->words[w / 4]))
        for (uint32_t i = 0; i < 4; ++i)
            check_word(thread, shared, w + i, Use::write, site);
}

unsigned char *shared_as(Thread *thread, uint32_t address, uint32_t bytes, Use use, Site site)
{
    Shared *shared = thread->block->shared;
    const uint16_t id = site_id(site);
    const uint32_t now = stamp(thread);

    look(thread, shared, address, bytes, site);
    const uint32_t first = (address - BASE) / 4, end = (address - BASE + bytes + 3) / 4;
    unsigned char *data = shared->data + (address - BASE);
    if (bytes == 16 && use == Use::read) {
        read_four(thread, shared, first, now, id, site);
    } else if (bytes == 16) {
        check_four_writes(thread, shared, first, site);
        Shared::Words &four = shared->words[first / 4];
        set_four(four.write, now);
        set_four(four.write_site, id);
        set_four(four.defined, WRITTEN);
    } else if (use == Use::read) {
        for (uint32_t w = first; w < end; ++w) {
            const Word word = word_at(shared, w);
            if (!good_to_read(thread, word))
                check_word(thread, shared, w, use, site);
            word.newest_read = std::max(word.newest_read, thread->clock);
            note_read(thread, reads_of(thread, w), w % 4, now, id);
        }
    } else {
        for (uint32_t w = first; w < end; ++w) {
            check_word(thread, shared, w, use, site);
            const Word word = word_at(shared, w);
            word.write = now;
            word.write_site = id;
            word.defined = WRITTEN;
        }
    }
    return data;
}

void shared_fetch(const Warp *warp, uint32_t address)
{
    const Shared *shared = warp->block->shared;
    const uint32_t four = (address - BASE) / 16;

    if (four >= shared->fours)
        return;
    __builtin_prefetch(&shared->words[four]);
    __builtin_prefetch(&shared->reads[(size_t)warp->index * shared->fours + four]);
    __builtin_prefetch(shared->data + 16 * (size_t)four);
}

unsigned char *shared(uint32_t address, uint32_t bytes, Use use, Site site)
{
    return shared_as(self, address, bytes, use, site);
}

void shared_begin_write(uint32_t address, uint32_t bytes, Site site)
{
    Shared *shared = self->block->shared;
    const uint16_t id = site_id(site);
    const uint32_t first = (address - BASE) / 4, end = (address - BASE + bytes + 3) / 4;

    look(self, shared, address, bytes, site);
    for (uint32_t w = first; w < end; ++w) {
        if (bytes != 16)
            check_word(self, shared, w, Use::write, site);
        else if (w == first)
            check_four_writes(self, shared, w, site);
        const Word word = word_at(shared, w);
        word.write = stamp(self);
        word.write_site = id;
        word.pending |= 1;
    }
}

void shared_end_write(Thread *as, uint32_t address, uint32_t bytes, Site)
{
    Shared *shared = as->block->shared;

    for (uint32_t w = (address - BASE) / 4; w < (address - BASE + bytes + 3) / 4; ++w) {
        const Word word = word_at(shared, w);
        word.write = stamp(as);
        word.pending &= 0xfe;
        word.defined = WRITTEN;
    }
}

/* Has the thread that wrote the word last made it known to the async proxy, and does `reader` know of that? */
static bool fenced(const Word &word, const Thread *reader)
{
    if (word.defined & ASYNC)
        return true;
    const uint32_t writer = word.write & THREAD_MASK, fence = async_fence_after(reader->block, writer, word.write >> THREAD_BITS);
    return fence != 0 && (writer == reader->index || fence <= reader->known->clock[writer]);
}

[[noreturn, gnu::cold]] static void found_unfenced(const Thread *thread, const Word &word, uint32_t w, Site site)
{
    const Site at = site_of(word.write_site);
    report(Kind::race, site,
           "the async proxy reads shared address %u, where %s stored at %s:%d and made no fence.proxy.async after", 4 * w,
           who(thread->block->index, word.write & THREAD_MASK).c_str(), at.file, at.line);
}

void shared_begin_read(Thread *thread, uint32_t address, uint32_t bytes, Site site)
{
    Shared *shared = thread->block->shared;
    const uint32_t first = (address - BASE) / 4, end = (address - BASE + bytes + 3) / 4;

    shared_as(thread, address, bytes, Use::read, site);
    const Shared::Words &four = shared->words[first / 4];
    const bool alike = bytes == 16 && all_same(four.write) && four_bytes(four.defined) == EACH * four.defined[0];
    for (uint32_t w = first; w < end; ++w) {
        const Word word = word_at(shared, w);
        if ((w == first || !alike) && !fenced(word, thread))
            found_unfenced(thread, word, w, site);
        word.pending = (uint8_t)(word.pending + 2);
    }
}

void shared_end_read(Block *block, uint32_t address, uint32_t bytes)
{
    for (uint32_t w = (address - BASE) / 4; w < (address - BASE + bytes + 3) / 4; ++w)
        word_at(block->shared, w).pending -= 2;
}

void shared_was_read(Thread *thread, uint32_t address, uint32_t bytes)
{
    const uint32_t now = stamp(thread), first = (address - BASE) / 4, end = (address - BASE + bytes + 3) / 4;

    if (bytes == 16)
        set_four(reads_of(thread, first).last, now);
    else
        for (uint32_t w = first; w < end; ++w)
            reads_of(thread, w).last[w % 4] = now;
}

void shared_landed(Block *block, uint32_t address, uint32_t bytes)
{
    for (uint32_t w = (address - BASE) / 4; w < (address - BASE + bytes + 3) / 4; ++w) {
        const Word word = word_at(block->shared, w);
        word.pending &= 0xfe;
        word.defined = WRITTEN | ASYNC;
    }
}

unsigned char *shared_remote(Block *block, uint32_t address, uint32_t bytes, Use use, Site site)
{
    Shared *shared = block->shared;

    look(self, shared, address, bytes, site);
    for (uint32_t w = (address - BASE) / 4; w < (address - BASE + bytes + 3) / 4; ++w) {
        const Word word = word_at(shared, w);
        if (word.defined & MBARRIER || word.pending & 1 || (use != Use::read && word.pending != 0))
            report(Kind::pending, site, "%s %s shared address %u of block %u, which %s", who(self).c_str(),
                   use == Use::read ? "reads" : "writes", 4 * w, block->index,
                   word.defined & MBARRIER ? "belongs to an mbarrier" : "a copy or product under way uses");
        if (use == Use::read && !(word.defined & WRITTEN))
            report(Kind::uninitialised, site, "%s reads shared address %u of block %u, which nobody wrote", who(self).c_str(),
                   4 * w, block->index);
        if (use != Use::read) {
            word.write = 0;
            word.defined = WRITTEN;
        }
    }
    return shared->data + (address - BASE);
}

void shared_remote_begin_write(Block *block, uint32_t address, uint32_t bytes, Site site)
{
    shared_remote(block, address, bytes, Use::write, site);
    for (uint32_t w = (address - BASE) / 4; w < (address - BASE + bytes + 3) / 4; ++w)
        word_at(block->shared, w).pending |= 1;
}

void shared_is_mbarrier(Block *block, uint32_t address, bool is)
{
    for (uint32_t w = (address - BASE) / 4; w < (address - BASE) / 4 + 2; ++w)
        word_at(block->shared, w).defined = is ? MBARRIER : 0;
}

uint32_t shared_window()
{
    return BASE;
}

} // namespace sim
