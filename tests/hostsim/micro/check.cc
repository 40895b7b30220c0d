/* Runs the micro-tests of one group in the simulator and compares with what a GPU gave.
 *
 *     check GROUP GOLDEN [NAME]       NAME: only cases whose names begin so */
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/hostsim/engine.h"
#include "tests/hostsim/hopper_tensor_map.h"
#include "tests/hostsim/micro/golden.h"

static std::map<std::string, std::string> read_golden(const char *path)
{
    std::map<std::string, std::string> lines;
    FILE *file = fopen(path, "r");
    char line[512];

    if (file == nullptr) {
        perror(path);
        exit(2);
    }
    while (fgets(line, sizeof line, file) != nullptr) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] != '#')
            lines[std::string(line, strcspn(line, " "))] = line;
    }
    fclose(file);
    return lines;
}

static void *device_copy(const std::vector<uint32_t> &words)
{
    void *memory = sim::global_allocate(words.size() * 4);

    memcpy(memory, words.data(), words.size() * 4);
    sim::global_defined(memory, words.size() * 4, true);
    return memory;
}

static int encode(struct tensor_map *map, const micro_map &m, void *address)
{
    return sim::encode_tiled(map, m.type, (uint32_t)m.rank, address, m.dims, m.strides, m.box, m.steps, m.interleave, m.swizzle,
                             m.l2, m.fill);
}

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
                     c.name.c_str(), c.cluster});
}

/* The case's result; empty when the simulator has a finding. */
static std::vector<uint32_t> run(const micro_case &c)
{
    struct micro_params params;
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
        right = refused == 0 && launch(c, params);
        memcpy(result.data(), out, result.size() * 4);
    }
    sim::global_release(in);
    sim::global_release(out);
    if (!right)
        result.clear();
    else if (c.compared != 0)
        result.resize(c.compared);
    return result;
}

int main(int argc, char **argv)
{
    int wrong = 0, right = 0;

    if (argc < 3) {
        fprintf(stderr, "usage: check GROUP GOLDEN [NAME]\n");
        return 2;
    }
    const std::map<std::string, std::string> golden = read_golden(argv[2]);
    size_t cases = 0;
    for (const micro_case &c : micro_cases(argv[1])) {
        ++cases;
        if (argc > 3 && c.name.compare(0, strlen(argv[3]), argv[3]) != 0)
            continue;
        const auto line = golden.find(c.name);
        const std::vector<uint32_t> result = run(c);
        const std::string mine = golden_line(c.name, result.data(), result.size());
        if (line != golden.end() && line->second == mine) {
            ++right;
            continue;
        }
        ++wrong;
        printf("simulator: %s\nGPU:       %s\n", mine.c_str(), line == golden.end() ? "nothing recorded" : line->second.c_str());
        for (const sim::Finding &finding : sim::findings())
            printf("           %s:%d: %s\n", finding.site.file, finding.site.line, finding.text.c_str());
        sim::clear_findings();
    }
    if (argc == 3 && cases != golden.size()) {
        printf("%zu cases, %zu recorded\n", cases, golden.size());
        ++wrong;
    }
    printf("%d right, %d wrong\n", right, wrong);
    return wrong != 0 || right == 0;
}
