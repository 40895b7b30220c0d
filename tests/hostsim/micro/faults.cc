/* Does the simulator see what is wrong with each of the kernels in faults.cu, whatever the seed? Beside each kernel are the findings that
 * are right; which of two comes first can hang on the order of threads. */
#include <cmath>
#include <cstdio>
#include <cstring>

#include "tests/hostsim/abandoned.h"
#include "tests/hostsim/findings.h"
#include "tests/hostsim/hopper_tensor_map.h"
#include "tests/hostsim/micro/micro.h"

enum { SEEDS = 12, WORDS = 4096 };

typedef void kernel(const struct micro_params);
#define FAULTS(X)                                     \
    X(product_without_wgmma_fence, "misuse")          \
    X(product_after_a_register_was_touched, "misuse") \
    X(stores_without_proxy_fence, "race")             \
    X(proxy_fence_of_one_thread_only, "race")         \
    X(product_without_barrier, "race")                \
    X(accumulator_written_under_way, "pending")       \
    X(accumulator_read_under_way, "nan")              \
    X(wait_one_group_early, "nan")                    \
    X(accumulator_held_under_way, "pending")          \
    X(operand_registers_written_under_way, "pending") \
    X(operand_overwritten_under_way, "pending")       \
    X(operand_beyond_shared_memory, "bounds")         \
    X(tile_read_without_wait, "pending")              \
    X(wrong_parity, "pending uninitialised")          \
    X(too_few_bytes_expected, "deadlock")             \
    X(refilled_while_read, "race pending deadlock")   \
    X(barrier_used_before_others_know, "race")        \
    X(barrier_unknown_to_the_copy, "misuse")          \
    X(one_arrival_too_many, "misuse")                 \
    X(barrier_stored_to, "misuse")                    \
    X(nobody_arrives, "deadlock")                     \
    X(tile_within_sixteen_bytes, "misuse")            \
    X(store_before_the_tensor, "misuse")              \
    X(store_without_proxy_fence, "race")              \
    X(source_overwritten_under_way, "pending")        \
    X(ends_under_a_store, "pending")                  \
    X(misaligned_tile, "alignment")                   \
    X(copy_beyond_the_allocation, "bounds")           \
    X(tile_loaded_without_proxy_fence, "race")        \
    X(tile_stored_without_proxy_fence, "race")        \
    X(tile_added_without_proxy_fence, "race")         \
    X(stored_tile_read_before_its_wait, "pending")    \
    X(tensor_written_under_a_load, "pending")         \
    X(registers_given_upwards, "misuse")

extern "C" {
kernel fault_none;
#define DECLARE(name, kind) kernel fault_##name;
FAULTS(DECLARE)
}

static const struct {
    const char *name;
    kernel *call;
    const char *kind;
} table[] = {{"none", fault_none, ""},
#define ROW(name, kind) {#name, fault_##name, kind},
             FAULTS(ROW)};

static kernel *running;

/* What is found: the first finding's kind, "nan" when an answer is not a number, or nothing. */
static const char *found(kernel *call, uint64_t seed)
{
    static struct micro_params params;
    const uint64_t dims[2] = {64, 64}, strides[1] = {128};
    const uint32_t box[2] = {64, 16}, steps[2] = {1, 1};
    uint32_t *in = (uint32_t *)sim::global_allocate(WORDS * 4);
    float *out = (float *)sim::global_allocate(WORDS * 4);
    const char *kind = "";

    for (uint32_t i = 0; i < WORDS; ++i) {
        in[i] = 0x3c003c00u + i % 512 * 0x10001u; /* numbers from 1 up */
        out[i] = 0;
    }
    sim::global_defined(in, WORDS * 4, true);
    sim::global_defined(out, WORDS * 4, true);
    memset(&params, 0, sizeof params);
    params.in = in;
    params.out = (uint32_t *)(void *)out;
    sim::encode_tiled(&params.map, TENSOR_MAP_F16, 2, in, dims, strides, box, steps, TENSOR_MAP_NO_INTERLEAVE,
                      TENSOR_MAP_SWIZZLE_128B, TENSOR_MAP_L2_NONE, TENSOR_MAP_FILL_ZERO);
    running = call;
    sim::set_seed(seed);
    sim::clear_findings();
    if (!sim::run({[](const void *p) { running(*(const struct micro_params *)p); }, &params, 1, 128, 32768, "fault"}))
        kind = sim::name_of(sim::findings()[0].kind);
    for (uint32_t i = 0; i < 512 && kind[0] == 0; ++i)
        if (std::isnan(out[i]))
            kind = "nan";
    sim::global_release(in);
    sim::global_release(out);
    return kind;
}

int main()
{
    int wrong = 0;

    for (const auto &row : table)
        for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
            const char *kind = found(row.call, seed);
            if (kind[0] == 0 ? row.kind[0] == 0 : strstr(row.kind, kind) != nullptr)
                continue;
            ++wrong;
            printf("%s, seed %u: '%s' is found, and '%s' was to be\n", row.name, (unsigned)seed, kind, row.kind);
            for (const sim::Finding &finding : sim::findings())
                printf("    %s\n", finding.text.c_str());
        }
    printf("%zu kernels, %d wrong\n", sizeof table / sizeof *table, wrong);
    return wrong != 0;
}
