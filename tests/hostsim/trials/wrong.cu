/* Kernels that are wrong, each in one way. The line that a report must name ends in HERE; where two lines take part in
 * a race, either may be named, and both are marked. Threads, blocks and shared bytes of each are in trials.cc.
 *
 * Not seen, and so not here: lanes of a warp that meet in one warp-wide instruction of a function that they called from
 * two places (the place of the instruction is all that the simulator compares). */
#include "tests/hostsim/trials/trials.h"

#define WRONG(name) GLINT_KERNEL(256, 1) wrong_##name(GLINT_PARAMS(struct trial_params) p)

/* ---- races in shared memory ---------------------------------------------------------------------------------------------------- */

WRONG(neighbour_in_the_warp)
{
    const uint32_t s = shared_base(), t = thread_index();
    st_shared_u32(s + t * 4, t);                              /* HERE */
    st_global_u32(p.out + t, ld_shared_u32(s + (t ^ 1) * 4)); /* HERE */
}

WRONG(shuffle_orders_nothing)
{
    const uint32_t s = shared_base(), t = thread_index();
    st_shared_u32(s + t * 4, t); /* HERE */
    shfl_xor(1.0f, 1);
    warp_any(true);
    st_global_u32(p.out + t, ld_shared_u32(s + (t ^ 1) * 4)); /* HERE */
}

WRONG(warp_sync_is_of_one_warp)
{
    const uint32_t s = shared_base(), t = thread_index();
    st_shared_u32(s + t * 4, t); /* HERE */
    warp_sync();
    st_global_u32(p.out + t, ld_shared_u32(s + (t ^ 32) * 4)); /* HERE */
}

WRONG(written_again_while_read)
{
    const uint32_t s = shared_base(), t = thread_index();
    st_shared_u32(s + t * 4, t);
    block_sync();
    st_global_u32(p.out + t, ld_shared_u32(s + (t ^ 32) * 4)); /* HERE */
    st_shared_u32(s + t * 4, 2 * t);                           /* HERE */
}

WRONG(written_by_one_of_two_readers)
{
    const uint32_t s = shared_base(), t = thread_index();
    if (t == 0)
        st_shared_u32(s, 1);
    warp_sync();
    st_global_u32(p.out + t, ld_shared_u32(s)); /* HERE */
    if (t == 31)
        st_shared_u32(s, 2); /* HERE */
}

WRONG(written_by_the_first_reader)
{
    const uint32_t s = shared_base(), t = thread_index();
    if (t == 0)
        st_shared_u32(s, 1);
    warp_sync();
    st_global_u32(p.out + t, ld_shared_u32(s)); /* HERE */
    if (t == 0)
        st_shared_u32(s, 2); /* HERE */
}

WRONG(two_writers)
{
    st_shared_u32(shared_base() + thread_index() / 2 * 4, 1); /* HERE */
}

WRONG(wide_store_over_a_narrow_one)
{
    const uint32_t s = shared_base(), v[4] = {1, 2, 3, 4};
    if (thread_index() == 0)
        st_shared_u32x4(s, v); /* HERE */
    if (thread_index() == 33)
        st_shared_u32(s + 12, 5); /* HERE */
}

WRONG(ldmatrix_before_the_row_is_there)
{
    const uint32_t s = shared_base(), v[4] = {1, 2, 3, 4};
    uint32_t r[4];
    st_shared_u32x4(s + lane_index() * 16, v); /* HERE */
    ldmatrix_x4(r, s + lane_index() * 16);     /* HERE */
    st_global_u32(p.out + lane_index(), r[0]);
}

WRONG(barrier_of_others)
{
    const uint32_t s = shared_base(), t = thread_index(), warp = t / 32;
    if (warp == 0)
        st_shared_u32(s + t * 4, t); /* HERE */
    named_sync(1 + warp / 2, 64);    /* warps 0 and 1, 2 and 3 */
    if (warp == 2)
        st_global_u32(p.out + t, ld_shared_u32(s + (t & 31) * 4)); /* HERE */
}

