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

/* What shows where nothing is loaded to. */
GLINT_DEVICE void blank_shared(uint32_t shared, const struct micro_params *p)
{
    for (uint32_t i = thread_index(); i < p->arg[0]; i += 128)
        st_shared_u32(shared + 4 * i, 0xa5a5a5a5);
    fence_async_shared();
}

#define TMA_KERNELS(rank)                                                                  \
    GLINT_KERNEL(128, 1) micro_tma_load_##rank(GLINT_PARAMS(struct micro_params) p)        \
    {                                                                                      \
        const uint32_t shared = shared_base() + 1024, barrier = shared_base();             \
        int32_t at[5];                                                                     \
                                                                                           \
        place_of(at, &p);                                                                  \
        blank_shared(shared, &p);                                                          \
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

/* As tma_load_2 of a map that was fetched beforehand, with another cache hint. */
GLINT_KERNEL(128, 1) micro_tma_prefetch_map(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t shared = shared_base() + 1024, barrier = shared_base();
    int32_t at[5];

    place_of(at, &p);
    if (thread_index() == 0) {
        tma_prefetch_map(&p.map);
        mbarrier_init(barrier, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect(barrier, p.arg[1]);
        tma_load(shared, &p.map, 2, at, barrier, GLINT_L2_EVICT_FIRST);
    }
    block_sync();
    mbarrier_wait(barrier, 0);
    for (uint32_t i = thread_index(); i < p.arg[1] / 4; i += 128)
        st_global_u32(p.out + i, ld_shared_u32(shared + 4 * i));
}

/* The copy engine reads and adds to what the block's threads stored: arg 0 words go to the output, of which the map's tile, and the last 128
 * as bulk, come back through shared memory to the words after them; then the 128 are added to themselves. */
GLINT_KERNEL(128, 1) micro_fence_async_global(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t barrier = shared_base(), tile = barrier + 1024, row = tile + p.arg[1], words = p.arg[0];
    float *last = (float *)p.out + words - 128;
    int32_t at[5];

    place_of(at, &p);
    for (uint32_t i = thread_index(); i < words; i += 128)
        st_global_u32(p.out + i, ld_relaxed_u32(p.in + i));
    fence_async_global();
    if (thread_index() == 0) {
        mbarrier_init(barrier, 1);
        fence_mbarrier_init();
    }
    block_sync();
    if (thread_index() == 0) {
        mbarrier_arrive_expect(barrier, p.arg[1] + 512);
        tma_load(tile, &p.map, 2, at, barrier, GLINT_L2_EVICT_NORMAL);
        bulk_load(row, last, 512, barrier);
    }
    mbarrier_wait(barrier, 0);
    for (uint32_t i = thread_index(); i < p.arg[1] / 4 + 128; i += 128)
        st_global_u32(p.out + words + i, ld_shared_u32(tile + 4 * i));
    block_sync();
    if (thread_index() == 0) {
        bulk_reduce_add_f32(last, row, 512);
        bulk_commit();
        bulk_wait<0>();
    }
}

/* One thread stores eight rows of 16 words through three places of shared memory: a place is filled again when the group that reads it has
 * been waited for; of what the groups wrote, each is read back as soon as its wait lets it. */
GLINT_KERNEL(32, 1) micro_bulk_groups(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t shared = shared_base();

    if (thread_index() != 0)
        return;
    for (uint32_t row = 0; row < 8; ++row) {
        const uint32_t place = shared + row % 3 * 64;
        bulk_wait_read<2>();
        for (uint32_t i = 0; i < 16; ++i)
            st_shared_u32(place + 4 * i, ld_relaxed_u32(p.in + row * 16 + i));
        fence_async_shared();
        bulk_store(p.out + row * 16, place, 64);
        bulk_commit();
        bulk_wait<3>();
        if (row >= 3)
            for (uint32_t i = 0; i < 16; ++i)
                st_global_u32(p.out + 128 + (row - 3) * 16 + i, ld_relaxed_u32(p.out + (row - 3) * 16 + i) + row);
    }
    bulk_wait<1>();
    for (uint32_t i = 0; i < 16; ++i)
        st_global_u32(p.out + 208 + i, ld_relaxed_u32(p.out + 6 * 16 + i) * 3);
    bulk_wait<0>();
}

/* Clusters of two. The second block loads a tile into every block whose bit is set in arg 8: those show the tile, the other one what was there
 * before. */
#define MULTICAST_KERNEL(rank)                                                                                \
    GLINT_CLUSTER_KERNEL(128, 1, 2) micro_tma_multicast_##rank(GLINT_PARAMS(struct micro_params) p)           \
    {                                                                                                         \
        const uint32_t shared = shared_base() + 1024, barrier = shared_base();                                \
        const bool receives = p.arg[8] >> cluster_rank() & 1;                                                 \
        int32_t at[5];                                                                                        \
                                                                                                              \
        place_of(at, &p);                                                                                     \
        blank_shared(shared, &p);                                                                             \
        if (thread_index() == 0) {                                                                            \
            mbarrier_init(barrier, 1);                                                                        \
            fence_mbarrier_init();                                                                            \
            if (receives)                                                                                     \
                mbarrier_arrive_expect(barrier, p.arg[1]);                                                    \
        }                                                                                                     \
        cluster_arrive();                                                                                     \
        cluster_wait();                                                                                       \
        if (cluster_rank() == 1 && thread_index() == 0)                                                       \
            tma_load_multicast(shared, &p.map, rank, at, barrier, (uint16_t)p.arg[8], GLINT_L2_EVICT_NORMAL); \
        if (receives)                                                                                         \
            mbarrier_wait(barrier, 0);                                                                        \
        for (uint32_t i = thread_index(); i < p.arg[0]; i += 128)                                             \
            st_global_u32(p.out + block_index() * p.arg[0] + i, ld_shared_u32(shared + 4 * i));               \
        cluster_arrive();                                                                                     \
        cluster_wait();                                                                                       \
    }
MULTICAST_KERNEL(1)
MULTICAST_KERNEL(2)
MULTICAST_KERNEL(3)
MULTICAST_KERNEL(4)
MULTICAST_KERNEL(5)
