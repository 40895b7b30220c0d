/* The micro-tests of device.h: sm80.cu. */
#include <algorithm>

#include "tests/hostsim/micro/cases.h"

using std::string;
using std::vector;

typedef uint32_t (*draw_fn)(micro_random &, int);

static uint32_t pair(micro_random &random, draw_fn draw, int regime)
{
    const uint32_t low = draw(random, regime);

    return low | draw(random, regime) << 16;
}

static micro_case start(const string &name, const string &entry, uint32_t blocks, uint32_t threads, size_t out)
{
    micro_case c;
    c.name = name;
    c.entry = "micro_" + entry;
    c.blocks = blocks;
    c.threads = threads;
    c.out.assign(out, 0);
    return c;
}

/* 64 products a regime. Products and accumulators are of one regime; now and then the accumulator is far larger, or zero. */
static void mma_cases(vector<micro_case> &cases, const string &entry, draw_fn draw, bool pairs)
{
    for (int regime = 0; regime < MICRO_REGIMES; ++regime) {
        const string name = entry + "/" + std::to_string(regime);
        micro_random random(name);
        micro_case c = start(name, entry, 16, 128, 64 * 128);
        for (int warp = 0; warp < 64; ++warp) {
            for (int i = 0; i < 6 * 32; ++i)
                c.in.push_back(pairs ? pair(random, draw, regime) : draw(random, regime));
            for (int i = 0; i < 4 * 32; ++i)
                c.in.push_back(random.below(8) == 0 ? 0 : micro_f32(random, random.below(8) == 0 ? 2 : regime));
        }
        cases.push_back(c);
    }
}

static void ldmatrix_cases(vector<micro_case> &cases, const string &entry)
{
    for (int i = 0; i < 4; ++i) {
        const string name = entry + "/" + std::to_string(i);
        micro_random random(name);
        micro_case c = start(name, entry, 1, 32, 128);
        c.shared_bytes = 4096;
        for (int word = 0; word < 1024 + 32; ++word)
            c.in.push_back(random.word());
        cases.push_back(c);
    }
}

static void number_cases(vector<micro_case> &cases)
{
    static const struct {
        const char *entry;
        int inputs, pairs;
        bool approximate;
    } table[] = {{"ex2", 1, 0, true},        {"lg2", 1, 0, true},       {"to_tf32", 1, 0, false},    {"nearest_tf32", 1, 0, false},
                 {"pack_bf16", 2, 0, false}, {"pack_f16", 2, 0, false}, {"low_bf16", 1, 1, false},   {"high_bf16", 1, 1, false},
                 {"low_f16", 1, 1, false},   {"high_f16", 1, 1, false}, {"fma_bf16x2", 3, 1, false}, {"fma_f16x2", 3, 2, false}};
    for (const auto &row : table) {
        micro_random random(row.entry);
        const uint32_t blocks = row.approximate ? 32 : 128;
        micro_case c = start(row.entry, row.entry, blocks, 128, blocks * 128);
        c.approximate = row.approximate;
        for (uint32_t i = 0; i < blocks * 128; ++i) {
            const int regime = (int)random.below(MICRO_REGIMES);
            for (int j = 0; j < row.inputs; ++j)
                c.in.push_back(row.pairs == 0   ? micro_hard_f32(random)
                               : row.pairs == 1 ? pair(random, micro_bf16, regime)
                                                : pair(random, micro_f16, regime));
        }
        cases.push_back(c);
    }
}

static micro_case random_words(const string &name, uint32_t blocks, uint32_t threads, size_t in, size_t out, uint32_t shared)
{
    micro_random random(name);
    micro_case c = start(name, name, blocks, threads, out);

    c.shared_bytes = shared;
    for (size_t i = 0; i < in; ++i)
        c.in.push_back(random.word());
    return c;
}

static micro_case atomics()
{
    micro_random random("atomics");
    micro_case c = start("atomics", "atomics", 4, 128, 3600 + 2048);

    c.compared = 3586;
    for (int i = 0; i < 512 * 5; ++i)
        c.in.push_back(micro_hard_f32(random));
    for (int i = 0; i < 512; ++i)
        c.out[(size_t)i] = i % 4 == 0 ? 0 : micro_hard_f32(random);
    return c;
}

