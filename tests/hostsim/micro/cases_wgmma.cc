/* The micro-tests of wgmma.h: wgmma.cu. */
#include "tests/hostsim/micro/cases.h"

using std::string;
using std::to_string;
using std::vector;

/* How an operand of `extent` rows (m or n) lies: of a descriptor, all but the offset; and the bytes from there on that it may reach. */
struct placed {
    uint32_t leading, stride, swizzle, bytes;
};

static placed place(bool mn_major, int swizzle, uint32_t extent)
{
    const uint32_t row = 16u << swizzle, eights = (extent + 7) / 8;
    const uint32_t rows = (extent * 2 + row - 1) / row; /* MN-major: how many rows' worth along m or n */

    if (swizzle == TENSOR_MAP_NO_SWIZZLE) /* 128-byte blocks of 8 x 16 bytes, two of k beside each other in either case */
        return {128, 256, 0, eights * 256};
    if (!mn_major) /* rows of `row` bytes */
        return {16, 8 * row, (uint32_t)swizzle, eights * 8 * row};
    return {32 * row, 8 * row, (uint32_t)swizzle, rows * 32 * row}; /* 32 k, of which the product takes 16 */
}

struct kind {
    const char *type; /* bf16, f16, tf32 */
    bool a_in_registers, a_mn, b_mn;
};

static uint32_t operand_word(micro_random &random, const string &type, int regime)
{
    if (type == "tf32")
        return micro_f32(random, regime);
    auto draw = type == "f16" ? micro_f16 : micro_bf16;
    const uint32_t low = draw(random, regime);
    return low | draw(random, regime) << 16;
}

static micro_case product(const string &name, const string &entry, uint32_t n, const kind &kind, int swizzle_a, int swizzle_b,
                          int regime)
{
    const placed a = place(kind.a_mn, swizzle_a, 64), b = place(kind.b_mn, swizzle_b, n);
    micro_random random(name);
    micro_case c;

    c.name = name;
    c.entry = "micro_" + entry;
    c.threads = 128;
    c.arg[1] = 0;
    c.arg[5] = (a.bytes + 1023) / 1024 * 1024;
    const placed *both[] = {&a, &b};
    for (int i = 0; i < 2; ++i) {
        c.arg[2 + 4 * i] = both[i]->leading;
        c.arg[3 + 4 * i] = both[i]->stride;
        c.arg[4 + 4 * i] = both[i]->swizzle;
    }
    c.arg[10] = 1;
    c.shared_bytes = c.arg[5] + b.bytes + 2048;
    c.arg[0] = c.shared_bytes / 4;
    for (uint32_t i = 0; i < c.arg[0]; ++i)
        c.in.push_back(operand_word(random, kind.type, regime));
    for (uint32_t i = 0; i < 128 * n / 2; ++i)
        c.in.push_back(random.below(8) == 0 ? 0 : micro_f32(random, random.below(8) == 0 ? 2 : regime));
    for (uint32_t i = 0; i < 128 * 4; ++i)
        c.in.push_back(operand_word(random, kind.type, regime));
    c.out.assign(128 * n / 2, 0);
    return c;
}

static const kind K_MAJOR[] = {{"bf16", false, false, false}, {"f16", false, false, false}, {"tf32", false, false, false},
                               {"bf16", true, false, false},  {"f16", true, false, false},  {"tf32", true, false, false}};

static string entry_of(uint32_t n, const kind &kind)
{
    return "wgmma_n" + to_string(n) + "_" + kind.type + (kind.a_in_registers ? "_ra" : "");
}

/* Every n, type and source of a. */
static void shapes(vector<micro_case> &cases)
{
    for (uint32_t n = 8; n <= 256; n += 8)
        for (const kind &kind : K_MAJOR)
            cases.push_back(
                product(entry_of(n, kind), entry_of(n, kind), n, kind, TENSOR_MAP_SWIZZLE_128B, TENSOR_MAP_SWIZZLE_128B, 0));
}

/* Numbers of every regime. */
static void regimes(vector<micro_case> &cases)
{
    for (int regime = 1; regime < MICRO_REGIMES; ++regime)
        for (const kind &kind : K_MAJOR) {
            const string entry = entry_of(64, kind);
            cases.push_back(product(entry + "/regime" + to_string(regime), entry, 64, kind, TENSOR_MAP_SWIZZLE_64B,
                                    TENSOR_MAP_SWIZZLE_32B, regime));
        }
}

