/* Shared memory and its shadow: who wrote each word, who of each warp read it last, which of its bytes hold anything. */
#include <cstring>
#include <memory>

#include "tests/hostsim/state.h"

namespace sim
{

/* An access is clock << 10 | thread; 0 is none. Reads are kept for each warp: of its lanes the last one that read. */
struct Shared {
    uint32_t bytes, warps;
    std::unique_ptr<unsigned char[]> storage;
    unsigned char *data; /* aligned to 1024, as the device's is */
    struct Word {
        uint32_t write;
        uint16_t write_site;
        uint8_t defined; /* written since the block began */
        uint8_t pending; /* asynchronous writes that may still land */
    };
    std::vector<Word> word;
    std::vector<uint32_t> read;      /* [word * warps + warp] */
    std::vector<uint16_t> read_site; /* likewise */
};

namespace
{

constexpr uint32_t BASE = 1024; /* shared addresses do not begin at 0: the system's own room comes first */
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

void look(Thread *thread, Shared *shared, uint32_t address, uint32_t bytes, Site site)
{
    if (address < BASE || address - BASE > shared->bytes || bytes > shared->bytes - (address - BASE))
        report(Kind::bounds, site, "%s: shared address %d, %u bytes; the block has %u", who(thread).c_str(), (int)(address - BASE),
               bytes, shared->bytes);
    const uint32_t natural = bytes >= 16 ? 16 : bytes;
    if (address % natural != 0)
        report(Kind::alignment, site, "%s: shared address %u for %u bytes", who(thread).c_str(), address - BASE, bytes);
}

void check_word(Thread *thread, Shared *shared, uint32_t w, Use use, Site site)
{
    Shared::Word &word = shared->word[w];

    if (word.pending != 0) {
        const Site at = site_of(word.write_site);
        report(Kind::pending, site, "%s %s shared address %u, where the copy that %s began at %s:%d may still land",
               who(thread).c_str(), use == Use::read ? "reads" : "writes", 4 * w,
               who(thread->block->index, word.write & THREAD_MASK).c_str(), at.file, at.line);
    }
    if (word.write != 0 && !ordered(thread, word.write))
        found_race(thread, use, site, BASE + 4 * w, word.write, word.write_site, true);
    if (use == Use::read) {
        if (!word.defined)
            report(Kind::uninitialised, site, "%s reads shared address %u, which nobody wrote", who(thread).c_str(), 4 * w);
        return;
    }
    const size_t row = (size_t)w * shared->warps;
    for (uint32_t i = 0; i < shared->warps; ++i)
        if (shared->read[row + i] != 0 && !ordered(thread, shared->read[row + i]))
            found_race(thread, use, site, BASE + 4 * w, shared->read[row + i], shared->read_site[row + i], false);
}

} // namespace

Shared *shared_new(uint32_t bytes, uint32_t warps)
{
    Shared *shared = new Shared();
    const uint32_t words = (bytes + 3) / 4;

    shared->bytes = bytes;
    shared->warps = warps;
    shared->storage.reset(new unsigned char[bytes + 1024]);
    shared->data = shared->storage.get() + (1024 - (uintptr_t)shared->storage.get() % 1024) % 1024;
    std::memset(shared->data, 0xff, bytes); /* NaN in every dtype */
    shared->word.assign(words, Shared::Word());
    shared->read.assign((size_t)words * warps, 0);
    shared->read_site.assign((size_t)words * warps, 0);
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

unsigned char *shared_as(Thread *thread, uint32_t address, uint32_t bytes, Use use, Site site)
{
    Shared *shared = thread->block->shared;
    const uint16_t id = site_id(site);
    const uint32_t now = stamp(thread);

    look(thread, shared, address, bytes, site);
    for (uint32_t w = (address - BASE) / 4; w < (address - BASE + bytes + 3) / 4; ++w) {
        check_word(thread, shared, w, use, site);
        if (use == Use::read) {
            shared->read[(size_t)w * shared->warps + thread->warp->index] = now;
            shared->read_site[(size_t)w * shared->warps + thread->warp->index] = id;
        } else {
            Shared::Word &word = shared->word[w];
            word.write = now;
            word.write_site = id;
            word.defined = 1;
        }
    }
    return shared->data + (address - BASE);
}

unsigned char *shared(uint32_t address, uint32_t bytes, Use use, Site site)
{
    return shared_as(self, address, bytes, use, site);
}

void shared_begin_write(uint32_t address, uint32_t bytes, Site site)
{
    Shared *shared = self->block->shared;
    const uint16_t id = site_id(site);

    look(self, shared, address, bytes, site);
    for (uint32_t w = (address - BASE) / 4; w < (address - BASE + bytes + 3) / 4; ++w) {
        check_word(self, shared, w, Use::write, site);
        Shared::Word &word = shared->word[w];
        word.write = stamp(self);
        word.write_site = id;
        word.pending = 1;
    }
}

void shared_end_write(Thread *as, uint32_t address, uint32_t bytes, Site)
{
    Shared *shared = as->block->shared;

    for (uint32_t w = (address - BASE) / 4; w < (address - BASE + bytes + 3) / 4; ++w) {
        Shared::Word &word = shared->word[w];
        word.write = stamp(as);
        word.pending = 0;
        word.defined = 1;
    }
}

uint32_t shared_window()
{
    return BASE;
}

} // namespace sim
