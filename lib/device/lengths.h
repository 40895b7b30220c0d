/* Lengths of sequences that the kernel reads: the shape's are bounds. */
#ifndef GLINT_DEVICE_LENGTHS_H
#define GLINT_DEVICE_LENGTHS_H

#include "lib/device/mask.h"
#include "lib/device/steps.h"

/* A sequence, as a problem by itself: its lengths and the sides of its band. */
struct sequence {
    int32_t seqlen_q, seqlen_k, left, right;
};

/* What counts of a number that somebody left in memory: the nearest one from 0 to `most`. */
GLINT_DEVICE int32_t within(int32_t number, int32_t most)
{
    return max(0, min(number, most));
}

/* What a call says of sequence `batch`: `bound` where it says nothing. */
GLINT_DEVICE int32_t given_length(const int32_t *lengths, int32_t batch, int32_t bound)
{
    return lengths ? (int32_t)ld_relaxed_u32((const uint32_t *)lengths + batch) : bound;
}

/* The sides of the band of a sequence, from its lengths. */
GLINT_DEVICE void find_sides(struct sequence &own, const struct glint_gpu_sequences &p)
{
    const int32_t offset = p.bottom_right ? own.seqlen_k - own.seqlen_q : 0;

    /* no further than queries and keys, as the sums of a query and a side must stay below 2^31 */
    own.left = max(-own.seqlen_q, min(own.seqlen_k, offset + p.left));
    own.right = max(-own.seqlen_q, min(own.seqlen_k, offset + p.right));
}

/* Its band. A side that is not read is 0: one that waits in shared memory costs nothing then. */
template <class Band> GLINT_DEVICE Band mask_of(const struct sequence &own)
{
    return {Band::LEFT ? own.left : 0, Band::RIGHT ? own.right : 0, own.seqlen_q, own.seqlen_k};
}

template <class Call> GLINT_DEVICE struct sequence find_sequence(const Call &p, int32_t batch)
{
    struct sequence own;

    own.seqlen_q = within(given_length(p.sequences.seqlens_q, batch, p.shape.seqlen_q), p.shape.seqlen_q);
    own.seqlen_k = within(given_length(p.sequences.seqlens_k, batch, p.shape.seqlen_k), p.shape.seqlen_k);
    find_sides(own, p.sequences);
    return own;
}

/* Lowers the word for a fault to `batch` if a length of that sequence is out of bounds. One thread of the grid calls it
 * for a sequence. */
template <class Call> GLINT_DEVICE void note_fault(const Call &p, int32_t batch)
{
    const uint32_t bound_q = (uint32_t)p.shape.seqlen_q, bound_k = (uint32_t)p.shape.seqlen_k;
    const struct glint_gpu_sequences &all = p.sequences;

    if (all.fault && ((uint32_t)given_length(all.seqlens_q, batch, (int32_t)bound_q) > bound_q ||
                      (uint32_t)given_length(all.seqlens_k, batch, (int32_t)bound_k) > bound_k))
        atomicMin(all.fault, (uint32_t)batch);
}

/* A mask in 16 bytes of shared memory: as it is read there, a loop that seldom wants it keeps no registers for it. */
template <class Band> GLINT_DEVICE void put_mask(uint32_t address, const Band &band)
{
    const uint32_t v[4] = {(uint32_t)band.left, (uint32_t)band.right, (uint32_t)band.seqlen_q, (uint32_t)band.seqlen_k};

    st_shared_u32x4(address, v);
}

template <class Band> GLINT_DEVICE Band get_mask(uint32_t address)
{
    uint32_t v[4];

    ld_shared_u32x4(v, address);
    return Band{(int32_t)v[0], (int32_t)v[1], (int32_t)v[2], (int32_t)v[3]};
}

/* The sequence of a mask that waits there. */
GLINT_DEVICE struct sequence get_sequence(uint32_t address)
{
    uint32_t v[4];

    ld_shared_u32x4(v, address);
    return {(int32_t)v[2], (int32_t)v[3], (int32_t)v[0], (int32_t)v[1]};
}

#endif
