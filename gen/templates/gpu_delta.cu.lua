$ local fused = strategy == "fused"
$ local row_chunks = head_dim * dtype_bytes // 16
$ local element = dtype == "f32" and math or dtype
$ local begin_turns = fused and "begin_turns<TILE_M, TILE_N, " .. key_turns .. ">(p, block" .. (bounds_first and ", mask" or "") .. ");\n    " or ""
$ if fused then
/* Delta and LSE. No key block visits rows that see no key, so they get their dQ here. */
$ else
/* Delta and LSE. */
$ end
template <class Rows> GLINT_DEVICE void make_delta_of(const struct glint_gpu_call &p)
{
    const uint32_t kept = shared_base();
    const struct place at = Rows::find_rows_of_block(p, kept);
    if (Rows::READS && at.row0 < 0)
        return;
    const struct row_block<Rows> block = row_block_of<${row_chunks}, Rows>(p, at, kept);
    const ${band} mask = mask_of<${band}>(at.own);

    ${begin_turns}make_delta<struct ${element}, ${row_chunks}, ${tostring(fused)}>(p, block, mask);
}

GLINT_KERNEL(256, 1) ${symbol}_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    make_delta_of<given>(p);
}
