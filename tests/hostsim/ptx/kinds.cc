/* The cases of kinds.lua: each row of arithmetic.lua on every combination of values that matter, or on a sample of
 * them. */
#include "tests/hostsim/micro/cases.h"

struct kind {
    const char *name, *entry;
    std::vector<const std::vector<uint64_t> *> operands;
    bool divides;
};

#include "tests/hostsim/ptx/kinds_table.h"

/* Tuples of a row: kinds.lua has the rule, too. */
static const uint64_t MOST = 4096, THREADS = 128;

static std::vector<uint64_t> tuple(const struct kind &kind, uint64_t n, uint64_t total)
{
    uint64_t index = total <= MOST ? n : n * 7919 % total;
    std::vector<uint64_t> values;

    for (const std::vector<uint64_t> *list : kind.operands) {
        values.push_back((*list)[index % list->size()]);
        index /= list->size();
    }
    if (kind.divides && values[1] == 0)
        values[1] = 1;
    return values;
}

static micro_case case_of(const struct kind &kind)
{
    micro_case c;
    uint64_t total = 1;

    for (const std::vector<uint64_t> *list : kind.operands)
        total *= list->size();
    const uint64_t count = total < MOST ? total : MOST;
    c.name = kind.name;
    c.entry = kind.entry;
    c.threads = (uint32_t)THREADS;
    c.blocks = (uint32_t)((count + THREADS - 1) / THREADS);
    for (uint64_t n = 0; n < (uint64_t)c.blocks * THREADS; ++n)
        for (uint64_t value : tuple(kind, n < count ? n : 0, total)) {
            c.in.push_back((uint32_t)value);
            c.in.push_back((uint32_t)(value >> 32));
        }
    c.out.resize((size_t)c.blocks * THREADS * 2);
    c.compared = 2 * count;
    return c;
}

std::vector<micro_case> micro_cases(const std::string &group)
{
    std::vector<micro_case> cases;

    if (group == "kinds")
        for (const struct kind &kind : kinds)
            cases.push_back(case_of(kind));
    return cases;
}
