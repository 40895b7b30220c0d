/* Global memory and its shadow. Addresses are the host's, or FAR away from them; only what was allocated here may be
 * touched. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#include "tests/hostsim/state.h"

namespace sim
{

namespace
{

/* An access is (block, thread, clock); clocks begin at 1, and accesses of earlier launches happened before. Of writes
 * and of reads the last one is kept, and the last one by another block than that. Two that have no byte in common do not
 * race. */
enum { GENERIC = 1, ASYNC = 2 }; /* proxies, as bits */
struct Access {
    uint32_t block : 28, bytes : 4 /* of the word, a bit each */;
    uint32_t clock; /* 0: none */
    uint16_t thread : 13, strong : 2 /* the proxy, or 0 */, async : 1;
    uint16_t site;
};
struct Word {
    uint32_t launch;
    uint32_t defined; /* one bit a byte; then the counts of bulk copies that may still write the word, and that may still read it */
    Access write[2], read[2];
};
constexpr uint32_t BYTES = 0xf, WRITER = 0x10, READER = 0x40000, WRITERS = READER - WRITER, READERS = 0u - READER;

struct Allocation {
    uintptr_t begin, end;
    unsigned char *map; /* a page in front and behind is inaccessible */
    size_t map_bytes;
    Word *shadow;
    size_t shadow_bytes;
    std::vector<bool> touched; /* a bit a page: anything was, or will be, written there; all others hold zeros */
};

std::vector<Allocation> allocations; /* by address */
size_t recent;
constexpr size_t PAGE = 65536;
constexpr uintptr_t FAR =
    (uintptr_t)1 << 52; /* no address of a process: neither x86-64 nor AArch64 has more than 48 bits of them here */

void *map_memory(size_t bytes)
{
    void *map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (map == MAP_FAILED) {
        std::perror("the simulator's global memory");
        std::abort();
    }
    return map;
}

Allocation *find(uintptr_t address)
{
    if (recent < allocations.size() && address >= allocations[recent].begin && address < allocations[recent].end)
        return &allocations[recent];
    const auto after = std::upper_bound(allocations.begin(), allocations.end(), address,
                                        [](uintptr_t a, const Allocation &allocation) { return a < allocation.begin; });
    if (after == allocations.begin() || address >= (after - 1)->end)
        return nullptr;
    recent = (size_t)(after - 1 - allocations.begin());
    return &allocations[recent];
}

bool ordered(const Access &access)
{
    return access.clock == 0 || knows(self, access.block, access.thread, access.clock);
}

[[noreturn]] void found_race(const void *address, Use use, Site site, const Access &other, bool other_wrote)
{
    const Site at = site_of(other.site);
    report(Kind::race, site, "%s %s global memory at %p, which %s %s at %s:%d, with nothing between that orders the two",
           who(self).c_str(), use == Use::read ? "reads" : "writes", address, who(other.block, other.thread).c_str(),
           other_wrote ? "wrote" : "read", at.file, at.line);
}

void remember(Access kept[2], const Access &now)
{
    if (kept[0].clock != 0 && kept[0].block != now.block)
        kept[1] = kept[0];
    kept[0] = now;
}

/* What a read needs is there, and no bulk copy is under way, as nearly always. */
bool ready(const Word &word, uint32_t needed)
{
    return (word.defined & (needed | ~BYTES)) == needed;
}

/* What a bulk copy may still write is nobody's to touch, and what it may still read nobody's to write, whoever knows
 * that it began: only its wait tells that it is done. Reductions add to each other's sums meanwhile. */
