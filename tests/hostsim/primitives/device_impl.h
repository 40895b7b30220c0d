/* The simulator's implementation of the primitives of lib/device/device.h: the same signatures, and behind each the
 * semantics of its PTX instruction. What each does is said there; here, what is looked at. Calls carry their place in
 * the kernel as a last argument that nobody writes. */
#ifndef GLINT_HOSTSIM_DEVICE_IMPL_H
#define GLINT_HOSTSIM_DEVICE_IMPL_H

#include <cstdint>
#include <cstring>

#include "tests/hostsim/copies.h"
#include "tests/hostsim/engine.h"
#include "tests/hostsim/hopper.h"
#include "tests/hostsim/numbers.h"
#include "tests/hostsim/warp.h"

#define GLINT_DEVICE static inline __attribute__((unused))
/* What micro-tests find by name. */
#define GLINT_KERNEL(threads, blocks_per_sm) extern "C" __attribute__((visibility("default"))) void
#define GLINT_PARAMS(type) const type
/* The place of the call: these two defaults, unlike a struct of them, are the caller's. */
#define SIM_SITE const char *sim_file = __builtin_FILE(), int sim_line = __builtin_LINE()
#define SIM_THIS (::sim::Site{sim_file, sim_line})

namespace sim
{
uint32_t shared_window();
}

/* Of <cmath>, which takes as long to read as many a kernel. */
extern "C" float fabsf(float x) noexcept;
extern "C" float fmaf(float x, float y, float z) noexcept;

/* "max.f32", "min.f32": of a NaN and a number, the number. The C library's are calls. */
static inline float sim_max(float a, float b)
{
    return a > b || b != b ? a : b;
}

static inline float sim_min(float a, float b)
{
    return a < b || b != b ? a : b;
}

#define fmaxf sim_max
#define fminf sim_min

/* ---- what CUDA C brings along --------------------------------------------------------------------------------------------- */

template <typename T> static inline T min(T a, T b)
{
    return b < a ? b : a;
}

template <typename T> static inline T max(T a, T b)
{
    return a < b ? b : a;
}

/* ---- where am I --------------------------------------------------------------------------------------------------------- */

GLINT_DEVICE uint32_t thread_index(void)
{
    return sim::self->index;
}

GLINT_DEVICE uint32_t thread_index_anew(void)
{
    return sim::self->index;
}

GLINT_DEVICE uint32_t lane_index(void)
{
    return sim::self->lane;
}

GLINT_DEVICE uint32_t warp_index(SIM_SITE)
{
    return sim::warp_first(sim::self->index >> 5, SIM_THIS);
}

GLINT_DEVICE uint32_t block_index(void)
{
    return sim::self->block->index;
}

/* ---- order -------------------------------------------------------------------------------------------------------------- */

GLINT_DEVICE void block_sync(SIM_SITE)
{
    sim::barrier_sync(0, sim::launch().threads, SIM_THIS);
}

GLINT_DEVICE bool block_any(bool condition, SIM_SITE)
{
    return sim::barrier_any(0, sim::launch().threads, condition, SIM_THIS);
}

GLINT_DEVICE void named_sync(uint32_t id, uint32_t threads, SIM_SITE)
{
    sim::barrier_sync(id, threads, SIM_THIS);
}

GLINT_DEVICE void named_arrive(uint32_t id, uint32_t threads, SIM_SITE)
{
    sim::barrier_arrive(id, threads, SIM_THIS);
}

GLINT_DEVICE bool named_any(uint32_t id, uint32_t threads, bool condition, SIM_SITE)
{
    return sim::barrier_any(id, threads, condition, SIM_THIS);
}

GLINT_DEVICE void mbarrier_init(uint32_t barrier, uint32_t arrivals, SIM_SITE)
{
    sim::mbarrier_init(barrier, arrivals, SIM_THIS);
}

GLINT_DEVICE void mbarrier_arrive(uint32_t barrier, SIM_SITE)
{
    sim::mbarrier_arrive(barrier, 0, "mbarrier.arrive", SIM_THIS);
}

GLINT_DEVICE void mbarrier_wait(uint32_t barrier, uint32_t parity, SIM_SITE)
{
    sim::mbarrier_wait(barrier, parity, SIM_THIS);
}