/* Every swizzle of a with every swizzle of b, in every orientation; then the same again from inside the atoms: some 16 bytes further on,
 * and some rows further on with the base offset that belongs to them. */
static void layouts(vector<micro_case> &cases, uint32_t n, const string &type)
{
    static const struct {
        const char *suffix;
        kind of;
    } orientations[] = {{"", {"", false, false, false}},  {"_nt", {"", false, false, true}}, {"_tn", {"", false, true, false}},
                        {"_tt", {"", false, true, true}}, {"_ra", {"", true, false, false}}, {"_ra_t", {"", true, false, true}}};
    for (const auto &orientation : orientations)
        for (int a = 0; a < 4; ++a)
            for (int b = 0; b < 4; ++b) {
                kind kind = orientation.of;
                kind.type = type.c_str();
                if (kind.a_in_registers && a != 0)
                    continue;
                if (type == "tf32" && (kind.a_mn || kind.b_mn)) /* K-major alone */
                    continue;
                const string entry = "wgmma_n" + to_string(n) + "_" + type + orientation.suffix;
                const string name = entry + "/a" + to_string(a) + "b" + to_string(b);
                cases.push_back(product(name, entry, n, kind, a, b, 0));

                micro_case inside = product(name + "_inside", entry, n, kind, a, b, 0);
                inside.arg[1] += a > 1 && !kind.a_mn ? 32 : 0;
                inside.arg[5] += b > 1 && !kind.b_mn ? 32 * (b - 1) : 0;
                cases.push_back(inside);

                micro_case rows = product(name + "_rows", entry, n, kind, a, b, 0);
                rows.arg[1] += a == 3 ? 128 * 2 : 0;
                rows.arg[5] += b == 3 ? 128 * 5 : 0;
                rows.arg[9] = (a == 3 ? 2u : 0u) | (b == 3 ? 5u : 0u) << 4;
                cases.push_back(rows);
                rows.name = name + "_rows_without_base";
                rows.arg[9] = 0;
                cases.push_back(rows);
            }
}

vector<micro_case> wgmma_cases()
{
    static const char *const negated[] = {"wgmma_n64_bf16_minus_a",   "wgmma_n64_bf16_minus_b",    "wgmma_n64_f16_minus_both",
                                          "wgmma_n64_f16_ra_minus_a", "wgmma_n64_tf32_minus_b",    "wgmma_n64_bf16_ra_minus_b",
                                          "wgmma_n64_tf32_minus_a",   "wgmma_n64_tf32_ra_minus_a", "wgmma_n64_tf32_ra_minus_b"};
    vector<micro_case> cases;

    shapes(cases);
    regimes(cases);
    layouts(cases, 64, "bf16");
    layouts(cases, 64, "f16");
    layouts(cases, 192, "bf16");
    layouts(cases, 256, "bf16");
    for (const string name : negated) {
        const bool tf32 = name.find("tf32") != string::npos, f16 = name.find("_f16") != string::npos;
        const kind kind = {tf32 ? "tf32" : f16 ? "f16" : "bf16", name.find("_ra") != string::npos, false, false};
        for (int regime : {0, 5}) {
            cases.push_back(product(name + "/regime" + to_string(regime), name, 64, kind, TENSOR_MAP_SWIZZLE_128B,
                                    TENSOR_MAP_SWIZZLE_128B, regime));
            cases.push_back(cases.back());
            cases.back().name += "_zeroed";
            cases.back().arg[10] = 0;
        }
    }
    cases.push_back(product("wgmma_groups", "wgmma_groups", 128, K_MAJOR[1], TENSOR_MAP_SWIZZLE_128B, TENSOR_MAP_SWIZZLE_128B, 0));
    layouts(cases, 64, "tf32");
    layouts(cases, 256, "tf32");
    cases.push_back(product("wgmma_waits", "wgmma_waits", 8, K_MAJOR[2], TENSOR_MAP_SWIZZLE_128B, TENSOR_MAP_SWIZZLE_128B, 0));
    cases.back().out.assign(8 * 4 * 128, 0);
    return cases;
}
