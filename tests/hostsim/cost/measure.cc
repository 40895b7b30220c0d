/* What a GPU variant costs, counted while the simulator runs it once: measure VARIANT.
 *
 * Prints, tab-separated, for each kernel of the variant in the order of its launches
 *     kernel  ENTRY  blocks  threads  seqlen  barriers  idle   instructions at which a warp waits for others; the idle share, 1/1000
 *     place   ENTRY  PRIMITIVE  file  line  instructions  wavefronts  least  sectors  least
 *
 * All of it follows from what each thread does, not from the order in which the simulator lets threads run, so the same
 * kernels give the same bytes. For that reason reads that ask whether another block has come so far are left out: how
 * often they ask is chance. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/hostsim/cost/idle.h"
#include "tests/hostsim/driver.h"
#include "tests/hostsim/findings.h"

extern "C" {
#include "lib/context.h"
#include "lib/cuda/table.h"
#include "tests/oracle/half.h"
#include "tests/support/rand.h"
}

namespace
{

struct Key {
    std::string file;
    int line;
    std::string name;
    bool operator<(const Key &other) const
    {
        return std::tie(file, line, name) < std::tie(other.file, other.line, other.name);
    }
};

struct Kernel {
    std::string name;
    uint32_t blocks, threads;
    std::map<Key, sim::Cost> places;
    uint64_t lanes_held; /* threads at barriers that wait */
    Idle idle;
};

Kernel now;
std::vector<Kernel> kernels;

/* ---- while a kernel runs ---- */

enum class Part { nothing, instruction, sync, arrive, wait };

/* What an event is: the simulator tells of more than instructions. */
Part part_of(const char *name)
{
    static const char *const nothing[] = {"wait begins", "wait ends",  "copy lands", "block begins",
                                          "block ends",  "ld.acquire", "ld.relaxed"};
    for (const char *other : nothing)
        if (std::strcmp(name, other) == 0)
            return Part::nothing;
    if (std::strcmp(name, "bar.arrive") == 0)
        return Part::arrive;
    if (std::strcmp(name, "mbarrier.try_wait") == 0)
        return Part::wait;
    return std::strcmp(name, "bar.sync") == 0 || std::strcmp(name, "bar.red") == 0 ? Part::sync : Part::instruction;
}

void on_event(const sim::Event &event)
{
    const Part part = part_of(event.name);
    if (part == Part::nothing)
        return;
    const uint32_t lanes = event.lane < 0 ? 32 : 1;
    sim::Cost &cost = now.places[Key{event.site.file, event.site.line, event.name}];
    cost.name = event.name;
    cost.site = event.site;
    cost.instructions += lanes; /* for the time being of a lane */
    if (part == Part::sync || part == Part::wait)
        now.lanes_held += lanes;
    if (part == Part::sync || part == Part::arrive)
        now.idle.warp_comes(event.block, event.warp, (uint32_t)event.a, (uint32_t)event.b, part == Part::sync);
    else if (event.lane < 0)
        now.idle.warp_works(event.block, event.warp);
    else
        now.idle.thread_works(event.block, event.warp * 32 + (uint32_t)event.lane);
}

/* Instructions of lanes become those of warps; what the engine has counted in requests is known better. */
void finish(const char *name, uint32_t blocks, uint32_t threads)
{
    now.name = name;
    now.blocks = blocks;
    now.threads = threads;
    for (auto &place : now.places)
        place.second.instructions = (place.second.instructions + 31) / 32;
    for (const sim::Cost &cost : sim::costs())
        now.places[Key{cost.site.file, cost.site.line, cost.name}] = cost;
    kernels.push_back(std::move(now));
}

glint_cuda_driver simulator;

void begin(uint32_t threads)
{
    now = Kernel();
    now.idle = Idle(threads);
    sim::count_costs(true);
}

void end(uint32_t blocks, uint32_t threads)
{
    sim::count_costs(false);
    finish(sim::launch().name, blocks, threads);
}

glint_cu_result launch(glint_cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                       glint_cu_stream stream, void **parameters, void **extra)
{
    begin(block_x);
    const glint_cu_result result =
        simulator.launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra);
    end(grid_x, block_x);
    return result;
}

/* Clusters, and launches that depend on the one before. */
glint_cu_result launch_ex(const CUlaunchConfig_st *config, glint_cu_function function, void **parameters, void **extra)
{
    const glint_cu_launch_config *own = (const glint_cu_launch_config *)(const void *)config;
    begin(own->block[0]);
    const glint_cu_result result = simulator.launch_ex(config, function, parameters, extra);
    end(own->grid[0], own->block[0]);
    return result;
}

/* ---- the problem: one head, as many queries as keys, in decode one tile of queries that see all keys ---- */

/* Two tiles or more, so that blocks of every kind are among those that run: a second of simulation, mostly. */
int64_t seqlen_of(const glint_variant *variant)
{
    return std::max<int64_t>(256, 2 * std::max(variant->tile_m, variant->tile_n));
}

void *tensor(glint_dtype dtype, uint64_t stream, int64_t count)
{
    struct rand r = rand_stream(1, stream);
    std::vector<unsigned char> host((size_t)count * dtype_bytes(dtype));
    void *device = sim_allocate(host.size());

    for (int64_t i = 0; i < count; ++i)
        dtype_store(dtype, &host[(size_t)i * dtype_bytes(dtype)], rand_normal(&r));
    sim_put(device, host.data(), host.size());
    return device;
}

