$ local row_chunks = head_dim * dtype_bytes // 16
/* The first kernel over sequences whose lengths are read here. */
template <class Rows> GLINT_DEVICE void make_own_delta(const struct glint_gpu_call &p)
{
    const uint32_t kept = shared_base();
    const struct place at = Rows::find_rows_of_block(p, kept);
    const struct row_block<Rows> block = row_block_of<${row_chunks}, Rows>(p, at, kept);
    const ${band} mask = mask_of<${band}>(at.own);

    begin_own_turns<TILE_M, TILE_N>(p, block, mask);
    if (at.row0 >= 0)
        make_delta<element, ${row_chunks}, true>(p, block, mask);
}
$ if device_lengths then

GLINT_KERNEL(256, 1) ${symbol}_lengths_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    make_own_delta<padded>(p);
}
$ end
$ if device_ragged then

GLINT_KERNEL(256, 1) ${symbol}_ragged_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    make_own_delta<ragged>(p);
}
$ end