GLINT_DEVICE void warp_sync(SIM_SITE)
{
    sim::warp_sync(SIM_THIS);
}

GLINT_DEVICE bool warp_any(bool condition, SIM_SITE)
{
    return sim::warp_any(condition, SIM_THIS);
}

GLINT_DEVICE float shfl_xor(float value, uint32_t lane_mask, SIM_SITE)
{
    return sim::warp_shuffle_xor(value, lane_mask, SIM_THIS);
}

GLINT_DEVICE void fence_device(SIM_SITE)
{
    sim::event("fence", SIM_THIS);
    sim::fence();
}

/* Launches run one after another here: who does not wait is found out at its first access to global memory. */
GLINT_DEVICE void await_predecessors(SIM_SITE)
{
    sim::await_predecessors(SIM_THIS);
}

GLINT_DEVICE void admit_successors(SIM_SITE)
{
    sim::event("admit_successors", SIM_THIS);
}

/* ---- shared memory ------------------------------------------------------------------------------------------------------ */

GLINT_DEVICE uint32_t shared_base(void)
{
    return sim::shared_window();
}

template <typename T, int N>
static inline void sim_store_shared(const char *name, uint32_t address, const T (&v)[N], sim::Site site)
{
    sim::event(name, site, address, sizeof v);
    if (sim::counting)
        sim::cost_shared(name, address, sizeof v, site);
    std::memcpy(sim::shared(address, sizeof v, sim::Use::write, site), v, sizeof v);
}

template <typename T, int N> static inline void sim_load_shared(const char *name, T (&v)[N], uint32_t address, sim::Site site)
{
    sim::event(name, site, address, sizeof v);
    if (sim::counting)
        sim::cost_shared(name, address, sizeof v, site);
    std::memcpy(v, sim::shared(address, sizeof v, sim::Use::read, site), sizeof v);
}

GLINT_DEVICE void st_shared_u32(uint32_t address, uint32_t value, SIM_SITE)
{
    const uint32_t v[1] = {value};
    sim_store_shared("st.shared", address, v, SIM_THIS);
}

GLINT_DEVICE void st_shared_f32(uint32_t address, float value, SIM_SITE)
{
    const float v[1] = {value};
    sim_store_shared("st.shared", address, v, SIM_THIS);
}

GLINT_DEVICE void st_shared_f32x2(uint32_t address, float x, float y, SIM_SITE)
{
    const float v[2] = {x, y};
    sim_store_shared("st.shared.v2", address, v, SIM_THIS);
}

GLINT_DEVICE void st_shared_u32x4(uint32_t address, const uint32_t value[4], SIM_SITE)
{
    const uint32_t v[4] = {value[0], value[1], value[2], value[3]};
    sim_store_shared("st.shared.v4", address, v, SIM_THIS);
}

GLINT_DEVICE uint32_t ld_shared_u32(uint32_t address, SIM_SITE)
{
    uint32_t v[1];
    sim_load_shared("ld.shared", v, address, SIM_THIS);
    return v[0];
}

GLINT_DEVICE float ld_shared_f32(uint32_t address, SIM_SITE)
{
    float v[1];
    sim_load_shared("ld.shared", v, address, SIM_THIS);
    return v[0];
}

GLINT_DEVICE void ld_shared_f32x2(float value[2], uint32_t address, SIM_SITE)
{
    float v[2];
    sim_load_shared("ld.shared.v2", v, address, SIM_THIS);
    std::memcpy(value, v, sizeof v);
}

GLINT_DEVICE void ld_shared_u32x4(uint32_t value[4], uint32_t address, SIM_SITE)
{
    uint32_t v[4];
    sim_load_shared("ld.shared.v4", v, address, SIM_THIS);
    std::memcpy(value, v, sizeof v);
}

GLINT_DEVICE void ldmatrix_x4(uint32_t r[4], uint32_t row, SIM_SITE)
{
    sim::load_matrices(r, row, false, SIM_THIS);
}

GLINT_DEVICE void ldmatrix_x4_trans(uint32_t r[4], uint32_t row, SIM_SITE)
{
    sim::load_matrices(r, row, true, SIM_THIS);
}

