$ local element = dtype == "f32" and math or dtype
$ local numbers = ("%d, %s, %s, %d, %d, %d"):format(head_dim * dtype_bytes // 16, band, strategy == "fused", tile_m, tile_n, key_turns)
/* Delta and LSE. */
$ for _, kernel in ipairs(kernels) do
GLINT_KERNEL(256, 1) ${symbol}${kernel.suffix}_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
$ if family == "sm90a" and strategy == "fused" and kernel.rows ~= "given" then
    if (block_index() >= p.units.first) {
        if (warp_index() == 0)
            make_units<${band}, ${head_dim}, ${tile_m}, ${tile_n}, ${key_turns}>(p, shared_base());
        return;
    }
$ end
    run_delta<struct ${element}, ${numbers}, ${kernel.rows}>(p);
}
$ end

/* The gradient of the sinks. Rows that see no key are found by the mask. */
$ for _, kernel in ipairs(kernels) do
GLINT_KERNEL(256, 1) ${symbol}${kernel.suffix}_sinks(GLINT_PARAMS(struct glint_gpu_call) p)
{
    make_sink_gradient<struct ${element}, ${head_dim * dtype_bytes // 16}, ${tostring(strategy == "fused")}, ${kernel.rows}, ${band}>(p, shared_base());
}
$ end