void check_ready(const Word &word, const void *address, uint32_t needed, Use use, const Access &now, Site site)
{
    const Access &writer = word.write[0];
    const char *does = use == Use::read ? "reads" : "writes";

    if ((word.defined & WRITERS) != 0 && (now.strong & writer.strong & ASYNC) == 0) {
        const Site at = site_of(writer.site);
        report(Kind::pending, site, "%s %s global memory at %p, where the bulk copy that %s began at %s:%d may still land",
               who(self).c_str(), does, address, who(writer.block, writer.thread).c_str(), at.file, at.line);
    }
    if (use != Use::read && (word.defined & READERS) != 0)
        report(Kind::pending, site, "%s writes global memory at %p, which a bulk copy under way may still read", who(self).c_str(),
               address);
    if ((word.defined & needed) != needed)
        report(Kind::uninitialised, site, "%s reads global memory at %p, which nobody wrote", who(self).c_str(), address);
}

/* Of what was stored last, or of both addends that are known of, the async proxy must have heard: by a fence of who
 * stored, after it, which the running thread knows of. PTX ISA asks for a fence somewhere along the way
 * ("Proxy-preserved base causality order"); that it is the storing thread's is lib/device/'s rule, as for shared memory
 * (hopper.h). */
void check_fences(const Word &word, const void *address, Use use, Site site)
{
    const bool sum = (word.write[0].strong & word.write[1].strong & GENERIC) != 0;

    for (int i = 0; i < (sum ? 2 : 1); ++i) {
        const Access &write = word.write[i];
        if (write.clock == 0 || write.async)
            continue;
        const uint32_t fence = async_global_fence_after(write.block, write.thread, write.clock);
        if (fence != 0 && knows(self, write.block, write.thread, fence))
            continue;
        const Site at = site_of(write.site);
        report(
            Kind::race, site,
            "the async proxy %s global memory at %p for %s, where %s stored at %s:%d and made no fence.proxy.async.global between "
            "that and what orders the two",
            use == Use::read ? "reads" : "writes", address, who(self).c_str(), who(write.block, write.thread).c_str(), at.file,
            at.line);
    }
}

/* `strong`: an atomic, or a relaxed, acquire or release access; two of them through one proxy never race. */
template <bool async> void check_word(Word &word, const void *address, uint32_t mask, Use use, Access now, Site site)
{
    now.bytes = mask & BYTES;
    if (word.launch != grid.number) {
        word.launch = (uint32_t)grid.number;
        word.write[0] = word.write[1] = word.read[0] = word.read[1] = Access();
        word.defined &= BYTES;
    }
    const uint32_t needed = use == Use::write ? 0 : mask;
    if (!ready(word, needed))
        check_ready(word, address, needed, use, now, site);
    for (const Access &write : word.write)
        if ((now.strong & write.strong) == 0 && (now.bytes & write.bytes) != 0 && !ordered(write))
            found_race(address, use, site, write, true);
    if (async)
        check_fences(word, address, use, site);
    if (use == Use::read) {
        remember(word.read, now);
        return;
    }
    for (const Access &read : word.read)
        if ((now.strong & read.strong) == 0 && (now.bytes & read.bytes) != 0 && !ordered(read))
            found_race(address, use, site, read, false);
    remember(word.write, now);
    word.defined |= mask;
}

} // namespace

static void touch(Allocation &allocation, uintptr_t begin, uintptr_t end)
{
    for (size_t page = (begin - allocation.begin) / PAGE; page <= (end - 1 - allocation.begin) / PAGE; ++page)
        allocation.touched[page] = true;
}

void *global_allocate(size_t bytes, bool far)
{
    Allocation allocation;
    const size_t room = (bytes + PAGE - 1) / PAGE * PAGE;

    allocation.map_bytes = room + 2 * PAGE;
    allocation.map = (unsigned char *)map_memory(allocation.map_bytes);
    mprotect(allocation.map, PAGE, PROT_NONE);
    mprotect(allocation.map + PAGE + room, PAGE, PROT_NONE);
    allocation.begin = (uintptr_t)(allocation.map + PAGE) + (far ? FAR : 0);
    allocation.end = allocation.begin + bytes;
    allocation.shadow_bytes = ((bytes + 3) / 4 + 1) * sizeof(Word);
    allocation.shadow = (Word *)map_memory(allocation.shadow_bytes);
    allocation.touched.resize(room / PAGE);
    const auto at = std::upper_bound(allocations.begin(), allocations.end(), allocation.begin,
                                     [](uintptr_t a, const Allocation &other) { return a < other.begin; });
    allocations.insert(at, allocation);
    return (void *)allocation.begin;
}

