/* delta = rowsum(dO o O) and LSE in powers of two, for GLINT_GPU_ROW_PAD queries of one head; a row that sees no key, or lies past the
 * end, gets LSE = +inf, which makes its P exactly 0.${strategy == "fused" and " Rows that see no key also get dQ = 0 here, as no key block visits them." or ""}
 * A row whose dO holds NaN or infinity has a delta that is neither finite; of a row that sees no key, neither is it when its Q does. */
GLINT_KERNEL(256, 1) ${symbol}_delta(GLINT_PARAMS(struct glint_backward_params) p)
{
    enum { LANES = ROW_CHUNKS <= 8 ? 8 : ROW_CHUNKS <= 16 ? 16 : 32, ROWS = 32 / LANES }; /* lanes a row, rows a warp at a time */
    const uint32_t lane = lane_index() % LANES;
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
$ end

    for (int32_t row = row0 + (int32_t)(thread_index() / LANES); row < row0 + GLINT_GPU_ROW_PAD; row += 8 * ROWS) {
        const char *o_row = view_row(&p.o, batch, head_q, row, BYTES), *dout_row = view_row(&p.dout, batch, head_q, row, BYTES);
        const int64_t place = head * p.padded_q + row;
        float sum = 0.0f, lse = GLINT_INFINITY;

        if (row < p.shape.seqlen_q) {
            lse = ld_global_f32(p.lse + (int64_t)head * p.shape.seqlen_q + row);
            lse = lse == -GLINT_INFINITY ? GLINT_INFINITY : lse * 1.44269504088896340736f;
            for (uint32_t chunk = lane; chunk < ROW_CHUNKS; chunk += LANES) {
                uint32_t o[4], dout[4];

                ld_global_u32x4(o, o_row + chunk * 16);
                ld_global_u32x4(dout, dout_row + chunk * 16);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
$ if dtype == "f32" then
                    sum = fmaf(float_of(o[i]), float_of(dout[i]), sum);
$ else
                    sum = fmaf(low_${dtype}(o[i]), low_${dtype}(dout[i]), sum);
                    sum = fmaf(high_${dtype}(o[i]), high_${dtype}(dout[i]), sum);
$ end
                }
            }
            if (lse == GLINT_INFINITY) {
                const char *q_row = view_row(&p.q, batch, head_q, row, BYTES);
$ if strategy == "fused" then
                const uint32_t zero[4] = {0, 0, 0, 0};
$ end

                for (uint32_t chunk = lane; chunk < ROW_CHUNKS; chunk += LANES) {
                    uint32_t q[4];

                    ld_global_u32x4(q, q_row + chunk * 16);
                    for (int i = 0; i < 4; ++i)
                        if (finite_part(q[i], EXPONENT, BYTES) != q[i])
                            sum = GLINT_INFINITY;
$ if strategy == "fused" then
                    st_global_u32x4(view_row(&p.dq, batch, head_q, row, BYTES) + chunk * 16, zero);
$ end
                }
            }
        }
#pragma unroll
        for (uint32_t mask = 1; mask < LANES; mask *= 2)
            sum += shfl_xor(sum, mask);
        if (lane == 0) {
            st_global_f32(p.lse_log2 + place, lse);
            st_global_f32(p.delta + place, lse == GLINT_INFINITY && fabsf(sum) < GLINT_INFINITY ? 0.0f : sum);
        }
    }
}
