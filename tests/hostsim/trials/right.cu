/* Kernels that are right, though a hasty judge might doubt it. out[] must hold what trials.cc says, and nothing may be
 * reported. */
#include "tests/hostsim/trials/trials.h"

#define RIGHT(name) GLINT_KERNEL(256, 1) right_##name(GLINT_PARAMS(struct trial_params) p)

/* out[t] = t + 1 in all of them, for each thread of each block (t counts through the blocks). */
GLINT_DEVICE void answer(const struct trial_params *p, uint32_t threads, uint32_t value)
{
    st_global_u32(p->out + block_index() * threads + thread_index(), value);
}

RIGHT(neighbour_after_warp_sync)
{
    const uint32_t s = shared_base(), t = thread_index();
    st_shared_u32(s + t * 4, (t ^ 1) + 1);
    warp_sync();
    answer(&p, 64, ld_shared_u32(s + (t ^ 1) * 4));
}

RIGHT(words_side_by_side)
{
    const uint32_t s = shared_base(), t = thread_index();
    st_shared_u32(s + t * 4, t + 1);
    answer(&p, 64, ld_shared_u32(s + t * 4));
}

RIGHT(through_a_third_warp)
{
    /* warp 0 tells warp 1, which tells warp 2: what the first wrote is there. */
    const uint32_t s = shared_base(), t = thread_index(), warp = t / 32;
    if (warp == 0) {
        st_shared_u32(s + t * 4, t + 64 + 1);
        named_arrive(1, 64);
    } else if (warp == 1) {
        named_sync(1, 64);
        named_arrive(2, 64);
    } else
        named_sync(2, 64);
    answer(&p, 96, warp == 2 ? ld_shared_u32(s + (t - 64) * 4) : t + 1);
}

RIGHT(barrier_again_and_again)
{
    const uint32_t s = shared_base(), t = thread_index();
    for (uint32_t i = 0; i < 5; ++i) {
        if (t < 32)
            st_shared_u32(s + t * 4, t + 32 + i - 3);
        named_sync(3, 64);
        if (t >= 32)
            answer(&p, 64, ld_shared_u32(s + (t - 32) * 4));
        named_sync(3, 64);
    }
    if (t < 32)
        answer(&p, 64, t + 1);
}

RIGHT(phases_there_and_back)
{
    /* One warp fills a word a lane and the other takes it, over and over: a barrier each way, whose phases have
     * parities in turn. */
    const uint32_t s = shared_base(), t = thread_index(), full = s + 512, empty = s + 520;
    if (t == 0) {
        mbarrier_init(full, 32);
        mbarrier_init(empty, 32);
    }
    block_sync();
    for (uint32_t i = 0; i < 5; ++i) {
        if (t < 32) {
            mbarrier_wait(empty, i & 1 ^ 1); /* at first the phase before the present one, which counts as ended */
            st_shared_u32(s + t * 4, t + 32 + i - 3);
            mbarrier_arrive(full);
        } else {
            mbarrier_wait(full, i & 1);
            answer(&p, 64, ld_shared_u32(s + (t - 32) * 4));
            mbarrier_arrive(empty);
        }
    }
    if (t < 32)
        answer(&p, 64, t + 1);
}

RIGHT(votes_of_pairs_of_warps)
{
    /* Each pair asks for itself; and what was written before is there after. */
    const uint32_t s = shared_base(), t = thread_index(), pair = t / 64;
    st_shared_u32(s + t * 4, t + 1);
    const bool first = named_any(1 + pair, 64, t == 70), second = named_any(1 + pair, 64, t < 1);
    const uint32_t other = ld_shared_u32(s + (t ^ 32) * 4);
    answer(&p, 128, first == (pair == 1) && second == (pair == 0) && other == (t ^ 32) + 1 ? t + 1 : 0);
}

RIGHT(warps_that_have_ended)
{
    /* A barrier of all threads is of those that have not ended. */
    const uint32_t s = shared_base(), t = thread_index();
    answer(&p, 64, t + 1);
    if (t >= 32)
        return;
    st_shared_u32(s + t * 4, (t ^ 1) + 1);
    block_sync();
    answer(&p, 64, ld_shared_u32(s + (t ^ 1) * 4));
}

RIGHT(own_copy)
{
    const uint32_t s = shared_base(), t = thread_index();
    cp_async_4(s + t * 4, p.in + t, true);
    cp_async_commit();
    cp_async_wait(0);
    answer(&p, 64, ld_shared_u32(s + t * 4) + 1);
}