void global_release(void *memory)
{
    for (size_t i = 0; i < allocations.size(); ++i)
        if (allocations[i].begin == (uintptr_t)memory) {
            munmap(allocations[i].map, allocations[i].map_bytes);
            munmap(allocations[i].shadow, allocations[i].shadow_bytes);
            allocations.erase(allocations.begin() + (long)i);
            recent = 0;
            return;
        }
}

unsigned char *global_raw(const void *address)
{
    return (unsigned char *)((uintptr_t)address & ~FAR);
}

/* A sum over every eight bytes, each times an odd number that its place gives: zeros add nothing, so that pages without
 * a write need no look. */
static uint64_t digest_of(const unsigned char *bytes, size_t count, uint64_t place)
{
    uint64_t digest = 0;

    for (size_t at = 0; at < count; at += 8) {
        uint64_t word = 0, factor = (place + at) * UINT64_C(0x9e3779b97f4a7c15);
        std::memcpy(&word, bytes + at, count - at < 8 ? count - at : 8);
        factor = (factor ^ factor >> 32) * UINT64_C(0xd6e8feb86659fd93);
        word *= (factor ^ factor >> 32) | 1;
        digest += word ^ word >> 29;
    }
    return digest;
}

uint64_t global_digest(const void *except)
{
    uint64_t digest = 0, place = 0;

    for (const Allocation &allocation : allocations) {
        const size_t bytes = allocation.end - allocation.begin;
        if ((uintptr_t)except < allocation.begin || (uintptr_t)except >= allocation.end)
            for (size_t page = 0; page < allocation.touched.size(); ++page)
                if (allocation.touched[page])
                    digest += digest_of(global_raw((const void *)(allocation.begin + page * PAGE)),
                                        std::min(bytes - page * PAGE, PAGE), place + page * PAGE);
        place += bytes;
    }
    return digest;
}

bool global_holds(const void *memory, size_t bytes)
{
    const Allocation *allocation = find((uintptr_t)memory);
    return bytes == 0 || (allocation != nullptr && bytes <= allocation->end - (uintptr_t)memory);
}

void global_defined(const void *memory, size_t bytes, bool defined)
{
    Allocation *allocation = bytes == 0 ? nullptr : find((uintptr_t)memory);

    if (allocation == nullptr)
        return;
    if (defined)
        touch(*allocation, (uintptr_t)memory, (uintptr_t)memory + bytes);
    for (uintptr_t at = (uintptr_t)memory, end = at + bytes; at < end; ++at) {
        Word &word = allocation->shadow[(at - allocation->begin) / 4];
        if (at % 4 == 0 && end - at >= 4) {
            word.defined = defined ? 0xf : 0;
            at += 3;
        } else if (defined) {
            word.defined |= 1u << at % 4;
        } else {
            word.defined &= ~(1u << at % 4);
        }
    }
}

[[noreturn]] static void found_outside(const Allocation *allocation, const void *address, uint32_t bytes, Site site)
{
    if (allocation == nullptr)
        report(Kind::bounds, site, "%s: address %p is in no allocation", who(self).c_str(), address);
    report(Kind::bounds, site, "%s: %u bytes at %p, and the allocation ends %zu bytes later", who(self).c_str(), bytes, address,
           (size_t)(allocation->end - (uintptr_t)address));
}

static inline Allocation *allocation_of(const void *address, uint32_t bytes, Site site)
{
    Allocation *allocation = find((uintptr_t)address);

    if (allocation == nullptr || bytes > allocation->end - (uintptr_t)address)
        found_outside(allocation, address, bytes, site);
    return allocation;
}