glint_tensors tensors_of(const glint_variant *variant)
{
    const glint_dtype dtype = (glint_dtype)variant->dtype;
    const int64_t rows = seqlen_of(variant), count = rows * variant->head_dim;
    const std::vector<float> lse((size_t)rows, 6.0f); /* about the logarithm of the number of keys */
    glint_tensors tensors = GLINT_TENSORS_INIT;

    tensors.q = tensor(dtype, 0, count);
    tensors.k = tensor(dtype, 1, count);
    tensors.v = tensor(dtype, 2, count);
    tensors.o = tensor(dtype, 3, count);
    tensors.dout = tensor(dtype, 4, count);
    tensors.dq = sim_allocate((size_t)count * dtype_bytes(dtype));
    tensors.dk = sim_allocate((size_t)count * dtype_bytes(dtype));
    tensors.dv = sim_allocate((size_t)count * dtype_bytes(dtype));
    tensors.lse = (float *)sim_allocate(lse.size() * sizeof(float));
    sim_put(tensors.lse, lse.data(), lse.size() * sizeof(float));
    return tensors;
}

/* The newest of the architectures that the variant was emitted for. */
uint32_t architecture_of(const glint_variant *variant)
{
    const glint_gpu_kernel *kernel = glint_gpu_kernel_of(variant);
    uint32_t newest = 0;

    for (uint32_t i = 0; i < kernel->image_count; ++i)
        newest = std::max(newest, (uint32_t)std::atoi(glint_gpu_images[kernel->first_image + i].arch));
    return newest;
}

glint_status run(uint32_t index)
{
    const glint_variant *variant = &glint_variants[index];
    const glint_pass pass = (glint_pass)variant->pass;
    std::vector<uint64_t> storage(glint_context_size() / sizeof(uint64_t) + 64);
    void *aligned = (void *)(((uintptr_t)storage.data() + 63) / 64 * 64);
    glint_options options = GLINT_OPTIONS_INIT;
    glint_context *context = nullptr;
    glint_problem problem;
    struct glint_plan plan;

    options.device = GLINT_DEVICE_CUDA_CURRENT;
    simulator = *sim_driver(architecture_of(variant));
    glint_cuda_driver counted = simulator;
    counted.launch = launch;
    counted.launch_ex = launch_ex;
    glint_status status = glint_context_init_with_driver(aligned, glint_context_size(), &options, &counted, &context);
    if (status != GLINT_OK)
        return status;
    const int64_t queries = variant->queries_up_to > 0 ? variant->tile_m : seqlen_of(variant);
    glint_problem_bhsd(&problem, (glint_dtype)variant->dtype, 1, queries, seqlen_of(variant), 1, 1, variant->head_dim);
    problem.mask = variant->queries_up_to > 0 ? GLINT_MASK_NONE : glint_mask_of(variant);
    status = glint_plan_variant(context, &problem, pass, index, &plan);
    if (status == GLINT_OK) {
        const glint_tensors tensors = tensors_of(variant);
        void *workspace = plan.workspace_bytes > 0 ? sim_allocate(plan.workspace_bytes) : nullptr;
        status =
            (pass == GLINT_FORWARD ? glint_forward : glint_backward)(&plan, &tensors, workspace, plan.workspace_bytes, nullptr);
    }
    glint_context_close(context);
    return status;
}

void print(int64_t seqlen)
{
    for (const Kernel &kernel : kernels) {
        std::printf("kernel\t%s\t%u\t%u\t%lld\t%llu\t%u\n", kernel.name.c_str(), kernel.blocks, kernel.threads, (long long)seqlen,
                    (unsigned long long)(kernel.lanes_held / 32), kernel.idle.per_mille());
        for (const auto &place : kernel.places) {
            const sim::Cost &cost = place.second;
            std::printf("place\t%s\t%s\t%s\t%d\t%llu\t%llu\t%llu\t%llu\t%llu\n", kernel.name.c_str(), cost.name.c_str(),
                        cost.site.file, cost.site.line, (unsigned long long)cost.instructions, (unsigned long long)cost.wavefronts,
                        (unsigned long long)cost.least_wavefronts, (unsigned long long)cost.sectors,
                        (unsigned long long)cost.least_sectors);
        }
    }
}

} // namespace

int main(int argc, char **argv)
{
    uint32_t index = 0;

    while (argc == 2 && index < glint_variants_count && std::strcmp(glint_variants[index].name, argv[1]) != 0)
        ++index;
    if (argc != 2 || index == glint_variants_count) {
        std::fprintf(stderr, "usage: measure VARIANT, one of the GPU variants that it was linked with\n");
        return 2;
    }
    sim::on_event = on_event;
    const glint_status status = run(index);
    if (status != GLINT_OK || sim_findings() != 0) {
        std::fprintf(stderr, "%s: %s\n", argv[1], status != GLINT_OK ? glint_status_name(status) : sim_finding_text(0));
        return 1;
    }
    print(seqlen_of(&glint_variants[index]));
    return std::ferror(stdout) || std::fclose(stdout) ? 1 : 0;
}
