/* Global memory and its shadow. Addresses are the host's, or FAR away from them; only what was allocated here may be touched. */
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

/* An access is (launch, block * threads + thread + 1, clock); accesses of earlier launches happened before. Of writes and of
 * reads the last one is kept, and the last one by another block than that. */
struct Access {
    uint32_t thread, clock;
    uint16_t site;
    uint16_t strong;
};
struct Word {
    uint32_t launch;
    uint32_t defined; /* one bit a byte */
    Access write[2], read[2];
};

struct Allocation {
    uintptr_t begin, end;
    unsigned char *map; /* a page in front and behind is inaccessible */
    size_t map_bytes;
    Word *shadow;
    size_t shadow_bytes;
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

uint32_t here()
{
    return self->block->index * grid.launch.threads + self->index + 1;
}

bool ordered(const Access &access)
{
    const uint32_t threads = grid.launch.threads;
    return access.thread == 0 || knows(self, (access.thread - 1) / threads, (access.thread - 1) % threads, access.clock);
}

[[noreturn]] void found_race(const void *address, Use use, Site site, const Access &other, bool other_wrote)
{
    const Site at = site_of(other.site);
    const uint32_t threads = grid.launch.threads;
    report(Kind::race, site, "%s %s global memory at %p, which %s %s at %s:%d, with nothing between that orders the two",
           who(self).c_str(), use == Use::read ? "reads" : "writes", address,
           who((other.thread - 1) / threads, (other.thread - 1) % threads).c_str(), other_wrote ? "wrote" : "read", at.file,
           at.line);
}

void remember(Access kept[2], const Access &now)
{
    if (kept[0].thread != 0 && (kept[0].thread - 1) / grid.launch.threads != self->block->index)
        kept[1] = kept[0];
    kept[0] = now;
}

/* `strong`: an atomic, or a relaxed, acquire or release access; two of them never race. */
void check_word(Word &word, const void *address, uint32_t mask, Use use, bool strong, Site site)
{
    if (word.launch != grid.number) {
        word.launch = (uint32_t)grid.number;
        word.write[0] = word.write[1] = word.read[0] = word.read[1] = Access();
    }
    if (use != Use::write && (word.defined & mask) != mask)
        report(Kind::uninitialised, site, "%s reads global memory at %p, which nobody wrote", who(self).c_str(), address);
    for (const Access &write : word.write)
        if (!(strong && write.strong) && !ordered(write))
            found_race(address, use, site, write, true);
    const Access now = {here(), self->clock, site_id(site), strong};
    if (use == Use::read) {
        remember(word.read, now);
        return;
    }
    for (const Access &read : word.read)
        if (!(strong && read.strong) && !ordered(read))
            found_race(address, use, site, read, false);
    remember(word.write, now);
    word.defined |= mask;
}

} // namespace

void global_launch_begins() {}

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

uint64_t global_bytes()
{
    uint64_t bytes = 0;

    for (const Allocation &allocation : allocations)
        bytes += allocation.end - allocation.begin;
    return bytes;
}

uint64_t global_digest(const void *except)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325); /* FNV-1a's, eight bytes at a time */

    for (const Allocation &allocation : allocations) {
        if ((uintptr_t)except >= allocation.begin && (uintptr_t)except < allocation.end)
            continue;
        const unsigned char *bytes = global_raw((const void *)allocation.begin);
        const size_t count = allocation.end - allocation.begin;
        for (size_t at = 0; at < count; at += 8) {
            uint64_t word = 0;
            std::memcpy(&word, bytes + at, count - at < 8 ? count - at : 8);
            digest = (digest ^ word) * UINT64_C(0x100000001b3);
            digest ^= digest >> 29;
        }
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

static unsigned char *look(const void *address, uint32_t bytes, Use use, bool strong, Site site)
{
    const uintptr_t begin = (uintptr_t)address;
    Allocation *allocation = find(begin);

    if (allocation == nullptr)
        report(Kind::bounds, site, "%s: address %p is in no allocation", who(self).c_str(), address);
    if (bytes > allocation->end - begin)
        report(Kind::bounds, site, "%s: %u bytes at %p, and the allocation ends %zu bytes later", who(self).c_str(), bytes, address,
               (size_t)(allocation->end - begin));
    if (begin % (bytes >= 16 ? 16 : bytes) != 0)
        report(Kind::alignment, site, "%s: address %p for %u bytes", who(self).c_str(), address, bytes);
    for (uintptr_t at = begin; at < begin + bytes; at += 4)
        check_word(allocation->shadow[(at - allocation->begin) / 4], (const void *)at,
                   begin + bytes - at >= 4 ? 0xfu : ((1u << (begin + bytes - at)) - 1) << at % 4, use, strong, site);
    return global_raw(address);
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