/* ---- asynchronous copies ------------------------------------------------------------------------------------------------ */

static inline void sim_copy(const char *name, uint32_t shared, const void *from, uint32_t bytes, bool inside, sim::Site site)
{
    if (sim::counting) {
        sim::cost_shared(name, shared, bytes, site);
        if (inside)
            sim::cost_global("cp.async.source", from, bytes, site);
    }
    sim::copy_begin(shared, from, bytes, inside, site);
}

GLINT_DEVICE void cp_async_16(uint32_t shared, const void *from, bool inside, SIM_SITE)
{
    sim_copy("cp.async", shared, from, 16, inside, SIM_THIS);
}

GLINT_DEVICE void cp_async_16_once(uint32_t shared, const void *from, bool inside, SIM_SITE)
{
    sim_copy("cp.async", shared, from, 16, inside, SIM_THIS);
}

GLINT_DEVICE void cp_async_4(uint32_t shared, const void *from, bool inside, SIM_SITE)
{
    sim_copy("cp.async", shared, from, 4, inside, SIM_THIS);
}

GLINT_DEVICE void cp_async_commit(SIM_SITE)
{
    sim::copy_commit(SIM_THIS);
}

GLINT_DEVICE void cp_async_wait(const int groups, SIM_SITE)
{
    sim::copy_wait((uint32_t)groups, SIM_THIS);
}

/* ---- global memory ------------------------------------------------------------------------------------------------------ */

template <typename T, int N> static inline void sim_store_global(const char *name, void *to, const T (&v)[N], sim::Site site)
{
    sim::event(name, site, (uintptr_t)to, sizeof v);
    if (sim::counting)
        sim::cost_global(name, to, sizeof v, site);
    std::memcpy(sim::global(to, sizeof v, sim::Use::write, site), v, sizeof v);
}

template <typename T, int N> static inline void sim_load_global(const char *name, T (&v)[N], const void *from, sim::Site site)
{
    sim::event(name, site, (uintptr_t)from, sizeof v);
    if (sim::counting)
        sim::cost_global(name, from, sizeof v, site);
    std::memcpy(v, sim::global(from, sizeof v, sim::Use::read, site), sizeof v);
}

GLINT_DEVICE void ld_global_u32x4(uint32_t value[4], const void *from, SIM_SITE)
{
    uint32_t v[4];
    sim_load_global("ld.global.v4", v, from, SIM_THIS);
    std::memcpy(value, v, sizeof v);
}

GLINT_DEVICE void st_global_u32x4(void *to, const uint32_t value[4], SIM_SITE)
{
    const uint32_t v[4] = {value[0], value[1], value[2], value[3]};
    sim_store_global("st.global.v4", to, v, SIM_THIS);
}

GLINT_DEVICE void st_global_u32(void *to, uint32_t value, SIM_SITE)
{
    const uint32_t v[1] = {value};
    sim_store_global("st.global", to, v, SIM_THIS);
}

GLINT_DEVICE void st_global_f32x2(void *to, float x, float y, SIM_SITE)
{
    const float v[2] = {x, y};
    sim_store_global("st.global.v2", to, v, SIM_THIS);
}

GLINT_DEVICE float ld_global_f32(const float *from, SIM_SITE)
{
    float v[1];
    sim_load_global("ld.global", v, from, SIM_THIS);
    return v[0];
}

GLINT_DEVICE void st_global_f32(float *to, float value, SIM_SITE)
{
    const float v[1] = {value};
    sim_store_global("st.global", to, v, SIM_THIS);
}

GLINT_DEVICE float ld_global_cg_f32(const float *from, SIM_SITE)
{
    float v[1];
    sim_load_global("ld.global.cg", v, from, SIM_THIS);
    return v[0];
}

GLINT_DEVICE void ld_global_f32x2(float value[2], const void *from, SIM_SITE)
{
    float v[2];
    sim_load_global("ld.global.v2", v, from, SIM_THIS);
    std::memcpy(value, v, sizeof v);
}

GLINT_DEVICE uint32_t ld_global_u16(const void *from, SIM_SITE)
{
    uint16_t v[1];
    sim_load_global("ld.global.u16", v, from, SIM_THIS);
    return v[0];
}

