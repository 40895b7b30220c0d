/* Findings, places, names. */
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/hostsim/state.h"

namespace sim
{

namespace
{

std::vector<Finding> found;
std::vector<Site> sites = {Site{"", 0}};
/* A power of two, more than there are numbers of places. */
constexpr size_t SLOTS = 131072;
uint16_t slot[SLOTS];

} // namespace

static uint16_t find_site(Site site)
{
    size_t at = ((uintptr_t)site.file * 31 + (size_t)site.line * 2654435761u) % SLOTS;

    for (; slot[at] != 0; at = (at + 1) % SLOTS) {
        const Site &known = sites[slot[at]];
        if (known.line == site.line && known.file == site.file)
            return slot[at];
    }
    if (sites.size() > UINT16_MAX) {
        std::fprintf(stderr, "this program has more than %d places; fewer kernels in it would be right\n", UINT16_MAX);
        std::abort();
    }
    slot[at] = (uint16_t)sites.size();
    sites.push_back(site);
    return slot[at];
}

uint16_t site_id(Site site)
{
    static Site last;
    static uint16_t last_id;

    if (site.line == last.line && site.file == last.file) /* as for all lanes of an instruction */
        return last_id;
    last = site;
    return last_id = find_site(site);
}

Site site_of(uint16_t id)
{
    return sites[id];
}

const char *name_of(Kind kind)
{
    static const char *const names[] = {"race",      "uninitialised", "pending",    "bounds",
                                        "alignment", "deadlock",      "divergence", "misuse"};
    return names[(int)kind];
}

Who who(uint32_t block, uint32_t thread)
{
    Who name;

    std::snprintf(name.text, sizeof name.text, "block %u warp %u lane %u", block, thread / 32, thread % 32);
    return name;
}

Who who(const Thread *thread)
{
    return who(thread->block->index, thread->index);
}

void report(Kind kind, Site site, const char *format, ...)
{
    char text[2048];
    va_list arguments;

    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    found.push_back(Finding{kind, site,
                            std::string(name_of(kind)) + " at " + site.file + ":" + std::to_string(site.line) + ": " + text + " (" +
                                grid.launch.name + ", launch " + std::to_string(grid.number) + ", seed " + std::to_string(seed()) +
                                ")"});
    abandon_launch();
}

const std::vector<Finding> &findings()
{
    return found;
}

void clear_findings()
{
    found.clear();
}

} // namespace sim
