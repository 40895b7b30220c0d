/* Micro-kernels of hopper.h: mbarriers, clusters, registers that move, stmatrix. */
#include "lib/device/hopper.h"
#include "tests/hostsim/micro/micro.h"

#define STMATRIX_KERNEL(name)                                             \
    GLINT_KERNEL(32, 1) micro_##name(GLINT_PARAMS(struct micro_params) p) \
    {                                                                     \
        const uint32_t shared = shared_base(), lane = lane_index();       \
        uint32_t r[4];                                                    \
                                                                          \
        for (uint32_t i = lane; i < 256; i += 32)                         \
            st_shared_u32(shared + 4 * i, i);                             \
        for (uint32_t i = 0; i < 4; ++i)                                  \
            r[i] = ld_relaxed_u32(p.in + 32 * i + lane);                  \
        warp_sync();                                                      \
        name(shared + ld_relaxed_u32(p.in + 128 + lane) * 16, r);         \
        warp_sync();                                                      \
        for (uint32_t i = lane; i < 256; i += 32)                         \
            st_global_u32(p.out + i, ld_shared_u32(shared + 4 * i));      \
    }
STMATRIX_KERNEL(stmatrix_x4)
STMATRIX_KERNEL(stmatrix_x4_trans)

/* How many lanes of each warp are elected: one. */
GLINT_KERNEL(128, 1) micro_elect(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t warp = warp_index();

    if (elect_one())
        atom_global_add_u32(p.out + warp, ld_relaxed_u32(p.in));
}

/* The first lane's word, in each lane of four warps. */
GLINT_KERNEL(128, 1) micro_warp_first(GLINT_PARAMS(struct micro_params) p)
{
    st_global_u32(p.out + thread_index(), warp_first(ld_relaxed_u32(p.in + thread_index())));
}

/* One thread does what the words say, on four barriers: operation, barrier, value; each test gives a word of output. */
GLINT_KERNEL(32, 1) micro_mbarrier_script(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t shared = shared_base();
    uint32_t results = 0;

    if (thread_index() != 0)
        return;
    for (uint32_t i = 0; i < p.arg[0]; ++i) {
        const uint32_t word = ld_relaxed_u32(p.in + i), barrier = shared + (word >> 8 & 3) * 8, value = word >> 16;
        switch (word & 0xff) {
        case 0:
            mbarrier_init(barrier, value);
            fence_mbarrier_init();
            break;
        case 1: mbarrier_arrive(barrier); break;
        case 2: mbarrier_arrive_expect(barrier, value); break;
        case 3: mbarrier_expect(barrier, value); break;
        case 4: st_global_u32(p.out + results++, mbarrier_test(barrier, value)); break;
        case 5: bulk_load(shared + 1024 + i % 1024 * 16, p.in + p.arg[1], value, barrier); break;
        case 6: mbarrier_wait(barrier, value); break;
        default: mbarrier_inval(barrier); break;
        }
    }
}

/* A ring of two stages of 512 bytes: warp 0 loads, warps 1 ... 3 sum what comes by. Barriers: full of stage 0, 1, empty of stage 0, 1. */
GLINT_KERNEL(128, 1) micro_mbarrier_ring(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t full = shared_base(), empty = full + 16, stages = full + 1024, rounds = p.arg[0];

    if (thread_index() == 0) {
        for (uint32_t stage = 0; stage < 2; ++stage) {
            mbarrier_init(full + 8 * stage, 1);
            mbarrier_init(empty + 8 * stage, 3);
        }
        fence_mbarrier_init();
    }
    block_sync();
    if (warp_index() == 0) {
        if (elect_one())
            for (uint32_t i = 0; i < rounds; ++i) {
                const uint32_t stage = i % 2;
                mbarrier_wait(empty + 8 * stage, (i / 2 & 1) ^ 1);
                mbarrier_arrive_expect(full + 8 * stage, 512);
                bulk_load(stages + 512 * stage, p.in + i * 128, 512, full + 8 * stage);
            }
    } else {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < rounds; ++i) {
            const uint32_t stage = i % 2;
            mbarrier_wait(full + 8 * stage, i / 2 & 1);
            for (uint32_t j = 0; j < 4; ++j)
                sum = sum * 31 + ld_shared_u32(stages + 512 * stage + ((lane_index() + 32 * (j + warp_index())) % 128) * 4);
            warp_sync();
            if (lane_index() == 0)
                mbarrier_arrive(empty + 8 * stage);
        }
        st_global_u32(p.out + thread_index() - 32, sum);
    }
}