WRONG(arrived_and_not_waited)
{
    const uint32_t s = shared_base(), t = thread_index();
    if (t >= 32)
        st_shared_u32(s + t * 4, t); /* HERE */
    if (t >= 32)
        named_sync(1, 64);
    else
        named_arrive(1, 64);
    if (t < 32)
        st_global_u32(p.out + t, ld_shared_u32(s + (t ^ 32) * 4)); /* HERE */
}

WRONG(written_after_the_arrival)
{
    const uint32_t s = shared_base(), t = thread_index();
    if (t < 32) {
        named_arrive(1, 64);
        st_shared_u32(s + t * 4, t); /* HERE */
    } else {
        named_sync(1, 64);
        st_global_u32(p.out + t, ld_shared_u32(s + (t ^ 32) * 4)); /* HERE */
    }
}

/* ---- asynchronous copies ------------------------------------------------------------------------------------------------------- */

WRONG(copy_read_without_wait)
{
    const uint32_t s = shared_base(), t = thread_index();
    cp_async_4(s + t * 4, p.in + t, true);
    cp_async_commit();
    st_global_u32(p.out + t, ld_shared_u32(s + t * 4)); /* HERE */
}

WRONG(copy_in_no_group)
{
    const uint32_t s = shared_base(), t = thread_index();
    cp_async_4(s + t * 4, p.in + t, true);
    cp_async_wait(0);
    st_global_u32(p.out + t, ld_shared_u32(s + t * 4)); /* HERE */
}

WRONG(newest_group_read)
{
    const uint32_t s = shared_base(), t = thread_index();
    for (uint32_t i = 0; i < 3; ++i) {
        cp_async_4(s + (i * 32 + t) * 4, p.in + t, true);
        cp_async_commit();
    }
    cp_async_wait(1);
    st_global_u32(p.out + t, ld_shared_u32(s + (64 + t) * 4)); /* HERE */
}

WRONG(newest_group_is_not_the_empty_one)
{
    const uint32_t s = shared_base(), t = thread_index();
    cp_async_commit();
    cp_async_4(s + t * 4, p.in + t, true);
    cp_async_commit();
    cp_async_wait(1);
    st_global_u32(p.out + t, ld_shared_u32(s + t * 4)); /* HERE */
}

WRONG(second_of_twelve_groups)
{
    const uint32_t s = shared_base(), t = thread_index();
    cp_async_commit();
    cp_async_16_once(s + t * 16, p.in, true);
    for (uint32_t i = 1; i < 12; ++i)
        cp_async_commit();
    cp_async_wait(11);
    st_global_u32(p.out + t, ld_shared_u32(s + t * 16)); /* HERE */
}

WRONG(copy_of_another_thread)
{
    const uint32_t s = shared_base(), t = thread_index();
    cp_async_4(s + t * 4, p.in + t, true); /* HERE */
    cp_async_commit();
    cp_async_wait(0);
    st_global_u32(p.out + t, ld_shared_u32(s + (t ^ 1) * 4)); /* HERE */
}

WRONG(wait_of_another_thread)
{
    const uint32_t s = shared_base(), t = thread_index();
    if (t < 32) {
        cp_async_4(s + t * 4, p.in + t, true);
        cp_async_commit();
    } else
        cp_async_wait(0);
    block_sync();
    if (t >= 32)
        st_global_u32(p.out + t, ld_shared_u32(s + (t & 31) * 4)); /* HERE */
}

WRONG(stored_under_a_copy)
{
    const uint32_t s = shared_base(), t = thread_index();
    cp_async_4(s + t * 4, p.in + t, true);
    cp_async_commit();
    st_shared_u32(s + t * 4, 7); /* HERE */
    cp_async_wait(0);
}

WRONG(copied_over_what_is_read)
{
    const uint32_t s = shared_base(), t = thread_index();
    st_shared_u32(s + t * 4, t);
    block_sync();
    if (t < 32) {
        cp_async_4(s + t * 4, p.in + t, true); /* HERE */
        cp_async_commit();
        cp_async_wait(0);
    } else
        st_global_u32(p.out + t, ld_shared_u32(s + (t & 31) * 4)); /* HERE */
}