RIGHT(copies_of_others)
{
    const uint32_t s = shared_base(), t = thread_index();
    cp_async_4(s + t * 4, p.in + (t ^ 33), true);
    cp_async_commit();
    cp_async_wait(0);
    block_sync();
    answer(&p, 64, ld_shared_u32(s + (t ^ 33) * 4) + 1);
}

RIGHT(older_groups)
{
    const uint32_t s = shared_base(), t = thread_index();
    for (uint32_t i = 0; i < 3; ++i) {
        cp_async_4(s + (i * 64 + t) * 4, p.in + t, i != 2);
        cp_async_commit();
    }
    cp_async_wait(1);
    answer(&p, 64, ld_shared_u32(s + t * 4) / 2 + (ld_shared_u32(s + (64 + t) * 4) + 1) / 2 + 1);
}

/* A wait leaves up to eleven groups. */
RIGHT(oldest_of_twelve_groups)
{
    const uint32_t s = shared_base(), t = thread_index();
    cp_async_16_once(s + t * 16, p.in + t / 4 * 4, true);
    for (uint32_t i = 0; i < 12; ++i)
        cp_async_commit();
    cp_async_wait(11);
    answer(&p, 64, ld_shared_u32(s + t * 16 + t % 4 * 4) + 1);
}

RIGHT(dependent_launch)
{
    admit_successors();
    await_predecessors();
    answer(&p, 64, ld_relaxed_u32(p.in + thread_index()) + 1);
}

/* A group without copies counts as one, and so the copy's is not the newest. */
RIGHT(empty_group_after_a_copy)
{
    const uint32_t s = shared_base(), t = thread_index();
    cp_async_4(s + t * 4, p.in + t, true);
    cp_async_commit();
    cp_async_commit();
    cp_async_wait(1);
    answer(&p, 64, ld_shared_u32(s + t * 4) + 1);
}

RIGHT(nothing_is_read_outside)
{
    const uint32_t s = shared_base(), t = thread_index();
    cp_async_16(s + t * 16, p.in + 100000, false);
    cp_async_commit();
    cp_async_wait(0);
    answer(&p, 64, ld_shared_u32(s + t * 16 + 12) + t + 1);
}

RIGHT(lanes_apart_and_together_again)
{
    const uint32_t t = thread_index();
    uint32_t value = t;
    if (t & 1)
        value += 1;
    else if (t & 2)
        value += 1;
    else
        value = t + 1;
    warp_sync();
    const float other = shfl_xor((float)value, 1);
    answer(&p, 64, (uint32_t)shfl_xor(other, 1));
}

RIGHT(one_lane_decides)
{
    const uint32_t s = shared_base(), t = thread_index();
    if (t == 17)
        st_shared_u32(s, 1);
    block_sync();
    answer(&p, 64, ld_shared_u32(s) + t);
}

RIGHT(released_by_one_acquired_by_one)
{
    /* All threads of block 0 write, one passes it on; one thread of block 1 takes it, all read. */
    const uint32_t t = thread_index();
    if (block_index() == 0) {
        answer(&p, 64, t + 1);
        block_sync();
        if (t == 0)
            st_release_u32(p.flags, 1);
    } else {
        if (t == 0)
            while (ld_acquire_u32(p.flags) == 0) {
            }
        block_sync();
        answer(&p, 64, (uint32_t)bits_of(ld_global_f32((const float *)p.out + t)) + 64);
    }
}

RIGHT(relaxed_and_a_fence)
{
    const uint32_t t = thread_index();
    if (block_index() == 0) {
        answer(&p, 64, t + 1);
        block_sync();
        if (t == 0)
            st_release_u32(p.flags, 1);
    } else {
        if (t == 0) {
            while (ld_relaxed_u32(p.flags) == 0) {
            }
            fence_device();
        }
        block_sync();
        answer(&p, 64, (uint32_t)bits_of(ld_global_f32((const float *)p.out + t)) + 64);
    }
}

RIGHT(turns)
{
    /* Blocks go one after another, by a number that each takes as it begins. */
    const uint32_t s = shared_base(), t = thread_index();
    if (t == 0) {
        const uint32_t number = atom_global_add_u32(p.flags, 1);
        while (ld_acquire_u32(p.flags + 1) != number) {
        }
        st_shared_u32(s, number);
    }
    block_sync();
    if (ld_shared_u32(s) == 0)
        st_global_u32(p.flags + 64 + t, 1);
    else
        st_global_u32(p.flags + 64 + t, bits_of(ld_global_cg_f32((const float *)p.flags + 64 + t)) + 1);
    answer(&p, 64, block_index() * 64 + t + 1);
    block_sync();
    if (t == 0)
        st_release_u32(p.flags + 1, ld_shared_u32(s) + 1);
}