static Access access_by_self(int strong, bool async, Site site)
{
    return {self->block->index & 0xfffffff, BYTES, self->clock,  (uint16_t)(self->index & 0x1fff),
            (uint16_t)(strong & 3),         async, site_id(site)};
}

void await_predecessors(Site site)
{
    event("await_predecessors", site);
    self->awaited = true;
}

/* What is ahead of a dependent launch may still be writing. */
static void check_awaited(const void *address, Use use, Site site)
{
    if (grid.launch.dependent && !self->awaited)
        report(Kind::race, site, "%s %s %p before it has waited for the launch ahead to end", who(self).c_str(),
               use == Use::read ? "reads" : "writes", address);
}

static unsigned char *look(const void *address, uint32_t bytes, Use use, bool strong, Site site)
{
    const uintptr_t begin = (uintptr_t)address;
    Allocation *allocation = allocation_of(address, bytes, site);

    check_awaited(address, use, site);
    if (begin % (bytes >= 16 ? 16 : bytes) != 0)
        report(Kind::alignment, site, "%s: address %p for %u bytes", who(self).c_str(), address, bytes);
    if (use != Use::read)
        touch(*allocation, begin, begin + bytes);
    const Access now = access_by_self(strong ? GENERIC : 0, false, site);
    Word *word = &allocation->shadow[(begin - allocation->begin) / 4];
    for (uintptr_t at = begin; at < begin + bytes; at += 4, ++word)
        check_word<false>(*word, (const void *)at, begin + bytes - at >= 4 ? 0xfu : ((1u << (begin + bytes - at)) - 1) << at % 4,
                          use, now, site);
    return global_raw(address);
}

/* Of any alignment and length: what the copy engine's rules ask of them is looked at where they are. */
template <typename Each> static Allocation &each_word(const void *address, uint32_t bytes, Site site, Each each)
{
    const uintptr_t begin = (uintptr_t)address, end = begin + bytes;
    Allocation &allocation = *allocation_of(address, bytes, site);
    Word *word = &allocation.shadow[(begin - allocation.begin) / 4];

    for (uintptr_t at = begin & ~(uintptr_t)3; at < end; at += 4, ++word) {
        const uintptr_t low = std::max(begin, at), high = std::min(end, at + 4);
        each(*word, (const void *)at, ((1u << (high - low)) - 1) << (low - at));
    }
    return allocation;
}

void global_begin_async(const void *address, uint32_t bytes, Use use, Site site)
{
    const Access now = access_by_self(use == Use::atomic ? ASYNC : 0, true, site);
    check_awaited(address, use, site);
    const uint32_t one = use == Use::read ? READER : WRITER, all = use == Use::read ? READERS : WRITERS;

    Allocation &allocation = each_word(address, bytes, site, [&](Word &word, const void *at, uint32_t mask) {
        check_word<true>(word, at, mask, use, now, site);
        if ((word.defined & all) == all)
            report(Kind::misuse, site, "more bulk copies are under way at %p than the simulator counts", at);
        word.defined += one;
    });
    if (use != Use::read)
        touch(allocation, (uintptr_t)address, (uintptr_t)address + bytes);
}

void global_end_async(const void *address, uint32_t bytes, Use use, Site site)
{
    const Access now = access_by_self(use == Use::atomic ? ASYNC : 0, true, site);

    each_word(address, bytes, site, [&](Word &word, const void *, uint32_t) {
        word.defined -= use == Use::read ? READER : WRITER;
        if (use != Use::read)
            remember(word.write, now);
    });
}

unsigned char *global(const void *address, uint32_t bytes, Use use, Site site)
{
    return look(address, bytes, use, use == Use::atomic, site);
}

const unsigned char *global_strong_read(const void *address, Site site)
{
    return look(address, 4, Use::read, true, site);
}

unsigned char *global_strong_write(void *address, Site site)
{
    return look(address, 4, Use::write, true, site);
}

} // namespace sim