WRONG(source_changed_under_a_copy)
{
    const uint32_t s = shared_base(), t = thread_index();
    st_global_u32(p.out + t, t);
    cp_async_4(s + t * 4, p.out + t, true); /* HERE */
    cp_async_commit();
    st_global_u32(p.out + t, 2 * t); /* HERE */
    cp_async_wait(0);
}

/* Who writes there has been told that the copy began, and not that it ended. */
WRONG(source_changed_by_who_was_told)
{
    const uint32_t s = shared_base(), t = thread_index();

    if (t < 32) {
        st_global_u32(p.out + t, t);
        cp_async_4(s + t * 4, p.out + t, true); /* HERE */
        cp_async_commit();
        named_arrive(1, 64);
        cp_async_wait(0);
    } else {
        named_sync(1, 64);
        st_global_u32(p.out + t - 32, 2 * t); /* HERE */
    }
}

WRONG(copy_left_behind)
{
    cp_async_4(shared_base() + thread_index() * 4, p.in + TRIAL_WORDS, true); /* HERE */
    cp_async_commit();
}

/* ---- global memory through two proxies ------------------------------------------------------------------------------------------ */

WRONG(bulk_loaded_without_fence)
{
    const uint32_t t = thread_index();
    st_global_u32(p.out + t, t);
    trial_barrier();
    if (t == 0)
        TRIAL_LOAD(p.out, 256); /* HERE */
    mbarrier_wait(shared_base(), 0);
}

WRONG(fence_before_the_store)
{
    const uint32_t t = thread_index();
    fence_async_global();
    st_global_u32(p.out + t, t);
    trial_barrier();
    if (t == 0)
        TRIAL_LOAD(p.out, 256); /* HERE */
    mbarrier_wait(shared_base(), 0);
}

WRONG(fence_of_shared_memory_only)
{
    const uint32_t t = thread_index();
    st_global_u32(p.out + t, t);
    fence_async_shared();
    trial_barrier();
    if (t == 0)
        TRIAL_LOAD(p.out, 256); /* HERE */
    mbarrier_wait(shared_base(), 0);
}

WRONG(fence_of_the_loading_thread_only)
{
    const uint32_t t = thread_index();
    st_global_u32(p.out + t, t);
    trial_barrier();
    if (t == 0) {
        fence_async_global();
        TRIAL_LOAD(p.out, 256); /* HERE */
    }
    mbarrier_wait(shared_base(), 0);
}

/* The fence is made in time, and the loading thread cannot know. */
WRONG(fence_after_the_barrier)
{
    const uint32_t t = thread_index();
    if (t >= 32)
        st_global_u32(p.out + t - 32, t);
    trial_barrier();
    if (t >= 32) {
        fence_async_global();
        warp_sync();
        if (t == 32)
            st_release_u32(p.flags, 1);
    }
    if (t == 0) {
        while (ld_relaxed_u32(p.flags) == 0) {
        }
        TRIAL_LOAD(p.out, 128); /* HERE */
        mbarrier_wait(shared_base(), 0);
    }
}

WRONG(fence_and_no_barrier)
{
    const uint32_t t = thread_index();
    trial_barrier();
    st_global_u32(p.out + t, t); /* HERE */
    fence_async_global();
    if (t == 0)
        TRIAL_LOAD(p.out, 256); /* HERE */
    mbarrier_wait(shared_base(), 0);
}

WRONG(own_store_bulk_loaded_without_fence)
{
    trial_barrier();
    if (thread_index() == 0) {
        for (uint32_t i = 0; i < 4; ++i)
            st_global_u32(p.out + i, i);
        TRIAL_LOAD(p.out, 16); /* HERE */
    }
    mbarrier_wait(shared_base(), 0);
}