GLINT_DEVICE void st_global_u16(void *to, uint32_t value, SIM_SITE)
{
    const uint16_t v[1] = {(uint16_t)value};
    sim_store_global("st.global.u16", to, v, SIM_THIS);
}

static inline void sim_add_global(const char *name, float *to, const float *v, uint32_t n, sim::Site site)
{
    sim::event(name, site, (uintptr_t)to, 4 * n);
    if (sim::counting)
        sim::cost_global(name, to, 4 * n, site);
    float *at = (float *)(void *)sim::global(to, 4 * n, sim::Use::atomic, site);
    for (uint32_t i = 0; i < n; ++i)
        at[i] = sim::add_flushed(at[i], v[i]);
}

GLINT_DEVICE void red_global_add_f32(float *to, float value, SIM_SITE)
{
    sim_add_global("red.global", to, &value, 1, SIM_THIS);
}

#if __CUDA_ARCH__ >= 900
GLINT_DEVICE float *slot_of_four(float *base, uint32_t thread)
{
    return base + thread * 4;
}

GLINT_DEVICE void red_four(float *slot, const float v[4], const uint32_t, SIM_SITE)
{
    sim_add_global("red.global.v4", slot, v, 4, SIM_THIS);
}

GLINT_DEVICE void st_four(float *slot, const float value[4], const uint32_t, SIM_SITE)
{
    const float v[4] = {value[0], value[1], value[2], value[3]};
    sim_store_global("st.global.v4", slot, v, SIM_THIS);
}

GLINT_DEVICE void ld_four(float value[4], const float *slot, const uint32_t, SIM_SITE)
{
    float v[4];
    sim_load_global("ld.global.cg.v4", v, slot, SIM_THIS);
    std::memcpy(value, v, sizeof v);
}
#else
GLINT_DEVICE float *slot_of_four(float *base, uint32_t thread)
{
    return base + thread;
}

GLINT_DEVICE void red_four(float *slot, const float v[4], const uint32_t threads, SIM_SITE)
{
    for (uint32_t i = 0; i < 4; ++i)
        red_global_add_f32(slot + i * threads, v[i], sim_file, sim_line);
}

GLINT_DEVICE void st_four(float *slot, const float v[4], const uint32_t threads, SIM_SITE)
{
    for (uint32_t i = 0; i < 4; ++i)
        st_global_f32(slot + i * threads, v[i], sim_file, sim_line);
}

GLINT_DEVICE void ld_four(float v[4], const float *slot, const uint32_t threads, SIM_SITE)
{
    for (uint32_t i = 0; i < 4; ++i)
        v[i] = ld_global_cg_f32(slot + i * threads, sim_file, sim_line);
}
#endif

GLINT_DEVICE uint32_t atom_global_add_u32(uint32_t *to, uint32_t value, SIM_SITE)
{
    sim::event("atom.global", SIM_THIS, (uintptr_t)to);
    uint32_t *at = (uint32_t *)(void *)sim::global(to, 4, sim::Use::atomic, SIM_THIS);
    const uint32_t before = *at;
    *at += value;
    sim::relaxed_read_from(to);
    sim::relaxed_write_to(to, true);
    sim::progress();
    return before;
}

/* CUDA's own function: relaxed, of the device. */
static inline __attribute__((unused)) uint32_t atomicMin(uint32_t *to, uint32_t value, SIM_SITE)
{
    sim::event("atom.global", SIM_THIS, (uintptr_t)to);
    uint32_t *at = (uint32_t *)(void *)sim::global(to, 4, sim::Use::atomic, SIM_THIS);
    const uint32_t before = *at;
    *at = value < before ? value : before;
    sim::relaxed_read_from(to);
    sim::relaxed_write_to(to, true);
    sim::progress();
    return before;
}

static inline __attribute__((unused)) int32_t atomicMax(int32_t *to, int32_t value, SIM_SITE)
{
    sim::event("atom.global", SIM_THIS, (uintptr_t)to);
    int32_t *at = (int32_t *)(void *)sim::global(to, 4, sim::Use::atomic, SIM_THIS);
    const int32_t before = *at;
    *at = value > before ? value : before;
    sim::relaxed_read_from(to);
    sim::relaxed_write_to(to, true);
    sim::progress();
    return before;
}

