/* Writes what one block of a variant's kernel does in the simulator, for trace.lua:
 *
 *   record --variant=NAME --out=FILE --shared=PARTS [--kernel=SUFFIX] [--block=N] [--seqlen_q=N] [--seqlen_k=N]
 *   [--seed=N]
 *
 * PARTS are those of shared memory, as the generator's record describes them. SUFFIX is that of the kernel's name,
 * "_dq" for example; without it the kernel that is named like the variant. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/hostsim/driver.h"
#include "tests/hostsim/engine.h"

extern "C" {
#include "tests/checks/experiment.h"
}

namespace
{

std::map<std::string, std::string> arguments = {
    {"kernel", ""}, {"block", "0"}, {"seqlen_q", "0"}, {"seqlen_k", "0"}, {"seed", "1"}};
std::string kernel, events;
uint32_t block, warps, blocks;

const char *last_part(const char *path)
{
    const char *slash = std::strrchr(path, '/');
    return slash != nullptr ? slash + 1 : path;
}

bool starts(const char *text, const char *with)
{
    return std::strncmp(text, with, std::strlen(with)) == 0;
}

/* A warp's event is that of its first lane, or of all lanes together. */
void note(const sim::Event &event)
{
    if (sim::launch().name != kernel || event.block != block || event.lane > 0 || event.site.line == 0)
        return;
    if (starts(event.name, "wait ") || std::strstr(event.name, "lands") != nullptr)
        return;
    std::string name = event.name;
    for (char &c : name)
        c = c == ' ' ? '_' : c;
    const bool in_shared = event.a >= sim::shared_window() &&
                           (std::strstr(event.name, "shared") != nullptr || starts(event.name, "ldmatrix") || name == "cp.async");
    warps = sim::launch().threads / 32;
    blocks = sim::launch().blocks;
    events += std::to_string(event.warp) + "\t" + name + "\t" + last_part(event.site.file) + "\t" +
              std::to_string(event.site.line) + "\t" +
              std::to_string((int64_t)(in_shared ? event.a - sim::shared_window() : event.a)) + "\t" +
              std::to_string((int64_t)event.b) + "\n";
}

int64_t number(const char *name)
{
    return std::atoll(arguments[name].c_str());
}

void record(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = experiment_new(subject, shape);

    if (subject->info.pass == GLINT_BACKWARD)
        experiment_reference(e, false);
    sim::on_event = note;
    experiment_run_plainly(e);
    sim::on_event = nullptr;
    check_within("traced", 0, 0);
}

/* Two blocks of the rows that a block owns, and as many of the others that it walks over as a picture has room for. */
struct shape shape_of(const struct glint_variant_info *info)
{
    const bool forward = info->pass == GLINT_FORWARD;
    struct shape s = {};

    s.batch = s.heads_q = s.heads_kv = 1;
    s.seqlen_q = number("seqlen_q") > 0 ? number("seqlen_q") : (forward ? 2 : 4) * info->tile_m;
    s.seqlen_k = number("seqlen_k") > 0 ? number("seqlen_k") : (forward ? 4 : 2) * info->tile_n;
    if (forward && (info->features & GLINT_FEATURE_RIGHT_BOUND) != 0 && number("seqlen_k") == 0 && s.seqlen_k < s.seqlen_q)
        s.seqlen_k = s.seqlen_q;
    s.mask = (info->features & GLINT_FEATURE_RIGHT_BOUND) != 0 ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    return s;
}

} // namespace

int main(int argc, char **argv)
{
    struct subject subject;
    char message[4096];

    for (int i = 1; i < argc; i++) {
        const char *equals = std::strchr(argv[i], '=');
        if (!starts(argv[i], "--") || equals == nullptr) {
            std::fprintf(stderr, "record: what is '%s'?\n", argv[i]);
            return 2;
        }
        arguments[std::string(argv[i] + 2, (size_t)(equals - argv[i] - 2))] = equals + 1;
    }
    if (!subject_open(&subject, test_backend(), arguments["variant"].c_str())) {
        std::fprintf(stderr, "record: no variant %s\n", arguments["variant"].c_str());
        return 2;
    }
    kernel = "glint_" + arguments["variant"] + arguments["kernel"];
    block = (uint32_t)number("block");
    sim_seed((uint64_t)number("seed"));
    struct check_list list = {};
    list.subject = &subject;
    const struct shape shape = shape_of(&subject.info);
    checks_add(&list, record, &shape, "trace");
    const bool passed = check_run(&list, &list.at[0], message, sizeof message);
    if (!passed)
        std::fprintf(stderr, "%s\n", message);
    if (events.empty()) {
        std::fprintf(stderr, "record: %s has no block %u\n", kernel.c_str(), block);
        return 1;
    }
    FILE *file = std::fopen(arguments["out"].c_str(), "w");
    if (file == nullptr)
        return 2;
    std::fprintf(file, "variant: %s%s\nabout: Block %u of %u; %lld queries, %lld keys%s\nwarps: %u\nshared: %s\n\n%s",
                 arguments["variant"].c_str(), arguments["kernel"].c_str(), block, blocks, (long long)shape.seqlen_q,
                 (long long)shape.seqlen_k, (subject.info.features & GLINT_FEATURE_RIGHT_BOUND) != 0 ? ", causal" : "", warps,
                 arguments["shared"].c_str(), events.c_str());
    return std::fclose(file) == 0 ? (passed ? 0 : 1) : 2;
}