WRONG(bulk_loaded_from_another_block_without_fence)
{
    trial_barrier();
    if (thread_index() != 0)
        return;
    if (block_index() == 0) {
        for (uint32_t i = 0; i < 4; ++i)
            st_global_u32(p.out + i, i);
        st_release_u32(p.flags, 1);
    } else {
        while (ld_acquire_u32(p.flags) == 0) {
        }
        TRIAL_LOAD(p.out, 16); /* HERE */
        mbarrier_wait(shared_base(), 0);
    }
}

/* Both add to the same word; that only the second one made a fence is not enough. */
WRONG(fence_of_one_of_two_addends)
{
    trial_barrier();
    if (thread_index() != 0)
        return;
    red_global_add_f32((float *)p.flags + 4, 1.0f);
    if (block_index() == 1)
        fence_async_global();
    fence_device();
    if (atom_global_add_u32(p.flags, 1) == 1) {
        fence_device();
        TRIAL_LOAD(p.flags + 4, 16); /* HERE */
        mbarrier_wait(shared_base(), 0);
    }
}

WRONG(bulk_stored_over_without_fence)
{
    const uint32_t s = shared_base(), t = thread_index();
    st_shared_u32(s + t * 4, t);
    fence_async_shared();
    st_global_u32(p.out + t, t);
    block_sync();
    if (t == 0) {
        bulk_store(p.out, s, 256); /* HERE */
        bulk_commit();
        bulk_wait<0>();
    }
}

WRONG(bulk_added_to_without_fence)
{
    const uint32_t s = shared_base(), t = thread_index();
    st_shared_u32(s + t * 4, t);
    fence_async_shared();
    st_global_u32(p.out + t, t);
    block_sync();
    if (t == 0) {
        bulk_reduce_add_f32((float *)p.out, s, 256); /* HERE */
        bulk_commit();
        bulk_wait<0>();
    }
}

/* That the copy has read shared memory does not say that it has written. */
WRONG(bulk_store_read_back_early)
{
    const uint32_t s = shared_base();
    if (thread_index() != 0)
        return;
    for (uint32_t i = 0; i < 4; ++i)
        st_shared_u32(s + 4 * i, i);
    fence_async_shared();
    bulk_store(p.out, s, 16);
    bulk_commit();
    bulk_wait_read<0>();
    st_global_f32((float *)p.out + 4, ld_global_f32((const float *)p.out)); /* HERE */
    bulk_wait<0>();
}

WRONG(bulk_store_waited_for_by_another_thread)
{
    const uint32_t s = shared_base(), t = thread_index();
    trial_words(s);
    if (t == 0) {
        bulk_store(p.out, s, 256);
        bulk_commit();
        bulk_wait_read<0>();
    } else {
        bulk_wait<0>();
    }
    block_sync();
    st_global_f32((float *)p.out + 64 + t, ld_global_f32((const float *)p.out + t)); /* HERE */
}

/* The copy is waited for in time; but what the reader was told is that it began. */
WRONG(bulk_store_waited_for_after_the_barrier)
{
    const uint32_t s = shared_base(), t = thread_index();
    trial_words(s);
    if (t == 0) {
        bulk_store(p.out, s, 256);
        bulk_commit();
    }
    block_sync();
    if (t == 0) {
        bulk_wait<0>();
        st_release_u32(p.flags, 1);
    }
    if (t == 32) {
        while (ld_relaxed_u32(p.flags) == 0) {
        }
        st_global_f32((float *)p.out + 64, ld_global_f32((const float *)p.out)); /* HERE */
    }
}

WRONG(bulk_stores_to_one_place)
{
    const uint32_t s = shared_base();
    if (thread_index() != 0)
        return;
    for (uint32_t i = 0; i < 4; ++i)
        st_shared_u32(s + 4 * i, i);
    fence_async_shared();
    bulk_store(p.out, s, 16);
    bulk_commit();
    bulk_store(p.out, s, 16); /* HERE */
    bulk_commit();
    bulk_wait<0>();
}

