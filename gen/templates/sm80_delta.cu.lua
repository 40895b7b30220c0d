$ if strategy == "fused" then
/* Delta and LSE, see make_delta. Rows that see no key get dQ = 0 here, as no key block visits them, and turns begin at 0. */
$ else
/* Delta and LSE, see make_delta. */
$ end
GLINT_KERNEL(256, 1) ${symbol}_delta(GLINT_PARAMS(struct glint_backward_params) p)
{
    const uint32_t lane = lane_index() % row_lanes<q_tile_t>::LANES;
    const int32_t blocks = (p.shape.seqlen_q + GLINT_GPU_ROW_PAD - 1) / GLINT_GPU_ROW_PAD;
    const int32_t head = (int32_t)block_index() / blocks, row0 = ((int32_t)block_index() - head * blocks) * GLINT_GPU_ROW_PAD;
    const int32_t batch = head / p.shape.heads_q, head_q = head - batch * p.shape.heads_q;

$ if strategy == "fused" then
    if (block_index() == 0 && thread_index() == 0)
        st_global_u32(p.turn, 0);
    if (thread_index() < GLINT_GPU_ROW_PAD / TILE_M)
        st_global_u32(p.turn + 1 + head * (p.padded_q / TILE_M) + row0 / TILE_M + thread_index(), 0);
    if (p.parts > 1) {
        const int64_t turns = (int64_t)(p.shape.batch * p.shape.heads_kv) * ((p.shape.seqlen_k + TILE_N - 1) / TILE_N) * WARPS;
        const int64_t threads = (int64_t)256 * p.shape.batch * p.shape.heads_q * blocks;

        for (int64_t i = (int64_t)block_index() * 256 + thread_index(); i < turns; i += threads)
            st_global_u32(p.key_turn + i, 0);
    }
    make_delta<q_tile_t>(p, lane, batch, head_q, head, row0, [&](int32_t row, uint32_t chunk) {
        const uint32_t zero[4] = {0, 0, 0, 0};

        st_global_u32x4(view_row(&p.dq, batch, head_q, row, element::BYTES) + chunk * 16, zero);
    });
$ else
    make_delta<q_tile_t>(p, lane, batch, head_q, head, row0, [](int32_t, uint32_t) {});
$ end
}