/* Reads that ask whether something has changed let others run first. */
GLINT_DEVICE uint32_t ld_relaxed_u32(const uint32_t *from, SIM_SITE)
{
    sim::poll("ld.relaxed", SIM_THIS);
    const uint32_t value = *(const uint32_t *)(const void *)sim::global_strong_read(from, SIM_THIS);
    sim::relaxed_read_from(from);
    return value;
}

GLINT_DEVICE uint32_t ld_acquire_u32(const uint32_t *from, SIM_SITE)
{
    sim::poll("ld.acquire", SIM_THIS);
    const uint32_t value = *(const uint32_t *)(const void *)sim::global_strong_read(from, SIM_THIS);
    sim::event("ld.acquire", SIM_THIS, (uintptr_t)from, value);
    sim::acquire_from(from);
    return value;
}

GLINT_DEVICE void st_release_u32(uint32_t *to, uint32_t value, SIM_SITE)
{
    sim::event("st.release", SIM_THIS, (uintptr_t)to, value);
    *(uint32_t *)(void *)sim::global_strong_write(to, SIM_THIS) = value;
    sim::release_to(to);
    sim::progress();
}

/* ---- matrix products ---------------------------------------------------------------------------------------------------- */

GLINT_DEVICE void mma_m16n8k16_bf16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, SIM_SITE)
{
    sim::multiply(sim::Element::bf16, d, a, b0, b1, SIM_THIS);
}

GLINT_DEVICE void mma_m16n8k16_f16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, SIM_SITE)
{
    sim::multiply(sim::Element::f16, d, a, b0, b1, SIM_THIS);
}

GLINT_DEVICE void mma_m16n8k8_tf32(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, SIM_SITE)
{
    sim::multiply(sim::Element::tf32, d, a, b0, b1, SIM_THIS);
}

/* ---- numbers ------------------------------------------------------------------------------------------------------------ */

GLINT_DEVICE float ex2(float x, SIM_SITE)
{
    sim::event("ex2", SIM_THIS);
    return sim::ex2(x);
}

GLINT_DEVICE float lg2(float x, SIM_SITE)
{
    sim::event("lg2", SIM_THIS);
    return sim::lg2(x);
}

GLINT_DEVICE uint32_t pack_bf16(float low, float high)
{
    return sim::to_bf16(low) | sim::to_bf16(high) << 16;
}

GLINT_DEVICE uint32_t pack_f16(float low, float high)
{
    return sim::to_f16(low) | sim::to_f16(high) << 16;
}

/* One rounding: the product and the sum are exact in double precision, or off by far less than a half's last place. */
GLINT_DEVICE uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    return sim::fma_bf16(a & 0xffff, b & 0xffff, c & 0xffff) | sim::fma_bf16(a >> 16, b >> 16, c >> 16) << 16;
}

GLINT_DEVICE uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    return sim::fma_f16(a & 0xffff, b & 0xffff, c & 0xffff) | sim::fma_f16(a >> 16, b >> 16, c >> 16) << 16;
}

GLINT_DEVICE float low_bf16(uint32_t pair)
{
    return sim::from_bf16(pair & 0xffff);
}

GLINT_DEVICE float high_bf16(uint32_t pair)
{
    return sim::from_bf16(pair >> 16);
}

GLINT_DEVICE float low_f16(uint32_t pair)
{
    return sim::from_f16(pair & 0xffff);
}

GLINT_DEVICE float high_f16(uint32_t pair)
{
    return sim::from_f16(pair >> 16);
}

GLINT_DEVICE uint32_t to_tf32(float x)
{
    return sim::round_tf32(x);
}

GLINT_DEVICE uint32_t nearest_tf32(float x)
{
#if __CUDA_ARCH__ >= 900
    return sim::nearest_tf32(x);
#else
    return to_tf32(x);
#endif
}

GLINT_DEVICE uint32_t bits_of(float x)
{
    return sim::bits_from(x);
}

GLINT_DEVICE float float_of(uint32_t bits)
{
    return sim::float_from(bits);
}

#endif