WRONG(source_of_a_bulk_load_changed)
{
    const uint32_t t = thread_index();
    trial_barrier();
    if (t == 0)
        TRIAL_LOAD(p.in, 256);
    block_sync();
    st_global_u32(p.in + t, t); /* HERE */
    mbarrier_wait(shared_base(), 0);
}

/* Additions through one proxy are atomic among themselves, and not among those through the other. */
WRONG(added_to_through_both_proxies)
{
    const uint32_t s = shared_base(), t = thread_index();
    st_shared_u32(s + t * 4, bits_of(1.0f));
    fence_async_shared();
    block_sync();
    if (t == 0) {
        bulk_reduce_add_f32((float *)p.flags, s, 256); /* HERE */
        bulk_commit();
        bulk_wait<0>();
    } else if (t >= 32) {
        red_global_add_f32((float *)p.flags + t, 1.0f); /* HERE */
    }
}

/* ---- what nobody wrote --------------------------------------------------------------------------------------------------------- */

WRONG(shared_memory_is_not_zero)
{
    st_global_u32(p.flags + thread_index(), ld_shared_u32(shared_base() + thread_index() * 4)); /* HERE */
}

WRONG(three_quarters_written)
{
    const uint32_t s = shared_base();
    uint32_t v[4];
    if (thread_index() == 0) {
        st_shared_f32x2(s, 1, 2);
        st_shared_f32(s + 8, 3);
        ld_shared_u32x4(v, s); /* HERE */
        st_global_u32(p.out, v[0] + v[3]);
    }
}

WRONG(what_another_block_left)
{
    const uint32_t s = shared_base();
    if (block_index() == 0)
        st_shared_u32(s + thread_index() * 4, 1);
    else
        st_global_u32(p.out + thread_index(), ld_shared_u32(s + thread_index() * 4)); /* HERE */
}

WRONG(output_read)
{
    st_global_f32((float *)p.flags + thread_index(), ld_global_f32((const float *)p.out + thread_index())); /* HERE */
}

WRONG(added_to_nothing)
{
    red_global_add_f32((float *)p.out + thread_index(), 1.0f); /* HERE */
}

/* ---- addresses ------------------------------------------------------------------------------------------------------------------ */

WRONG(one_word_past_the_end)
{
    st_global_u32(p.out + thread_index() + TRIAL_WORDS - 31, 1); /* HERE */
}

WRONG(one_word_before_the_begin)
{
    st_global_f32((float *)p.flags, ld_global_f32((const float *)p.in - 1)); /* HERE */
}

WRONG(copy_from_past_the_end)
{
    cp_async_16(shared_base() + thread_index() * 16, p.in + TRIAL_WORDS - 2, true); /* HERE */
    cp_async_commit();
    cp_async_wait(0);
}

WRONG(past_shared_memory)
{
    const uint32_t v[4] = {1, 2, 3, 4};
    st_shared_u32x4(shared_base() + thread_index() * 16, v); /* HERE */
}

WRONG(wrapped_shared_address)
{
    st_shared_u32(shared_base() + (thread_index() - 1) * 4, 1); /* HERE */
}

WRONG(misaligned_vector)
{
    const uint32_t v[4] = {1, 2, 3, 4};
    if (thread_index() == 0)
        st_shared_u32x4(shared_base() + 8, v); /* HERE */
}

WRONG(misaligned_row)
{
    uint32_t r[4];
    st_shared_u32(shared_base() + thread_index() * 4, 0);
    warp_sync();
    ldmatrix_x4(r, shared_base() + (lane_index() & 3) * 8); /* HERE */
}

WRONG(misaligned_source)
{
    cp_async_16(shared_base() + thread_index() * 16, p.in + 1, true); /* HERE */
    cp_async_commit();
    cp_async_wait(0);
}

WRONG(misaligned_global)
{
    uint32_t v[4];
    ld_global_u32x4(v, p.in + 2 * thread_index()); /* HERE */
    st_global_u32(p.out + thread_index(), v[0]);
}

/* ---- who meets whom ------------------------------------------------------------------------------------------------------------- */

