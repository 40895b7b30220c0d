/* The simulator's implementation of the primitives of lib/device/hopper.h. */
#ifndef GLINT_HOSTSIM_HOPPER_IMPL_H
#define GLINT_HOSTSIM_HOPPER_IMPL_H

#include "tests/hostsim/hopper.h"

#define GLINT_CLUSTER_KERNEL(threads, blocks_per_sm, cluster) GLINT_KERNEL(threads, blocks_per_sm)

/* ---- mbarrier ----------------------------------------------------------------------------------------------------------- */

GLINT_DEVICE void mbarrier_inval(uint32_t barrier, SIM_SITE)
{
    sim::mbarrier_inval(barrier, SIM_THIS);
}

GLINT_DEVICE void fence_mbarrier_init(SIM_SITE)
{
    sim::event("fence.mbarrier_init", SIM_THIS);
    sim::mbarriers_fenced();
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

GLINT_DEVICE uint32_t warp_first(uint32_t value, SIM_SITE)
{
    return sim::warp_first(value, SIM_THIS);
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

#endif
