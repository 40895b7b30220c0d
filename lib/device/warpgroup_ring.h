/* Rings of stages in shared memory, through which those who load and those who compute pass tiles to each other
 * (sm_90a), and the queue by which a block's loader tells all others what the block works on next. */
#ifndef GLINT_DEVICE_WARPGROUP_RING_H
#define GLINT_DEVICE_WARPGROUP_RING_H

#include "lib/device/hopper.h"

/* A ring of stages, each with two mbarriers: full (its data has arrived) and empty (its readers are done). This is
 * one party's place in it. `phase` is the parity to wait for at the stage's full barrier; whoever fills the stage
 * waits for the other one at the empty barrier, which a barrier that nobody used yet has passed. */
struct ring {
    uint32_t stage, phase;
};

template <int stages> GLINT_DEVICE void ring_advance(struct ring &ring)
{
    if (stages == 1 || ++ring.stage == stages) {
        ring.stage = 0;
        ring.phase ^= 1;
    }
}

/* Past `steps` stages at once. */
template <int stages> GLINT_DEVICE void ring_skip(struct ring &ring, uint32_t steps)
{
    const uint32_t to = ring.stage + steps;

    ring.phase ^= to / stages & 1;
    ring.stage = to % stages;
}

/* The place before, in a ring of two. */
GLINT_DEVICE struct ring ring_before(const struct ring &ring)
{
    return {ring.stage ^ 1, ring.phase ^ (ring.stage == 0)};
}

/* The place of step `step` in a ring of two. */
GLINT_DEVICE struct ring ring_at(uint32_t step)
{
    return {step % 2, step / 2 % 2};
}

/* Where a ring lies in the block's shared memory: tiles of bytes_ from at_ on, mbarriers from barriers_ on. */
template <int stages_, uint32_t bytes_, uint32_t at_, uint32_t barriers_> struct stage_ring {
    enum : uint32_t {
        stages = stages_,
        bytes = bytes_,
        at = at_,
        full_at = barriers_,
        empty_at = full_at + 8 * stages,
        end = empty_at + 8 * stages
    };

    GLINT_DEVICE uint32_t tile(uint32_t shared, const struct ring &ring)
    {
        return shared + at + ring.stage * bytes;
    }
    GLINT_DEVICE uint32_t full(uint32_t shared, const struct ring &ring)
    {
        return shared + full_at + 8 * ring.stage;
    }
    GLINT_DEVICE uint32_t empty(uint32_t shared, const struct ring &ring)
    {
        return shared + empty_at + 8 * ring.stage;
    }
    /* Arrivals that make a stage full, beside its bytes, and empty. By one thread, before a fence_mbarrier_init and
     * a barrier of the block. */
    GLINT_DEVICE void init(uint32_t shared, uint32_t fills, uint32_t readers)
    {
        for (uint32_t i = 0; i < stages; ++i) {
            mbarrier_init(shared + full_at + 8 * i, fills);
            mbarrier_init(shared + empty_at + 8 * i, readers);
        }
    }
    GLINT_DEVICE void wait_full(uint32_t shared, const struct ring &ring)
    {
        mbarrier_wait(full(shared, ring), ring.phase);
    }
    GLINT_DEVICE void wait_empty(uint32_t shared, const struct ring &ring)
    {
        mbarrier_wait(empty(shared, ring), ring.phase ^ 1);
    }
    /* Waits until the stage is empty, and says how many bytes are to come. */
    GLINT_DEVICE void begin_fill(uint32_t shared, const struct ring &ring, uint32_t filled = bytes)
    {
        wait_empty(shared, ring);
        mbarrier_arrive_expect(full(shared, ring), filled);
    }
};

/* Copies `bytes` of shared memory, whole 16 of them; by one thread. */
template <uint32_t bytes> GLINT_DEVICE void copy_words(uint32_t to, uint32_t from)
{
#pragma unroll
    for (uint32_t i = 0; i < bytes; i += 16) {
        uint32_t v[4];

        ld_shared_u32x4(v, from + i);
        st_shared_u32x4(to + i, v);
    }
}

/* Numbers of what a block works on, two ahead, in 40 bytes from at_ on. */
template <uint32_t at_> struct tile_queue {
    typedef stage_ring<2, 4, at_ + 32, at_> slots;
    enum : uint32_t { end = at_ + 40 };

    GLINT_DEVICE void init(uint32_t shared, uint32_t readers)
    {
        slots::init(shared, 1, readers);
    }
    /* By the one thread that announces. */
    GLINT_DEVICE void announce(uint32_t shared, const struct ring &ring, uint32_t number)
    {
        slots::wait_empty(shared, ring);
        st_shared_u32(slots::tile(shared, ring), number);
        mbarrier_arrive(slots::full(shared, ring));
    }
    /* The number at the reader's place, which the reader must release. */
    GLINT_DEVICE uint32_t wait(uint32_t shared, const struct ring &ring)
    {
        slots::wait_full(shared, ring);
        return ld_shared_u32(slots::tile(shared, ring));
    }
    /* One arrival for each reader: a warp, all lanes of which have come, or a thread. */
    GLINT_DEVICE void release(uint32_t shared, const struct ring &ring)
    {
        mbarrier_arrive(slots::empty(shared, ring));
    }
};

#endif