WRONG(half_of_a_warp_at_a_barrier)
{
    if (lane_index() < 16)
        named_sync(1, 64); /* HERE */
    block_sync();          /* HERE */
}

WRONG(halves_of_warps_that_add_up)
{
    if (lane_index() < 16)
        named_sync(1, 64); /* HERE */
    warp_sync();           /* HERE */
}

WRONG(a_warp_that_never_comes)
{
    /* One that has ended is no arrival at a barrier with a count of its own. */
    if (thread_index() < 64)
        named_sync(1, 96); /* HERE */
}

WRONG(another_barrier)
{
    named_sync(1 + thread_index() / 32, 64); /* HERE */
}

WRONG(another_count)
{
    named_sync(1, thread_index() < 32 ? 64 : 96); /* HERE */
}

WRONG(count_of_part_of_a_warp)
{
    named_sync(1, 48); /* HERE */
}

WRONG(sixteenth_barrier)
{
    named_sync(16, 64); /* HERE */
}

WRONG(vote_of_some_lanes)
{
    if (lane_index() < 16)
        named_any(1, 64, true); /* HERE */
    warp_sync();                /* HERE */
}

/* ---- phases ---------------------------------------------------------------------------------------------------------------------- */

WRONG(phase_that_is_not_waited_for)
{
    const uint32_t s = shared_base(), t = thread_index();
    trial_phase(s + 512, 32);
    if (t < 32) {
        st_shared_u32(s + t * 4, t); /* HERE */
        mbarrier_arrive(s + 512);
    } else
        st_global_u32(p.out + t, ld_shared_u32(s + (t ^ 32) * 4)); /* HERE */
}

WRONG(written_after_the_phase)
{
    const uint32_t s = shared_base(), t = thread_index();
    trial_phase(s + 512, 32);
    if (t < 32) {
        mbarrier_arrive(s + 512);
        st_shared_u32(s + t * 4, t); /* HERE */
    } else {
        mbarrier_wait(s + 512, 0);
        st_global_u32(p.out + t, ld_shared_u32(s + (t ^ 32) * 4)); /* HERE */
    }
}

WRONG(phase_of_the_other_parity)
{
    const uint32_t s = shared_base(), t = thread_index();
    trial_phase(s + 512, 32);
    if (t < 32) {
        st_shared_u32(s + t * 4, t); /* HERE */
        mbarrier_arrive(s + 512);
    } else {
        mbarrier_wait(s + 512, 1);                                 /* HERE */
        st_global_u32(p.out + t, ld_shared_u32(s + (t ^ 32) * 4)); /* HERE */
    }
}

WRONG(phase_of_the_first_arrival)
{
    const uint32_t s = shared_base(), t = thread_index();
    trial_phase(s + 512, 1); /* the phase ends, and the next, with each lane */
    if (t < 32) {
        st_shared_u32(s + t * 4, t); /* HERE */
        mbarrier_arrive(s + 512);
    } else {
        mbarrier_wait(s + 512, 0);                                 /* HERE */
        st_global_u32(p.out + t, ld_shared_u32(s + (t ^ 32) * 4)); /* HERE */
    }
}

WRONG(phase_that_never_ends)
{
    const uint32_t s = shared_base(), t = thread_index();
    trial_phase(s, 64);
    if (t < 32)
        mbarrier_arrive(s);
    else
        mbarrier_wait(s, 0); /* HERE */
}

WRONG(phase_before_all_know_of_it)
{
    const uint32_t s = shared_base(), t = thread_index();
    if (t == 0)
        mbarrier_init(s, 64); /* HERE */
    mbarrier_arrive(s);       /* HERE */
    mbarrier_wait(s, 0);
}

WRONG(shuffle_without_all_lanes)
{
    if (lane_index() != 5)
        shfl_xor(1.0f, 1); /* HERE */
}

WRONG(product_without_all_lanes)
{
    float d[4] = {0, 0, 0, 0};
    const uint32_t a[4] = {0, 0, 0, 0};
    if (lane_index() != 5)
        mma_m16n8k16_bf16(d, a, 0, 0); /* HERE */
    else
        warp_sync(); /* HERE */
}

