$ local band = bounds_first and "window_mask" or causal and "causal_mask" or "no_mask"
$ local row_chunks = head_dim * dtype_bytes // 16
$ if device_lengths then
/* The same over sequences of a padded batch, whose lengths are read here. */
GLINT_KERNEL(256, 1) ${symbol}_lengths_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    const uint32_t kept = shared_base();

    if (thread_index() == 0)
        find_padded_tile<GLINT_GPU_ROW_PAD, false>(p.sequences, p.shape, p.shape.heads_q, 1, kept);
    block_sync();
    const struct padded_tile work = get_padded_tile(kept);
    const struct padded_row_block block =
        padded_row_block_of<${row_chunks}>(p.shape, work.batch, work.head, work.row0, work.own.seqlen_q);
    if (work.head == 0 && work.index == 0 && thread_index() == 0)
        note_padded_fault(p.sequences, p.shape, work.batch);
    begin_own_turns<TILE_M, TILE_N>(p, block, mask_of<${band}>(work.own));
    if (work.row0 >= 0)
        make_delta<element, ${row_chunks}, true>(p, block, mask_of<${band}>(work.own));
}
$ end
$ if device_ragged then
$ if device_lengths then

$ end
/* The same over ragged sequences. */
GLINT_KERNEL(256, 1) ${symbol}_ragged_delta(GLINT_PARAMS(struct glint_gpu_call) p)
{
    const uint32_t kept = shared_base();

    if (warp_index() == 0)
        find_ragged_tile<GLINT_GPU_ROW_PAD, false, true>(p.sequences, p.shape, block_index(), p.shape.heads_q, 1, kept + 48, kept);
    if (p.sequences.fault && block_index() == 0 && warp_index() == 7)
        note_ragged_fault(p.sequences, p.shape);
    block_sync();
    const struct ragged_row_block block = row_block_of<${row_chunks}>(p.sequences, kept);
    const struct sequence own = get_ragged_tile(kept).own;
    begin_own_turns<TILE_M, TILE_N>(p, block, mask_of<${band}>(own));
    if (block.row0 >= 0)
        make_delta<element, ${row_chunks}, true>(p, block, mask_of<${band}>(own));
}
$ end
