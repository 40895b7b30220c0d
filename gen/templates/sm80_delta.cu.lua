$ local fused = strategy == "fused"
$ local row_chunks = head_dim * dtype_bytes // 16
$ if fused then
/* Delta and LSE. No key block visits rows that see no key, so they get their dQ here. */
$ else
/* Delta and LSE. */
$ end
GLINT_KERNEL(256, 1) ${symbol}_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    const struct row_block block = find_row_block<${row_chunks}>(p.shape);
    const ${bounds_first and "window_mask" or causal and "causal_mask" or "no_mask"} mask = {p.shape.mask_first, p.shape.mask_offset, p.shape.seqlen_q, p.shape.seqlen_k};

$ if fused then
$ if bounds_first then
    begin_turns<TILE_M, TILE_N, WARPS>(p, block, mask);
$ else
    begin_turns<TILE_M, TILE_N, WARPS>(p, block);
$ end
$ end
    make_delta<struct ${dtype == "f32" and math or dtype}, ${row_chunks}, ${fused and "true" or "false"}>(p, block, mask);
}
