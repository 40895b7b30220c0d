/* Micro-kernels of the copy engine: tiles of tensors in and out, and bulk copies. */
#include "lib/device/hopper.h"
#include "tests/hostsim/micro/micro.h"

/* Arguments: 0 words of shared memory to prepare or show; 1 bytes that the copy brings; 2 the tile's offset; 3 ... 7 the tile's place. */
GLINT_DEVICE void place_of(int32_t at[5], const struct micro_params *p)
{
#pragma unroll
    for (int i = 0; i < 5; ++i)
        at[i] = (int32_t)p->arg[3 + i];
}

GLINT_DEVICE void fill_shared(uint32_t shared, const struct micro_params *p)
{
    for (uint32_t i = thread_index(); i < p->arg[0]; i += 128)
        st_shared_u32(shared + 4 * i, ld_relaxed_u32(p->in + i));
    fence_async_shared();
}

#define TMA_KERNELS(rank)                                                                  \
    GLINT_KERNEL(128, 1) micro_tma_load_##rank(GLINT_PARAMS(struct micro_params) p)        \
    {                                                                                      \
        const uint32_t shared = shared_base() + 1024, barrier = shared_base();             \
        int32_t at[5];                                                                     \
                                                                                           \
        place_of(at, &p);                                                                  \
        for (uint32_t i = thread_index(); i < p.arg[0]; i += 128)                          \
            st_shared_u32(shared + 4 * i, 0xa5a5a5a5);                                     \
        fence_async_shared();                                                              \
        if (thread_index() == 0) {                                                         \
            mbarrier_init(barrier, 1);                                                     \
            fence_mbarrier_init();                                                         \
        }                                                                                  \
        block_sync();                                                                      \
        if (thread_index() == 0) {                                                         \
            mbarrier_arrive_expect(barrier, p.arg[1]);                                     \
            tma_load(shared + p.arg[2], &p.map, rank, at, barrier, GLINT_L2_EVICT_NORMAL); \
        }                                                                                  \
        mbarrier_wait(barrier, 0);                                                         \
        for (uint32_t i = thread_index(); i < p.arg[0]; i += 128)                          \
            st_global_u32(p.out + i, ld_shared_u32(shared + 4 * i));                       \
    }                                                                                      \
    GLINT_KERNEL(128, 1) micro_tma_store_##rank(GLINT_PARAMS(struct micro_params) p)       \
    {                                                                                      \
        const uint32_t shared = shared_base() + 1024;                                      \
        int32_t at[5];                                                                     \
                                                                                           \
        place_of(at, &p);                                                                  \
        fill_shared(shared, &p);                                                           \
        block_sync();                                                                      \
        if (thread_index() == 0) {                                                         \
            tma_store(&p.map, rank, at, shared + p.arg[2]);                                \
            bulk_commit();                                                                 \
            bulk_wait_read<0>();                                                           \
            bulk_wait<0>();                                                                \
        }                                                                                  \
    }                                                                                      \
    GLINT_KERNEL(128, 1) micro_tma_reduce_##rank(GLINT_PARAMS(struct micro_params) p)      \
    {                                                                                      \
        const uint32_t shared = shared_base() + 1024;                                      \
        int32_t at[5];                                                                     \
                                                                                           \
        place_of(at, &p);                                                                  \
        fill_shared(shared, &p);                                                           \
        block_sync();                                                                      \
        if (thread_index() == 0) {                                                         \
            tma_reduce_add(&p.map, rank, at, shared + p.arg[2]);                           \
            bulk_commit();                                                                 \
            bulk_wait<0>();                                                                \
        }                                                                                  \
    }
TMA_KERNELS(1)
TMA_KERNELS(2)
TMA_KERNELS(3)
TMA_KERNELS(4)
TMA_KERNELS(5)

/* arg 1 bytes through shared memory to the output, then added to what follows there. */
GLINT_KERNEL(32, 1) micro_bulk(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t shared = shared_base() + 1024, barrier = shared_base(), bytes = p.arg[1];

    if (thread_index() == 0) {
        mbarrier_init(barrier, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect(barrier, bytes);
        bulk_load(shared, p.in, bytes, barrier);
    }
    block_sync();
    mbarrier_wait(barrier, 0);
    if (thread_index() == 0) {
        bulk_store(p.out, shared, bytes);
        bulk_commit();
        bulk_reduce_add_f32((float *)p.out + bytes / 4, shared, bytes);
        bulk_commit();
        bulk_wait_read<1>();
        bulk_wait<0>();
    }
}