/* Three warpgroups, one of which gives its registers to the others. */
GLINT_KERNEL(384, 1) micro_registers(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t shared = shared_base();

    if (warp_index() < 4) {
        registers_give<24>();
        for (uint32_t i = thread_index(); i < 256; i += 128)
            st_shared_u32(shared + 4 * i, ld_relaxed_u32(p.in + i));
        named_arrive(1, 384);
    } else {
        registers_take<240>();
        named_sync(1, 384);
        st_global_u32(p.out + thread_index() - 128, ld_shared_u32(shared + 4 * (383 - thread_index())) * 3);
    }
}

/* Clusters of two: each block sends 128 words to the other, adds to what it was sent, and is read by the other; block 0 of the cluster
 * loads two tiles for both; an mbarrier of each counts the other's threads. */
GLINT_CLUSTER_KERNEL(128, 1, 2) micro_cluster(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t barrier = shared_base(), arrivals = barrier + 8, mine = barrier + 1024, tiles = barrier + 2048;
    const uint32_t rank = cluster_rank(), thread = thread_index(), other = rank ^ 1;
    uint32_t *out = p.out + block_index() * 512 + thread;
    const float x = float_of(ld_relaxed_u32(p.in + block_index() * 128 + thread));
    const int32_t at[2] = {0, (int32_t)(block_index() / 2 * 8)};
    const int32_t next[2] = {0, (int32_t)(block_index() / 2 * 8 + 4)};

    if (thread == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init(arrivals, 128);
        fence_mbarrier_init();
        mbarrier_arrive_expect(barrier, 1024);
    }
    cluster_arrive();
    cluster_wait();
    if (rank == 0 && thread == 0) {
        tma_load_multicast(tiles, &p.map, 2, at, barrier, 3, GLINT_L2_EVICT_NORMAL);
        tma_load_multicast(tiles + 512, &p.map, 2, next, barrier, 3, GLINT_L2_EVICT_LAST);
    }
    st_cluster_f32(cluster_address(mine + 4 * thread, other), x);
    mbarrier_arrive_cluster(cluster_address(arrivals, other));
    mbarrier_wait_cluster(arrivals, 0);
    const float sum = ld_shared_f32(mine + 4 * thread) + x;
    st_global_u32(out, bits_of(sum));
    st_shared_f32(mine + 512 + 4 * thread, sum * 2);
    cluster_arrive();
    cluster_wait();
    st_global_u32(out + 128, bits_of(ld_cluster_f32(cluster_address(mine + 512 + 4 * (127 - thread), other))));
    mbarrier_wait(barrier, 0);
    st_global_u32(out + 256, ld_shared_u32(tiles + 4 * thread));
    st_global_u32(out + 384, ld_shared_u32(tiles + 512 + 4 * thread));
    cluster_arrive();
    cluster_wait();
}

/* A loop round each try: clusters of two, whose threads store a word into the other block's shared memory and one to global memory, and let
 * the other block's barrier know; then, the same within the block by another barrier, over and over. arg 0: rounds. */
GLINT_CLUSTER_KERNEL(128, 1, 2) micro_mbarrier_tries(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t remote = shared_base(), local = remote + 8, words = remote + 1024, thread = thread_index();
    const uint32_t other = cluster_rank() ^ 1, neighbour = thread % 2 == 0 ? thread + 1 : thread - 1;
    uint32_t *mine = p.out + block_index() * 128 + thread, *theirs = p.out + (block_index() ^ 1) * 128 + neighbour;
    uint32_t x = ld_relaxed_u32(p.in + block_index() * 128 + thread);

    if (thread == 0) {
        mbarrier_init(remote, 128);
        mbarrier_init(local, 128);
        fence_mbarrier_init();
    }
    cluster_arrive();
    cluster_wait();
    for (uint32_t round = 0; round < p.arg[0]; ++round) {
        st_cluster_f32(cluster_address(words + 4 * neighbour, other), float_of(x & 0x3fffffff));
        st_global_u32(mine, x);
        mbarrier_arrive_cluster(cluster_address(remote, other));
        while (!mbarrier_try_wait_cluster(remote, round & 1))
            ;
        x = x * 31 + ld_shared_u32(words + 4 * thread) + bits_of(ld_global_cg_f32((const float *)theirs));
        st_shared_u32(words + 1024 + 4 * thread, x);
        mbarrier_arrive(local);
        while (!mbarrier_try_wait(local, round & 1))
            ;
        x += ld_shared_u32(words + 1024 + 4 * ((thread + 37 * round + 1) % 128));
        cluster_arrive();
        cluster_wait();
    }
    st_global_u32(mine + 512, x);
}
