/* The micro-tests: what each is given. The same list runs on a GPU, which records what comes out, and in the simulator. */
#ifndef GLINT_HOSTSIM_MICRO_CASES_H
#define GLINT_HOSTSIM_MICRO_CASES_H

#include <cstdint>
#include <string>
#include <vector>

#include "tests/hostsim/micro/micro.h"
#include "tests/support/rand.h"

/* The arguments of cuTensorMapEncodeTiled; the tensor lies `offset` bytes into the case's input or output. */
struct micro_map {
    int rank = 0; /* none */
    bool of_output = false;
    uint64_t offset = 0;
    int type = TENSOR_MAP_U16;
    uint64_t dims[5] = {1, 1, 1, 1, 1}, strides[4] = {0, 0, 0, 0};
    uint32_t box[5] = {1, 1, 1, 1, 1}, steps[5] = {1, 1, 1, 1, 1};
    int interleave = TENSOR_MAP_NO_INTERLEAVE, swizzle = TENSOR_MAP_NO_SWIZZLE, l2 = TENSOR_MAP_L2_NONE,
        fill = TENSOR_MAP_FILL_ZERO;
};

struct micro_case {
    std::string name, entry;
    uint32_t blocks = 1, threads = 32, shared_bytes = 0, cluster = 1;
    std::vector<uint32_t> in, out; /* out: what it holds before; its first `compared` words are the result, 0: all */
    size_t compared = 0;
    bool approximate = false; /* floats, of which the simulator is close to what the GPU gives */
    uint32_t arg[12] = {0};
    uint32_t launches =
        1; /* after one another, arg[11] being the number of each; more than 1: each may begin before the one ahead has ended */
    micro_map map;
};

std::vector<micro_case> sm80_cases();
std::vector<micro_case> before90_cases(); /* those of sm80 whose primitives are others before sm_90 */
std::vector<micro_case> wgmma_cases();
std::vector<micro_case> tensor_cases(); /* TMA and bulk copies */
std::vector<micro_case> hopper_cases(); /* mbarriers, clusters, setmaxnreg */

/* One of the groups above by its name; empty for any other name. */
std::vector<micro_case> micro_cases(const std::string &group);

/* Random numbers, the same everywhere. */
struct micro_random {
    struct rand stream;
    explicit micro_random(const std::string &seed);
    uint64_t next();
    uint32_t word()
    {
        return (uint32_t)(next() >> 32);
    }
    uint32_t below(uint32_t n)
    {
        return (uint32_t)((next() >> 32) * n >> 32);
    }
};

uint64_t micro_hash(const uint32_t *words, size_t n); /* FNV-1a over the words' bytes, low byte first */

/* Random operands of matrix products, in `regime`: 0 numbers round 1; 1 a narrow and 2 the whole range of exponents; 3 cancellation;
 * 4 any bits but infinity and NaN, denormals included; 5 any bits at all; 6 zeros of either sign, ones and the smallest denormals. */
enum { MICRO_REGIMES = 7 };
uint32_t micro_bf16(micro_random &random, int regime);
uint32_t micro_f16(micro_random &random, int regime);
uint32_t micro_f32(micro_random &random, int regime); /* as tf32 and as accumulators */

/* Bits that rounding and special cases turn on: random ones, few mantissa bits, ties of bf16, f16 and tf32, values at the ends of the
 * types' ranges, denormals, infinities, NaNs. */
uint32_t micro_hard_f32(micro_random &random);

#endif
