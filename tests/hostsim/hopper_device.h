/* The simulator's implementation of the names of lib/device/hopper.h and wgmma.h. */
#ifndef GLINT_HOSTSIM_HOPPER_DEVICE_H
#define GLINT_HOSTSIM_HOPPER_DEVICE_H

#include "tests/hostsim/device.h"
#include "tests/hostsim/hopper.h"

#define GLINT_CLUSTER_KERNEL(threads, blocks_per_sm, cluster) GLINT_KERNEL(threads, blocks_per_sm)

/* ---- mbarrier ----------------------------------------------------------------------------------------------------------- */

GLINT_DEVICE void mbarrier_init(uint32_t barrier, uint32_t arrivals, SIM_SITE)
{
    sim::mbarrier_init(barrier, arrivals, SIM_THIS);
}

GLINT_DEVICE void mbarrier_inval(uint32_t barrier, SIM_SITE)
{
    sim::mbarrier_inval(barrier, SIM_THIS);
}

GLINT_DEVICE void fence_mbarrier_init(SIM_SITE)
{
    sim::event("fence.mbarrier_init", SIM_THIS);
    sim::mbarriers_fenced();
}

GLINT_DEVICE void mbarrier_arrive(uint32_t barrier, SIM_SITE)
{
    sim::mbarrier_arrive(barrier, 0, "mbarrier.arrive", SIM_THIS);
}

GLINT_DEVICE void mbarrier_arrive_expect(uint32_t barrier, uint32_t bytes, SIM_SITE)
{
    sim::mbarrier_arrive(barrier, bytes, "mbarrier.arrive.expect_tx", SIM_THIS);
}

GLINT_DEVICE void mbarrier_expect(uint32_t barrier, uint32_t bytes, SIM_SITE)
{
    sim::mbarrier_expect(barrier, bytes, SIM_THIS);
}

GLINT_DEVICE void mbarrier_arrive_cluster(uint32_t barrier, SIM_SITE)
{
    sim::cluster_mbarrier_arrive(barrier, SIM_THIS);
}

GLINT_DEVICE bool mbarrier_test(uint32_t barrier, uint32_t parity, SIM_SITE)
{
    return sim::mbarrier_test(barrier, parity, "mbarrier.test_wait", SIM_THIS);
}

GLINT_DEVICE bool mbarrier_try_wait(uint32_t barrier, uint32_t parity, SIM_SITE)
{
    return sim::mbarrier_test(barrier, parity, "mbarrier.try_wait", SIM_THIS);
}

GLINT_DEVICE bool mbarrier_try_wait_cluster(uint32_t barrier, uint32_t parity, SIM_SITE)
{
    return sim::cluster_mbarrier_test(barrier, parity, SIM_THIS);
}

GLINT_DEVICE void mbarrier_wait(uint32_t barrier, uint32_t parity, SIM_SITE)
{
    sim::mbarrier_wait(barrier, parity, SIM_THIS);
}

GLINT_DEVICE void mbarrier_wait_cluster(uint32_t barrier, uint32_t parity, SIM_SITE)
{
    sim::cluster_mbarrier_wait(barrier, parity, SIM_THIS);
}

/* ---- the async proxy ---------------------------------------------------------------------------------------------------- */

GLINT_DEVICE void fence_async_shared(SIM_SITE)
{
    sim::fence_async(SIM_THIS);
}

GLINT_DEVICE void fence_async_global(SIM_SITE)
{
    sim::fence_async_global(SIM_THIS);
}

/* ---- bulk copies -------------------------------------------------------------------------------------------------------- */

GLINT_DEVICE void tma_load(uint32_t shared, const struct tensor_map *map, const int rank, const int32_t at[], uint32_t barrier,
                           uint64_t, SIM_SITE)
{
    sim::tensor_load(shared, map, rank, at, barrier, SIM_THIS);
}

GLINT_DEVICE void tma_load_multicast(uint32_t shared, const struct tensor_map *map, const int rank, const int32_t at[],
                                     uint32_t barrier, uint16_t blocks, uint64_t, SIM_SITE)
{
    sim::cluster_tensor_load(shared, map, rank, at, barrier, blocks, SIM_THIS);
}

GLINT_DEVICE void tma_store(const struct tensor_map *map, const int rank, const int32_t at[], uint32_t shared, SIM_SITE)
{
    sim::tensor_store(map, rank, at, shared, false, SIM_THIS);
}

GLINT_DEVICE void tma_reduce_add(const struct tensor_map *map, const int rank, const int32_t at[], uint32_t shared, SIM_SITE)
{
    sim::tensor_store(map, rank, at, shared, true, SIM_THIS);
}

GLINT_DEVICE void tma_prefetch_map(const struct tensor_map *, SIM_SITE)
{
    sim::event("prefetch.tensormap", SIM_THIS);
}

GLINT_DEVICE void bulk_load(uint32_t shared, const void *global, uint32_t bytes, uint32_t barrier, SIM_SITE)
{
    sim::bulk_load(shared, global, bytes, barrier, SIM_THIS);
}

GLINT_DEVICE void bulk_store(void *global, uint32_t shared, uint32_t bytes, SIM_SITE)
{
    sim::bulk_store(global, shared, bytes, -1, SIM_THIS);
}

GLINT_DEVICE void bulk_reduce_add_f32(float *global, uint32_t shared, uint32_t bytes, SIM_SITE)
{
    sim::bulk_store(global, shared, bytes, TENSOR_MAP_F32, SIM_THIS);
}

