/* A forward kernel that is launched as Hopper's are, and copies: O is Q, and LSE is the first number of V's row that
 * has the query's index. Pairs of blocks count pairs of tiles in a word that begins as 0; Q comes by a map of slabs, V
 * by one without, and O goes by a map. */
#include "lib/device/hopper.h"
#include "lib/device/hopper_call.h"

enum { ROWS = 64, HEAD_DIM = 128, TILE_BYTES = ROWS * HEAD_DIM * 2, V_BYTES = ROWS * 32 * 2 };

GLINT_CLUSTER_KERNEL(128, 1, 2) glint_tiles(GLINT_PARAMS(struct glint_gpu_forward_maps) p)
{
    const uint32_t tile = shared_base(), values = tile + TILE_BYTES, barrier = values + V_BYTES, word = barrier + 8;
    const uint32_t t = thread_index(), rank = cluster_rank();
    const struct glint_gpu_shape &shape = p.base.shape;
    const int32_t per_head = (shape.seqlen_q + ROWS - 1) / ROWS, tiles = per_head * shape.heads_q * shape.batch;
    uint32_t parity = 0;

    if (t == 0) {
        mbarrier_init(barrier, 1);
        fence_mbarrier_init();
    }
    block_sync();
    cluster_arrive();
    cluster_wait();
    await_predecessors();
    for (;;) {
        if (t == 0 && rank == 0) { /* for both */
            const float pair = (float)atom_global_add_u32(p.base.words, 1);
            st_cluster_f32(cluster_address(word, 0), pair);
            st_cluster_f32(cluster_address(word, 1), pair);
        }
        cluster_arrive();
        cluster_wait();
        const int32_t first = 2 * (int32_t)ld_cluster_f32(cluster_address(word, rank)), number = first + (int32_t)rank;
        cluster_arrive();
        cluster_wait();
        if (first >= tiles)
            break;
        if (number >= tiles)
            continue;
        const int32_t head = number / per_head, row = (number - head * per_head) * ROWS;
        const int32_t batch = head / shape.heads_q, query_head = head - batch * shape.heads_q;
        if (t == 0) {
            const int32_t q_at[5] = {0, row, 0, query_head, batch}, v_at[4] = {0, row, query_head / shape.group, batch};
            mbarrier_arrive_expect(barrier, TILE_BYTES + (shape.seqlen_k > 0 ? V_BYTES : 0));
            tma_load(tile, &p.map[0], 5, q_at, barrier, GLINT_L2_EVICT_FIRST);
            if (shape.seqlen_k > 0)
                tma_load(values, &p.map[1], 4, v_at, barrier, GLINT_L2_EVICT_LAST);
        }
        mbarrier_wait(barrier, parity);
        parity ^= 1;
        if (t < ROWS && row + (int32_t)t < shape.seqlen_q)
            st_global_f32(p.base.lse + (int64_t)head * shape.seqlen_q + row + (int32_t)t,
                          shape.seqlen_k > 0 ? low_bf16(ld_shared_u32(values + t * 64)) : 0);
        if (t == 0) {
            const int32_t o_at[5] = {0, row, 0, query_head, batch};
            tma_store(&p.map[2], 5, o_at, tile);
            bulk_commit();
            bulk_wait<0>();
        }
        block_sync();
    }
}
