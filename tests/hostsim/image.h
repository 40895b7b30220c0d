/* What stands in a table row where a cubin would: the kernels of an emitted file, compiled for this machine. Each
 * variant's file is compiled as part of a source that ends with
 *
 *     SIM_IMAGE(glint_<variant>__sm90_cubin, SIM_ENTRY(glint_<variant>), SIM_ENTRY(...), ...);
 */
#ifndef GLINT_HOSTSIM_IMAGE_H
#define GLINT_HOSTSIM_IMAGE_H

#include <cstdint>

#include "tests/hostsim/engine.h"

namespace sim
{

struct Entry {
    const char *name;
    void (*call)(const void *parameters);
    uint32_t parameter_bytes;
};

constexpr int MOST_ENTRIES = 12; /* GLINT_GPU_MAX_LAUNCHES of lib/cuda/kernel.h */

struct Image {
    uint64_t magic;
    Entry entry[MOST_ENTRIES]; /* ends with a name of null, or is full */
};

constexpr uint64_t IMAGE_MAGIC = UINT64_C(0x6d697374736f6867);

/* All of an image that has a kernel of each name, and launches none. */
constexpr uint64_t NO_KERNELS_MAGIC = UINT64_C(0x6d69737465697571);

template <typename P> constexpr uint32_t parameter_bytes(void (*)(P))
{
    return sizeof(P);
}

template <typename F, F *kernel> struct Caller;

template <typename P, void (*kernel)(P)> struct Caller<void(P), kernel> {
    static void call(const void *parameters)
    {
        kernel(*static_cast<const P *>(parameters));
    }
};

} // namespace sim

#define SIM_ENTRY(kernel)                                                                           \
    {                                                                                               \
#kernel, ::sim::Caller < decltype(kernel), &kernel> ::call, ::sim::parameter_bytes(&kernel) \
    }
#define SIM_IMAGE(symbol, ...)                                                   \
    extern "C" {                                                                 \
    extern const ::sim::Image symbol;                                            \
    alignas(64) const ::sim::Image symbol = {::sim::IMAGE_MAGIC, {__VA_ARGS__}}; \
    }

#endif