GLINT_DEVICE void bulk_commit(SIM_SITE)
{
    sim::bulk_commit(SIM_THIS);
}

template <int groups> GLINT_DEVICE void bulk_wait_read(SIM_SITE)
{
    sim::bulk_wait(groups, true, SIM_THIS);
}

template <int groups> GLINT_DEVICE void bulk_wait(SIM_SITE)
{
    sim::bulk_wait(groups, false, SIM_THIS);
}

/* ---- clusters ----------------------------------------------------------------------------------------------------------- */

GLINT_DEVICE uint32_t cluster_rank(void)
{
    return sim::cluster_rank();
}

GLINT_DEVICE void cluster_arrive(SIM_SITE)
{
    sim::cluster_arrive(SIM_THIS);
}

GLINT_DEVICE void cluster_wait(SIM_SITE)
{
    sim::cluster_wait(SIM_THIS);
}

GLINT_DEVICE uint32_t cluster_address(uint32_t shared, uint32_t rank, SIM_SITE)
{
    return sim::cluster_address(shared, rank, SIM_THIS);
}

GLINT_DEVICE float ld_cluster_f32(uint32_t address, SIM_SITE)
{
    return sim::cluster_load(address, SIM_THIS);
}

GLINT_DEVICE void st_cluster_f32(uint32_t address, float value, SIM_SITE)
{
    sim::cluster_store(address, value, SIM_THIS);
}

/* ---- warps -------------------------------------------------------------------------------------------------------------- */

GLINT_DEVICE bool elect_one(SIM_SITE)
{
    return sim::elect_one(SIM_THIS);
}

template <int registers> GLINT_DEVICE void registers_give(SIM_SITE)
{
    static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256, "a multiple of 8 from 24 to 256");
    sim::set_registers(registers, false, SIM_THIS);
}

template <int registers> GLINT_DEVICE void registers_take(SIM_SITE)
{
    static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256, "a multiple of 8 from 24 to 256");
    sim::set_registers(registers, true, SIM_THIS);
}

GLINT_DEVICE void stmatrix_x4(uint32_t row, const uint32_t r[4], SIM_SITE)
{
    sim::store_matrices(row, r, false, SIM_THIS);
}

GLINT_DEVICE void stmatrix_x4_trans(uint32_t row, const uint32_t r[4], SIM_SITE)
{
    sim::store_matrices(row, r, true, SIM_THIS);
}

/* ---- wgmma.h ------------------------------------------------------------------------------------------------------------ */

GLINT_DEVICE void wgmma_fence(SIM_SITE)
{
    sim::wgmma_fence(SIM_THIS);
}

GLINT_DEVICE void wgmma_commit(SIM_SITE)
{
    sim::wgmma_commit(SIM_THIS);
}

template <int groups> GLINT_DEVICE void wgmma_wait(SIM_SITE)
{
    static_assert(groups >= 0 && groups <= 7, "0 to 7");
    sim::wgmma_wait(groups, SIM_THIS);
}

GLINT_DEVICE void wgmma_hold(float[], const int) {}

#define GLINT_WGMMA_16(n, type)                                                                                             \
    template <int transpose_a, int transpose_b, int scale_a = 1, int scale_b = 1>                                           \
    GLINT_DEVICE void wgmma_m64n##n##k16_##type(float d[n / 2], uint64_t a, uint64_t b, int32_t accumulate, SIM_SITE)       \
    {                                                                                                                       \
        sim::wgmma({sim::Element::type, n, d, nullptr, a, b, transpose_a != 0, transpose_b != 0, scale_a < 0, scale_b < 0,  \
                    accumulate != 0},                                                                                       \
                   SIM_THIS);                                                                                               \
    }                                                                                                                       \
    template <int transpose_b, int scale_a = 1, int scale_b = 1>                                                            \
    GLINT_DEVICE void wgmma_m64n##n##k16_##type##_ra(float d[n / 2], const uint32_t a[4], uint64_t b, int32_t accumulate,   \
                                                     SIM_SITE)                                                              \
    {                                                                                                                       \
        sim::wgmma({sim::Element::type, n, d, a, 0, b, false, transpose_b != 0, scale_a < 0, scale_b < 0, accumulate != 0}, \
                   SIM_THIS);                                                                                               \
    }

#define GLINT_WGMMA_SHAPE(n, p0, p1, p2, p3, p4, p5, p6, p7, p8)                                                                  \
    GLINT_WGMMA_16(n, bf16)                                                                                                       \
    GLINT_WGMMA_16(n, f16)                                                                                                        \
    template <int scale_a = 1, int scale_b = 1>                                                                                   \
    GLINT_DEVICE void wgmma_m64n##n##k8_tf32(float d[n / 2], uint64_t a, uint64_t b, int32_t accumulate, SIM_SITE)                \
    {                                                                                                                             \
        sim::wgmma({sim::Element::tf32, n, d, nullptr, a, b, false, false, scale_a < 0, scale_b < 0, accumulate != 0}, SIM_THIS); \
    }                                                                                                                             \
    template <int scale_a = 1, int scale_b = 1>                                                                                   \
    GLINT_DEVICE void wgmma_m64n##n##k8_tf32_ra(float d[n / 2], const uint32_t a[4], uint64_t b, int32_t accumulate, SIM_SITE)    \
    {                                                                                                                             \
        sim::wgmma({sim::Element::tf32, n, d, a, 0, b, false, false, scale_a < 0, scale_b < 0, accumulate != 0}, SIM_THIS);       \
    }

#endif
