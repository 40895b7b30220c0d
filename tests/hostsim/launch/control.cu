/* What compute-sanitizer is asked before its findings on Hopper's kernels are believed: a right program, and one with a
 * race, that copy as the backward kernels do. One warp brings pieces of Q through a ring of two stages by bulk copies
 * and mbarriers, as LSE and delta come; the other one reads them by ordinary loads. What it makes of them leaves by a
 * tensor copy, as gradients do (O is Q), and by a bulk store and a bulk sum, as dQ does (LSE is twice the row's
 * number). A second right program has the pieces brought by all lanes of the warp, of which lane 0 says that they are
 * there, as ranges of queries and widened keys are handed on in a step. */
#include "lib/device/hopper.h"
#include "lib/device/hopper_call.h"
#include "lib/device/steps.h"
#include "lib/device/warpgroup_ring.h"

enum {
    ROWS = 64,
    ROW_BYTES = 256,
    PIECE_ROWS = 8,
    PIECES = ROWS / PIECE_ROWS,
    STAGES = 2,
    RING_AT = 0,
    O_AT = RING_AT + STAGES * PIECE_ROWS * ROW_BYTES,
    LSE_AT = O_AT + ROWS * ROW_BYTES,
};
typedef stage_ring<STAGES, PIECE_ROWS * ROW_BYTES, RING_AT, LSE_AT + ROWS * 4> q_ring;

/* waits: for a piece, before it is read. by_lanes: all lanes bring it. */
template <bool waits, bool by_lanes = false> GLINT_DEVICE void copy_rows(const struct glint_gpu_forward_maps &p)
{
    const uint32_t shared = shared_base(), lane = lane_index();
    const struct glint_gpu_shape *shape = &p.base.shape;
    const int32_t per_head = shape->seqlen_q / ROWS, head = (int32_t)block_index() / per_head;
    const int32_t row0 = ((int32_t)block_index() - head * per_head) * ROWS;
    struct ring ring = {0, 0};

    if (thread_index() == 0) {
        q_ring::init(shared, 1, 1);
        fence_mbarrier_init();
    }
    block_sync();
    if (by_lanes && warp_index() == 0) {
#pragma unroll 1
        for (int32_t piece = 0; piece < PIECES; ++piece, ring_advance<STAGES>(ring)) {
            const char *const from = view_row(&p.base.q, 0, head, row0 + piece * PIECE_ROWS, 2);

            q_ring::wait_empty(shared, ring);
            for (uint32_t at = lane * 16; at < q_ring::bytes; at += 32 * 16) {
                uint32_t v[4];

                ld_global_u32x4(v, (const uint32_t *)(from + at));
                st_shared_u32x4(q_ring::tile(shared, ring) + at, v);
            }
            warp_sync();
            if (lane == 0)
                mbarrier_arrive(q_ring::full(shared, ring));
        }
        return;
    }
    if (warp_index() == 0) {
#pragma unroll 1
        for (int32_t piece = 0; piece < PIECES && lane == 0; ++piece, ring_advance<STAGES>(ring)) {
            q_ring::begin_fill(shared, ring);
            bulk_load(q_ring::tile(shared, ring), view_row(&p.base.q, 0, head, row0 + piece * PIECE_ROWS, 2), q_ring::bytes,
                      q_ring::full(shared, ring));
        }
        return;
    }
#pragma unroll 1
    for (int32_t piece = 0; piece < PIECES; ++piece, ring_advance<STAGES>(ring)) {
        if (waits)
            q_ring::wait_full(shared, ring);
        for (uint32_t at = lane * 16; at < q_ring::bytes; at += 32 * 16) {
            uint32_t v[4];

            ld_shared_u32x4(v, q_ring::tile(shared, ring) + at);
            st_shared_u32x4(shared + O_AT + (uint32_t)piece * q_ring::bytes + at, v);
        }
        if (!waits)
            q_ring::wait_full(shared, ring);
        warp_sync();
        if (lane == 0)
            mbarrier_arrive(q_ring::empty(shared, ring));
    }
    for (uint32_t row = lane; row < ROWS; row += 32)
        st_shared_u32(shared + LSE_AT + row * 4, bits_of((float)(row0 + (int32_t)row)));
    fence_async_shared();
    warp_sync();
    if (lane == 0) {
        const int32_t at[4] = {0, row0, head, 0};
        float *lse = p.base.lse + (int64_t)head * shape->seqlen_q + row0;

        tma_store(&p.map[0], 4, at, shared + O_AT);
        bulk_store(lse, shared + LSE_AT, ROWS * 4);
        bulk_commit();
        bulk_wait<0>();
        bulk_reduce_add_f32(lse, shared + LSE_AT, ROWS * 4);
        bulk_commit();
        bulk_wait<0>();
    }
}

GLINT_KERNEL(64, 1) glint_control(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    copy_rows<true>(p);
}

GLINT_KERNEL(64, 1) glint_control_lanes(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    copy_rows<true, true>(p);
}

/* Reads a piece before it has come. */
GLINT_KERNEL(64, 1) glint_control_early(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    copy_rows<false>(p);
}
