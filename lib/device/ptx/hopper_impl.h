/* The primitives of lib/device/hopper.h in PTX, for nvcc (-Ilib/device/ptx). */
#ifndef GLINT_DEVICE_PTX_HOPPER_IMPL_H
#define GLINT_DEVICE_PTX_HOPPER_IMPL_H

/* A kernel whose blocks come in clusters of `cluster` neighbours; the grid is a multiple of it. */
#define GLINT_CLUSTER_KERNEL(threads, blocks_per_sm, cluster) \
    extern "C" __global__ void __cluster_dims__(cluster, 1, 1) __launch_bounds__(threads, blocks_per_sm)

/* ---- mbarrier ---------------------------------------------------------------------------------------------------- */
/* What Hopper adds to the mbarriers of device.h: bytes that are expected, the cluster, and a look without waiting. */

/* "mbarrier.inval": the eight bytes may be used for something else. */
GLINT_DEVICE void mbarrier_inval(uint32_t barrier)
{
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/* "membar / fence", fence.mbarrier_init: inits of this thread are seen by the async proxy and the cluster. */
GLINT_DEVICE void fence_mbarrier_init(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* "mbarrier.arrive", .expect_tx: the present phase waits for `bytes` more bytes of bulk copies, and one arrival. */
GLINT_DEVICE void mbarrier_arrive_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* "mbarrier.expect_tx": the bytes alone. */
GLINT_DEVICE void mbarrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* "mbarrier.arrive" at a barrier of the cluster (an address of cluster_address). */
GLINT_DEVICE void mbarrier_arrive_cluster(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* "mbarrier.test_wait": has the phase ended? Never waits. */
GLINT_DEVICE bool mbarrier_test(uint32_t barrier, uint32_t parity)
{
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done;
}

/* "mbarrier.try_wait": the same, after a while of waiting for it. */
GLINT_DEVICE bool mbarrier_try_wait(uint32_t barrier, uint32_t parity)
{
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done;
}

/* The same where other blocks of the cluster arrive: what they did before is seen after. */
GLINT_DEVICE bool mbarrier_try_wait_cluster(uint32_t barrier, uint32_t parity)
{
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done;
}

/* Until it has ended. */
GLINT_DEVICE void mbarrier_wait_cluster(uint32_t barrier, uint32_t parity)
{
    while (!mbarrier_try_wait_cluster(barrier, parity))
        ;
}

/* ---- the async proxy --------------------------------------------------------------------------------------------- */

/* "membar / fence", fence.proxy.async: what this thread wrote to shared memory by the generic proxy is seen by the
 * async proxy. */
GLINT_DEVICE void fence_async_shared(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* fence.proxy.async: what this thread wrote to global memory by the generic proxy is seen by the async proxy. */
GLINT_DEVICE void fence_async_global(void)
{
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

/* ---- tiles of tensors -------------------------------------------------------------------------------------------- */
/* A tile is the box of the tensor map from at[0 ... rank - 1] on, at[0] along the contiguous dimension; `rank` is a
 * constant. In shared memory its elements lie densely, dimension 0 fastest, then swizzled; it begins at a multiple
 * of 128 bytes. What lies beyond the tensor's ends is loaded as zeros, which count as bytes, and is not stored. One
 * thread issues for all. */

/* "cp.async.bulk.tensor", global to shared; the whole box arrives at `barrier`, in bytes. */
#define GLINT_TMA_LOAD(dimensions, coordinates, ...)                                                                           \
    asm volatile("cp.async.bulk.tensor." dimensions ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint" \
                 " [%0], [%1, " coordinates "], [%2], %3;" ::"r"(shared),                                                      \
                 "l"(map), "r"(barrier), "l"(hint), __VA_ARGS__                                                                \
                 : "memory")
GLINT_DEVICE void tma_load(uint32_t shared, const struct tensor_map *map, const int rank, const int32_t at[], uint32_t barrier,
                           uint64_t hint)
{
    switch (rank) {
    case 1: GLINT_TMA_LOAD("1d", "{%4}", "r"(at[0])); break;
    case 2: GLINT_TMA_LOAD("2d", "{%4, %5}", "r"(at[0]), "r"(at[1])); break;
    case 3: GLINT_TMA_LOAD("3d", "{%4, %5, %6}", "r"(at[0]), "r"(at[1]), "r"(at[2])); break;
    case 4: GLINT_TMA_LOAD("4d", "{%4, %5, %6, %7}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])); break;
    default: GLINT_TMA_LOAD("5d", "{%4, %5, %6, %7, %8}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])); break;
    }
}

/* "cp.async.bulk.tensor", .multicast::cluster: to the same offset in every block of the cluster whose bit is set in
 * `blocks`, where the mbarrier of the same offset counts the bytes. */
#define GLINT_TMA_MULTICAST(dimensions, coordinates, ...)                                                       \
    asm volatile("cp.async.bulk.tensor." dimensions ".shared::cluster.global.tile.mbarrier::complete_tx::bytes" \
                 ".multicast::cluster.L2::cache_hint [%0], [%1, " coordinates "], [%2], %3, %4;" ::"r"(shared), \
                 "l"(map), "r"(barrier), "h"(blocks), "l"(hint), __VA_ARGS__                                    \
                 : "memory")
GLINT_DEVICE void tma_load_multicast(uint32_t shared, const struct tensor_map *map, const int rank, const int32_t at[],
                                     uint32_t barrier, uint16_t blocks, uint64_t hint)
{
    switch (rank) {
    case 1: GLINT_TMA_MULTICAST("1d", "{%5}", "r"(at[0])); break;
    case 2: GLINT_TMA_MULTICAST("2d", "{%5, %6}", "r"(at[0]), "r"(at[1])); break;
    case 3: GLINT_TMA_MULTICAST("3d", "{%5, %6, %7}", "r"(at[0]), "r"(at[1]), "r"(at[2])); break;
    case 4: GLINT_TMA_MULTICAST("4d", "{%5, %6, %7, %8}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])); break;
    default: GLINT_TMA_MULTICAST("5d", "{%5, %6, %7, %8, %9}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])); break;
    }
}

/* "cp.async.bulk.tensor", shared to global, as part of this thread's bulk group. */
#define GLINT_TMA_STORE(instruction, dimensions, coordinates, ...)                                                     \
    asm volatile(instruction dimensions ".global.shared::cta" GLINT_TMA_OPERATION ".tile.bulk_group [%0, " coordinates \
                                        "], [%1];" ::"l"(map),                                                         \
                 "r"(shared), __VA_ARGS__                                                                              \
                 : "memory")
#define GLINT_TMA_STORE_RANKS(instruction)                                                                                      \
    switch (rank) {                                                                                                             \
    case 1: GLINT_TMA_STORE(instruction, "1d", "{%2}", "r"(at[0])); break;                                                      \
    case 2: GLINT_TMA_STORE(instruction, "2d", "{%2, %3}", "r"(at[0]), "r"(at[1])); break;                                      \
    case 3: GLINT_TMA_STORE(instruction, "3d", "{%2, %3, %4}", "r"(at[0]), "r"(at[1]), "r"(at[2])); break;                      \
    case 4: GLINT_TMA_STORE(instruction, "4d", "{%2, %3, %4, %5}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])); break;      \
    default:                                                                                                                    \
        GLINT_TMA_STORE(instruction, "5d", "{%2, %3, %4, %5, %6}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])); \
        break;                                                                                                                  \
    }
GLINT_DEVICE void tma_store(const struct tensor_map *map, const int rank, const int32_t at[], uint32_t shared){
#define GLINT_TMA_OPERATION ""
    GLINT_TMA_STORE_RANKS("cp.async.bulk.tensor.")
#undef GLINT_TMA_OPERATION
}

/* "cp.reduce.async.bulk.tensor": adds the tile to the tensor, element by element in the tensor's type, each
 * atomically. */
GLINT_DEVICE void tma_reduce_add(const struct tensor_map *map, const int rank, const int32_t at[], uint32_t shared){
#define GLINT_TMA_OPERATION ".add"
    GLINT_TMA_STORE_RANKS("cp.reduce.async.bulk.tensor.")
#undef GLINT_TMA_OPERATION
}

/* "prefetch / prefetchu", .tensormap. */
GLINT_DEVICE void tma_prefetch_map(const struct tensor_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* ---- bulk copies of bytes ---------------------------------------------------------------------------------------- */
/* Addresses and `bytes` are multiples of 16. */

/* "cp.async.bulk", global to shared. */
GLINT_DEVICE void bulk_load(uint32_t shared, const void *global, uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
                 "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* "cp.async.bulk", shared to global. */
GLINT_DEVICE void bulk_store(void *global, uint32_t shared, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(global)), "r"(shared),
                 "r"(bytes)
                 : "memory");
}

/* "cp.reduce.async.bulk": adds floats, each atomically. */
GLINT_DEVICE void bulk_reduce_add_f32(float *global, uint32_t shared, uint32_t bytes)
{
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(global)),
        "r"(shared), "r"(bytes)
        : "memory");
}

/* "cp.async.bulk.commit_group": closes this thread's group of stores and reductions since the last one. */
GLINT_DEVICE void bulk_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* "cp.async.bulk.wait_group", .read: all but the newest `groups` groups have read their shared memory, which may be
 * written again. */
template <int groups> GLINT_DEVICE void bulk_wait_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(groups) : "memory");
}

/* "cp.async.bulk.wait_group": and have written global memory, for this thread to see. */
template <int groups> GLINT_DEVICE void bulk_wait(void)
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(groups) : "memory");
}

/* ---- clusters ---------------------------------------------------------------------------------------------------- */

/* "%cluster_ctarank": which block of its cluster. */
GLINT_DEVICE uint32_t cluster_rank(void)
{
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* "barrier.cluster": all threads of the cluster, whose writes before the arrival are seen after the wait. A block
 * must not end while another one may still reach into its shared memory. */
GLINT_DEVICE void cluster_arrive(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

GLINT_DEVICE void cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* "mapa": the address of the same offset in the shared memory of block `rank` of the cluster. */
GLINT_DEVICE uint32_t cluster_address(uint32_t shared, uint32_t rank)
{
    uint32_t address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
    return address;
}

/* "ld", .shared::cluster. */
GLINT_DEVICE float ld_cluster_f32(uint32_t address)
{
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
    return value;
}

/* "st", .shared::cluster. */
GLINT_DEVICE void st_cluster_f32(uint32_t address, float value)
{
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

/* ---- warps ------------------------------------------------------------------------------------------------------- */

/* "elect.sync": true in one lane of the warp. */
GLINT_DEVICE bool elect_one(void)
{
    uint32_t elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
    return elected;
}

/* "shfl.sync", .idx: the first lane's value in every lane, and known to be the same by the compiler: branches on it
 * are uniform. */
GLINT_DEVICE uint32_t warp_first(uint32_t value)
{
    return __shfl_sync(0xffffffffu, value, 0);
}

/* "setmaxnreg": this warp gives registers back, down to `registers` a thread, or waits until it has so many. A
 * multiple of 8 from 24 to 256; every warp of a warpgroup does the same; the kernel has launch bounds. */
template <int registers> GLINT_DEVICE void registers_give(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers> GLINT_DEVICE void registers_take(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

/* "stmatrix": the inverse of ldmatrix_x4. */
GLINT_DEVICE void stmatrix_x4(uint32_t row, const uint32_t r[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(r[0]), "r"(r[1]), "r"(r[2]),
                 "r"(r[3])
                 : "memory");
}

GLINT_DEVICE void stmatrix_x4_trans(uint32_t row, const uint32_t r[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}

#endif