RIGHT(everybody_adds)
{
    red_global_add_f32((float *)p.flags, 1.0f);
    answer(&p, 64, block_index() * 64 + thread_index() + 1);
}

RIGHT(fenced_and_bulk_loaded)
{
    const uint32_t t = thread_index();
    st_global_u32(p.flags + t, (t ^ 33) + 1);
    fence_async_global();
    trial_barrier();
    if (t == 0)
        TRIAL_LOAD(p.flags, 256);
    mbarrier_wait(shared_base(), 0);
    answer(&p, 64, ld_shared_u32(shared_base() + 128 + (t ^ 33) * 4));
}

/* One thread's fences and stores; between the second two of both, something else. */
RIGHT(own_store_fenced_and_bulk_loaded)
{
    const uint32_t s = shared_base(), t = thread_index();
    trial_barrier();
    if (t == 0) {
        fence_async_global();
        for (uint32_t i = 0; i < 64; ++i)
            st_global_u32(p.flags + i, i + 1);
        fence_async_global();
        st_global_u32(p.flags + 64, 5);
        TRIAL_LOAD(p.flags, 256);
    }
    mbarrier_wait(s, 0);
    answer(&p, 64, ld_shared_u32(s + 128 + t * 4));
}

RIGHT(fenced_and_bulk_loaded_by_another_block)
{
    const uint32_t s = shared_base(), t = thread_index();
    trial_barrier();
    if (block_index() == 0) {
        st_global_u32(p.flags + 64 + t, t + 65);
        fence_async_global();
        block_sync();
        if (t == 0)
            st_release_u32(p.flags, 1);
        answer(&p, 64, t + 1);
    } else {
        if (t == 0) {
            while (ld_acquire_u32(p.flags) == 0) {
            }
            TRIAL_LOAD(p.flags + 64, 256);
        }
        mbarrier_wait(s, 0);
        answer(&p, 64, ld_shared_u32(s + 128 + t * 4));
    }
}

/* What the copy engine wrote is seen after its wait, and after its fence what was stored there since. */
RIGHT(to_and_fro_between_the_proxies)
{
    const uint32_t s = shared_base(), t = thread_index();
    trial_barrier();
    trial_words(s + 128);
    if (t == 0) {
        bulk_store(p.flags, s + 128, 256);
        bulk_commit();
        bulk_wait<0>();
    }
    block_sync();
    const uint32_t value = bits_of(ld_global_f32((const float *)p.flags + t));
    st_global_u32(p.flags + t, 2 * value);
    fence_async_global();
    block_sync();
    if (t == 0)
        TRIAL_LOAD(p.flags, 256);
    mbarrier_wait(s, 0);
    st_global_u32(p.flags + t, 0);
    answer(&p, 64, ld_shared_u32(s + 128 + t * 4) / 2);
}

/* Also of what the copy engine wrote, without a fence. */
RIGHT(bulk_stored_and_bulk_loaded)
{
    const uint32_t s = shared_base(), t = thread_index();
    trial_barrier();
    trial_words(s + 128);
    if (t == 0) {
        bulk_store(p.flags, s + 128, 256);
        bulk_commit();
        bulk_wait<0>();
        TRIAL_LOAD(p.flags, 256);
    }
    mbarrier_wait(s, 0);
    answer(&p, 64, ld_shared_u32(s + 128 + t * 4));
}

/* Every block's copy engine adds to the same words, four times, whenever; who is the last one of all reads the sum. */
RIGHT(everybody_adds_in_bulk)
{
    const uint32_t s = shared_base(), t = thread_index();
    st_shared_u32(s + t * 4, bits_of(1.0f));
    fence_async_shared();
    block_sync();
    if (t % 32 == 0) {
        for (uint32_t i = 0; i < 2; ++i) {
            bulk_reduce_add_f32((float *)p.flags + 64, s, 256);
            bulk_commit();
            ld_relaxed_u32(p.flags + 63); /* others run meanwhile */
        }
        bulk_wait<0>();
        fence_device();
        const uint32_t before = atom_global_add_u32(p.flags, 1);
        fence_device();
        if (before == 5 && ld_global_f32((const float *)p.flags + 64 + t) != 12.0f)
            return;
    }
    answer(&p, 64, block_index() * 64 + t + 1);
}