WRONG(lanes_at_two_shuffles)
{
    if (lane_index() < 16)
        shfl_xor(1.0f, 1); /* HERE */
    else
        shfl_xor(2.0f, 1); /* HERE */
}

WRONG(two_kinds_of_barrier)
{
    if (thread_index() < 32)
        block_sync(); /* HERE */
    else
        block_any(true); /* HERE */
}

/* ---- between blocks ------------------------------------------------------------------------------------------------------------- */

WRONG(relaxed_flag)
{
    if (thread_index() != 0)
        return;
    if (block_index() == 0) {
        st_global_u32(p.out, 1); /* HERE */
        st_release_u32(p.flags, 1);
    } else {
        while (ld_relaxed_u32(p.flags) == 0) {
        }
        st_global_f32((float *)p.out + 1, ld_global_f32((const float *)p.out)); /* HERE */
    }
}

WRONG(plain_flag)
{
    if (thread_index() != 0)
        return;
    if (block_index() == 0) {
        st_global_u32(p.out, 1);   /* HERE */
        st_global_u32(p.flags, 1); /* HERE */
    } else {
        while (ld_acquire_u32(p.flags) == 0) { /* HERE */
        }
        st_global_f32((float *)p.out + 1, ld_global_f32((const float *)p.out)); /* HERE */
    }
}

WRONG(flag_before_the_data)
{
    if (thread_index() != 0)
        return;
    if (block_index() == 0) {
        st_release_u32(p.flags, 1);
        st_global_u32(p.out, 1); /* HERE */
    } else {
        while (ld_acquire_u32(p.flags) == 0) {
        }
        st_global_f32((float *)p.out + 1, ld_global_f32((const float *)p.out)); /* HERE */
    }
}

WRONG(others_of_the_block_have_not_written)
{
    if (block_index() == 0) {
        st_global_u32(p.out + thread_index(), 1); /* HERE */
        if (thread_index() == 0)
            st_release_u32(p.flags, 1);
    } else if (thread_index() == 0) {
        while (ld_acquire_u32(p.flags) == 0) {
        }
        st_global_f32((float *)p.flags + 1, ld_global_f32((const float *)p.out + 40)); /* HERE */
    }
}

WRONG(waits_for_a_later_block)
{
    if (thread_index() != 0)
        return;
    if (block_index() + 1 < 64)
        while (ld_acquire_u32(p.flags + block_index() + 1) == 0) { /* HERE */
        }
    st_release_u32(p.flags + block_index(), 1);
}

/* ---- launches that may begin before what is ahead has ended ---------------------------------------------------------------- */

WRONG(dependent_launch_reads_at_once)
{
    const uint32_t word = ld_relaxed_u32(p.in + thread_index()); /* HERE */
    await_predecessors();
    st_global_u32(p.out + thread_index(), word);
}

WRONG(dependent_launch_writes_at_once)
{
    admit_successors();                       /* that is not a wait */
    st_global_u32(p.out + thread_index(), 1); /* HERE */
    await_predecessors();
}

WRONG(dependent_launch_of_which_half_waits)
{
    if (warp_index() == 0)
        await_predecessors();
    st_global_u32(p.out + thread_index(), 1); /* HERE */
}

WRONG(dependent_launch_copies_at_once)
{
    cp_async_16_once(shared_base() + thread_index() * 16, p.in, true); /* HERE */
    await_predecessors();
    cp_async_commit();
    cp_async_wait(0);
}

WRONG(blocks_write_the_same)
{
    if (thread_index() == 0)
        st_global_u32(p.out, block_index()); /* HERE */
}

WRONG(sum_read_while_others_add)
{
    if (thread_index() != 0)
        return;
    red_global_add_f32((float *)p.flags, 1.0f); /* HERE */
    if (block_index() == 1)
        st_global_f32((float *)p.out, ld_global_f32((const float *)p.flags)); /* HERE */
}

WRONG(for_ever)
{
    while (warp_any(true)) { /* HERE */
    }
}