static micro_case phases(const string &entry, uint32_t threads, const vector<uint32_t> &arguments, size_t in, size_t out)
{
    string name = entry;

    for (uint32_t argument : arguments)
        name += (name == entry ? "/" : "_") + std::to_string(argument);
    micro_case c = random_words(name, 1, threads, in, out, 2048);
    c.entry = "micro_" + entry;
    std::copy(arguments.begin(), arguments.end(), c.arg);
    return c;
}

static micro_case meetings(uint32_t count)
{
    micro_case c = phases("phase_meetings", 128, {count}, 256, 128);

    for (size_t i = 0; i < 128; ++i)
        c.arg[1] += c.in[i] = 1 + c.in[i] % 4;
    return c;
}

static micro_case dependents(uint32_t blocks)
{
    const string name = "dependents/" + std::to_string(blocks);
    micro_random random(name);
    micro_case c = start(name, "dependents", blocks, 64, blocks * 128);

    c.launches = 6;
    c.arg[0] = blocks;
    c.arg[1] = blocks < 100 ? 100 : 20;
    for (size_t i = 0; i < c.launches; ++i)
        c.in.push_back(random.word());
    for (uint32_t &word : c.out)
        word = random.word();
    return c;
}

vector<micro_case> sm80_cases()
{
    vector<micro_case> cases;

    mma_cases(cases, "mma_m16n8k16_bf16", micro_bf16, true);
    mma_cases(cases, "mma_m16n8k16_f16", micro_f16, true);
    mma_cases(cases, "mma_m16n8k8_tf32", micro_f32, false);
    ldmatrix_cases(cases, "ldmatrix_x4");
    ldmatrix_cases(cases, "ldmatrix_x4_trans");
    number_cases(cases);
    cases.push_back(random_words("shfl_xor", 1, 32, 32, 1024, 0));
    for (const micro_case &votes : {random_words("votes", 1, 128, 128, 256, 0), random_words("named_any", 1, 128, 128, 128, 0)}) {
        cases.push_back(votes);
        for (uint32_t &word : cases.back().in) /* few bits, so that some votes say no */
            word &= word * 0x9e3779b9u & word * 0x85ebca6bu & word * 0xc2b2ae35u & word >> 3;
    }
    cases.push_back(random_words("named_barriers", 1, 128, 256, 256, 1024));
    cases.push_back(random_words("cp_async", 1, 64, 64 + 64 * 80, 64 * 80, 64 * 320));
    cases.push_back(random_words("cp_async_once", 1, 64, 64 + 64 * 48, 64 * 48, 64 * 192));
    for (uint32_t blocks : {1u, 7u, 200u})
        cases.push_back(dependents(blocks));
    cases.push_back(random_words("memory", 1, 32, 512, 512, 2048));
    cases.push_back(random_words("halves", 1, 32, 96, 96, 0));
    cases.push_back(atomics());
    cases.push_back(random_words("indices", 3, 96, 3 * 96, 3 * 96 * 4, 0));
    for (uint32_t lanes : {32u, 1u, 7u}) {
        for (uint32_t steps : {1u, 2u, 9u})
            cases.push_back(phases("phase_steps", 128, {steps, lanes}, steps * 64, 64));
        for (uint32_t stages = 1; stages <= 3; ++stages)
            for (uint32_t rounds : {2u, 13u})
                cases.push_back(phases("phase_ring", 160, {rounds, lanes, stages}, rounds * 64, 96));
    }
    for (uint32_t count : {1u, 2u, 11u})
        cases.push_back(meetings(count));
    cases.push_back(random_words("messages", 8, 64, 8 * 64, 8 * 64 + 2, 128));
    return cases;
}

/* Of a GPU before sm_90: nearest_tf32, the atomics' four floats, mbarrier_wait and launches that depend on each other. */
vector<micro_case> before90_cases()
{
    vector<micro_case> cases;

    for (const micro_case &c : sm80_cases())
        if (c.name == "nearest_tf32" || c.name == "atomics" || c.name.compare(0, 6, "phase_") == 0 || c.entry == "micro_dependents")
            cases.push_back(c);
    return cases;
}
