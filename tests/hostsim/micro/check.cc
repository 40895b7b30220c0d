/* Runs the micro-tests of one group in the simulator and compares with what a GPU gave.
 *
 *     check GROUP GOLDEN [NAME]       NAME: only cases whose names begin so */
#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/hostsim/findings.h"
#include "tests/hostsim/hopper_tensor_map.h"
#include "tests/hostsim/micro/golden.h"

static std::map<std::string, std::string> read_golden(const char *path)
{
    std::map<std::string, std::string> lines;
    std::ifstream file(path);
    std::string line;

    while (std::getline(file, line))
        if (line[0] != '#')
            lines[line.substr(0, line.find(' '))] = line;
    return lines;
}

/* Within 2 units in the last place; of a logarithm below 1, within 2^-22: what the PTX ISA promises of ex2.approx and lg2.approx. */
static bool close_to(uint32_t bits, uint32_t other, bool logarithm)
{
    float x, y;

    memcpy(&x, &bits, 4);
    memcpy(&y, &other, 4);
    if (bits == other || !std::isfinite(x) || !std::isfinite(y))
        return bits == other;
    return std::abs((int64_t)bits - (int64_t)other) <= 2 || (logarithm && std::fabs(y) < 1 && std::fabs(x - y) <= 0x1p-22f);
}

/* `line` is what the GPU gave. */
static bool agrees(const micro_case &c, const std::string &line, const std::vector<uint32_t> &result)
{
    if (!c.approximate || result.empty())
        return line == golden_line(c, result.data(), result.size());
    std::istringstream words(line);
    std::string name, count, hash, word;
    size_t i = 0, exact = 0;

    words >> name >> count >> hash;
    for (; words >> word && i < result.size(); ++i) {
        const uint32_t other = (uint32_t)strtoul(word.c_str(), nullptr, 16);
        if (!close_to(result[i], other, c.name == "lg2")) {
            printf("%s: input %08x gives %08x, on the GPU %08x\n", name.c_str(), c.in[i], result[i], other);
            return false;
        }
        exact += result[i] == other;
    }
    printf("%s: %zu of %zu the same, the others close\n", name.c_str(), exact, i);
    return i == result.size();
}

static void *device_copy(const std::vector<uint32_t> &words)
{
    void *memory = sim::global_allocate(words.size() * 4, true);

    memcpy(sim::global_raw(memory), words.data(), words.size() * 4);
    sim::global_defined(memory, words.size() * 4, true);
    return memory;
}

static int encode(struct tensor_map *map, const micro_map &m, void *address)
{
    return sim::encode_tiled(map, m.type, (uint32_t)m.rank, address, m.dims, m.strides, m.box, m.steps, m.interleave, m.swizzle,
                             m.l2, m.fill);
}

/* Before sm_90 no kernel begins before the one ahead of it has ended, and none can wait for it. */
static bool dependent_launches = true;

typedef void kernel(const struct micro_params);
static kernel *launched;

/* Kernels are the program's own exported functions. */
static bool launch(const micro_case &c, const micro_params &params)
{
    launched = (kernel *)dlsym(RTLD_DEFAULT, c.entry.c_str());
    if (launched == nullptr) {
        printf("no kernel %s\n", c.entry.c_str());
        return false;
    }
    return sim::run({[](const void *p) { launched(*(const micro_params *)p); }, &params, c.blocks, c.threads, c.shared_bytes,
                     c.name.c_str(), c.cluster, c.launches > 1 && dependent_launches});
}

/* The case's result; empty when the simulator has a finding. */
static std::vector<uint32_t> run(const micro_case &c)
{
    static struct micro_params params; /* AddressSanitizer does not align the stack to 64 bytes */
    std::vector<uint32_t> result = c.out;
    void *in = device_copy(c.in), *out = device_copy(c.out);
    bool right = true;

    memset(&params, 0, sizeof params);
    const micro_map &m = c.map;
    const int refused = m.rank == 0 ? 0 : encode(&params.map, m, (unsigned char *)(m.of_output ? out : in) + m.offset);
    if (c.entry.empty()) {
        result[0] = (uint32_t)refused;
    } else {
        params.in = (const uint32_t *)in;
        params.out = (uint32_t *)out;
        memcpy(params.arg, c.arg, sizeof params.arg);
        right = refused == 0;
        for (uint32_t number = 0; number < c.launches && right; ++number) {
            if (c.launches > 1)
                params.arg[11] = number;
            right = launch(c, params);
        }
        memcpy(result.data(), sim::global_raw(out), result.size() * 4);
    }
    sim::global_release(in);
    sim::global_release(out);
    if (!right)
        result.clear();
    else if (c.compared != 0)
        result.resize(c.compared);
    return result;
}

/* True when the simulator gives what the GPU gave, for some seeds: orders and moments that must not matter. */
static bool check(const micro_case &c, const std::string &line)
{
    const uint64_t seeds = c.in.size() < 4096 ? 4 : 1;

    for (uint64_t seed = 1; seed <= seeds; ++seed) {
        sim::set_seed(seed);
        const std::vector<uint32_t> result = run(c);
        if (agrees(c, line, result))
            continue;
        printf("simulator: %.200s\nGPU:       %.200s\n", golden_line(c, result.data(), result.size()).c_str(), line.c_str());
        for (const sim::Finding &finding : sim::findings())
            printf("           %s\n", finding.text.c_str());
        sim::clear_findings();
        return false;
    }
    return true;
}

/* Bazel runs a sharded test several times, and tells each which part is its. */
static size_t shard(const char *variable, size_t otherwise)
{
    const char *value = getenv(variable), *file = getenv("TEST_SHARD_STATUS_FILE");

    if (file != nullptr)
        if (FILE *status = fopen(file, "w"))
            fclose(status);
    return value == nullptr ? otherwise : strtoul(value, nullptr, 10);
}

int main(int argc, char **argv)
{
    int wrong = 0, right = 0;
    size_t cases = 0;

    if (argc < 3) {
        fprintf(stderr, "usage: check GROUP GOLDEN [NAME]\n");
        return 2;
    }
    dependent_launches = strcmp(argv[1], "before90") != 0;
    const std::map<std::string, std::string> golden = read_golden(argv[2]);
    const size_t shards = shard("TEST_TOTAL_SHARDS", 1), mine = shard("TEST_SHARD_INDEX", 0);
    for (const micro_case &c : micro_cases(argv[1])) {
        ++cases;
        if (cases % shards != mine)
            continue;
        if (argc > 3 && c.name.compare(0, strlen(argv[3]), argv[3]) != 0)
            continue;
        const auto line = golden.find(c.name);
        if (check(c, line == golden.end() ? "nothing recorded" : line->second))
            ++right;
        else
            ++wrong;
    }
    if (argc == 3 && cases != golden.size()) {
        printf("%zu cases, %zu recorded\n", cases, golden.size());
        ++wrong;
    }
    printf("%d right, %d wrong\n", right, wrong);
    return wrong != 0 || right == 0;
}
