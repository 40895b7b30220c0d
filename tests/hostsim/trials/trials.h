/* What a trial kernel is given: memory of the launch, and where the next line matters. */
#ifndef GLINT_TESTS_HOSTSIM_TRIALS_H
#define GLINT_TESTS_HOSTSIM_TRIALS_H

#include "lib/device/hopper.h"

enum { TRIAL_WORDS = 256 };

struct trial_params {
    uint32_t *in;    /* TRIAL_WORDS words, written by the host */
    uint32_t *out;   /* TRIAL_WORDS words that nobody has written */
    uint32_t *flags; /* TRIAL_WORDS words, zero */
};

/* An mbarrier of one arrival, known to the block and the copy engine, at the begin of shared memory. */
GLINT_DEVICE void trial_barrier(void)
{
    if (thread_index() == 0) {
        mbarrier_init(shared_base(), 1);
        fence_mbarrier_init();
    }
    block_sync();
}

/* A phase of `count` arrivals, known to the block. */
GLINT_DEVICE void trial_phase(uint32_t at, uint32_t count)
{
    if (thread_index() == 0)
        mbarrier_init(at, count);
    block_sync();
}

/* Each thread's number and one, at four times its number after `to`, for the copy engine to take. */
GLINT_DEVICE void trial_words(uint32_t to)
{
    st_shared_u32(to + thread_index() * 4, thread_index() + 1);
    fence_async_shared();
    block_sync();
}

/* One thread loads `bytes` bytes to 128 bytes after the begin of shared memory. A macro: a report names the line of its
 * use. */
#define TRIAL_LOAD(from, bytes)                                     \
    do {                                                            \
        mbarrier_arrive_expect(shared_base(), bytes);               \
        bulk_load(shared_base() + 128, from, bytes, shared_base()); \
    } while (0)

#endif
