/* The micro-tests of hopper.h but for products and tensors: hopper.cu. */
#include "tests/hostsim/micro/cases.h"

using std::string;
using std::to_string;
using std::vector;

static micro_case words(const string &name, const string &entry, uint32_t blocks, uint32_t threads, uint32_t shared, size_t in,
                        size_t out)
{
    micro_random random(name);
    micro_case c;

    c.name = name;
    c.entry = "micro_" + entry;
    c.blocks = blocks;
    c.threads = threads;
    c.shared_bytes = shared;
    for (size_t i = 0; i < in; ++i)
        c.in.push_back(random.word());
    c.out.assign(out, 0);
    return c;
}

static micro_case stmatrix(const string &entry, int which)
{
    micro_case c = words(entry + "/" + to_string(which), entry, 1, 32, 1024, 128 + 32, 256);
    micro_random random(c.name + "rows");
    uint32_t rows[64]; /* every lane's own: two lanes that write one row would be a race */

    for (uint32_t i = 0; i < 64; ++i)
        rows[i] = i;
    for (uint32_t i = 0; i < 32; ++i) {
        const uint32_t j = i + random.below(64 - i), row = rows[j];
        rows[j] = rows[i];
        c.in[128 + i] = row;
    }
    return c;
}

/* A random right use of four barriers. Tests come only where the answer does not hang on time: when an arrival or an expected copy that
 * was not begun is missing, or when all has been waited for. */
static micro_case script(int which)
{
    enum { INIT, ARRIVE, ARRIVE_EXPECT, EXPECT, TEST, LOAD, WAIT, INVAL };
    struct state {
        uint32_t count, pending, bytes, phase; /* bytes: expected, not begun */
        bool flying;                           /* copies are under way */
    } barriers[4];
    micro_case c = words("mbarrier_script/" + to_string(which), "mbarrier_script", 1, 32, 1024 + 16 * 1024, 0, 0);
    micro_random random(c.name);
    uint32_t tests = 0;
    auto say = [&](uint32_t operation, uint32_t barrier, uint32_t value) {
        c.in.push_back(operation | barrier << 8 | value << 16);
    };

    for (uint32_t b = 0; b < 4; ++b) {
        barriers[b] = {1 + random.below(4), 0, 0, 0, false};
        barriers[b].pending = barriers[b].count;
        say(INIT, b, barriers[b].count);
    }
    for (int step = 0; step < 400; ++step) {
        const uint32_t b = random.below(4);
        state &s = barriers[b];
        switch (random.below(6)) {
        case 0:
        case 1:
            if (s.pending > 0) {
                const uint32_t bytes = random.below(2) ? 16 + 16 * random.below(8) : 0;
                say(bytes ? ARRIVE_EXPECT : ARRIVE, b, bytes);
                s.bytes += bytes;
                --s.pending;
            }
            break;
        case 2:
            if (s.pending > 0) {
                say(EXPECT, b, 32);
                s.bytes += 32;
            }
            break;
        case 3:
            if (s.bytes > 0) {
                say(LOAD, b, 16);
                s.bytes -= 16;
                s.flying = true;
            }
            break;
        default:
            if (s.pending > 0 || s.bytes > 0 || !s.flying)
                for (uint32_t parity = 0; parity < 2; ++parity, ++tests)
                    say(TEST, b, parity);
            break;
        }
        if (s.pending == 0 && s.bytes == 0) {
            say(WAIT, b, s.phase & 1);
            ++s.phase;
            s.pending = s.count;
            s.flying = false;
            if (random.below(8) == 0) {
                s = {1 + random.below(5), 0, 0, 0, false};
                s.pending = s.count;
                say(INVAL, b, 0);
                say(INIT, b, s.count);
            }
        }
    }
    for (uint32_t b = 0; b < 4; ++b) { /* nothing may land after the end */
        for (; barriers[b].bytes > 0; barriers[b].bytes -= 16)
            say(LOAD, b, 16);
        for (; barriers[b].pending > 0; --barriers[b].pending)
            say(ARRIVE, b, 0);
        say(WAIT, b, barriers[b].phase & 1);
    }
    c.arg[0] = (uint32_t)c.in.size();
    c.in.resize((c.in.size() + 3) / 4 * 4);
    c.arg[1] = (uint32_t)c.in.size();
    for (int i = 0; i < 64; ++i)
        c.in.push_back(random.word());
    c.out.assign(tests, 0xffffffff);
    return c;
}

static micro_case cluster()
{
    micro_case c = words("cluster", "cluster", 8, 128, 4096, 8 * 128, 8 * 512);
    micro_random random("cluster numbers");

    for (uint32_t &word : c.in)
        word = micro_f32(random, 1);
    c.cluster = 2;
    c.map.rank = 2;
    c.map.type = TENSOR_MAP_F32;
    c.map.dims[0] = 32;
    c.map.dims[1] = 32;
    c.map.strides[0] = 128;
    c.map.box[0] = 32;
    c.map.box[1] = 4;
    c.map.swizzle = TENSOR_MAP_SWIZZLE_128B;
    return c;
}

vector<micro_case> hopper_cases()
{
    vector<micro_case> cases;

    for (int i = 0; i < 4; ++i) {
        cases.push_back(stmatrix("stmatrix_x4", i));
        cases.push_back(stmatrix("stmatrix_x4_trans", i));
    }
    cases.push_back(words("elect", "elect", 1, 128, 0, 1, 4));
    cases.push_back(words("warp_first", "warp_first", 1, 128, 0, 128, 128));
    for (int i = 0; i < 16; ++i)
        cases.push_back(script(i));
    for (uint32_t rounds : {1u, 2u, 7u, 32u}) {
        cases.push_back(words("mbarrier_ring/" + to_string(rounds), "mbarrier_ring", 1, 128, 2048, 128 * rounds, 96));
        cases.back().arg[0] = rounds;
    }
    cases.push_back(words("registers", "registers", 1, 384, 1024, 256, 256));
    cases.push_back(cluster());
    for (uint32_t rounds : {1u, 2u, 5u}) {
        cases.push_back(words("mbarrier_tries/" + to_string(rounds), "mbarrier_tries", 4, 128, 4096, 512, 1024));
        cases.back().arg[0] = rounds;
        cases.back().cluster = 2;
    }
    return cases;
}
