"""The deliberate faults in the steps of sm80 and of Hopper with intervals and trees, as in ../trees/mutations.bzl. The rows serve intervals alone, and neither, too."""

_ANSWER = ["answer"]
_TREE = ["accuracy/tree_*", "tree/*"]
_INTERVALS = ["accuracy/intervals_middle_of_many", "accuracy/intervals*", "intervals/*"]
_ALIBI = ["accuracy/alibi_*"]
_BIAS = ["accuracy/bias*"]

def _fault(name, breaks, was, now, caught = _ANSWER, cases = _TREE, count = 1, kernel = "step"):
    return dict(kernel = kernel, name = name, breaks = breaks, was = was, now = now, caught = caught, cases = cases, count = count)

def _harmless(name, why, was, now, cases = _TREE):
    return dict(kernel = "step", name = name, breaks = why, was = was, now = now, caught = [], cases = cases)


MUTATIONS = [
    _fault("step_tree_hull_of_the_last_query", "a query of a tree stands anywhere among the new keys", "offset + p.left - own.seqlen_q", "offset + p.left"),
    _fault("step_tree_hull_ends_with_the_band", "and sees keys up to the last one", "        own.right = own.seqlen_k;\n", ""),
    _fault("step_tree_slots_of_other_keys", "which bits are a lane's keys", "slot + group * 8", "slot"),
    _fault("step_tree_slots_of_the_other_row", "whose bits hide scores", "hide_slots(fragments_of(s)[0], half, mask(), query_of(half),", "hide_slots(fragments_of(s)[0], half, mask(), query_of(0),"),
    _fault("step_tree_tile_with_slots", "in which tiles bits hide", "(tile + 1) * TILE_N > first_slot(mask())", "tile * TILE_N > first_slot(mask())"),
    _fault("step_spans_of_intervals_left", "slots of the spans that no row of a tile sees", "if (begin >= end || i < first_span() || i > order::spans::of(p, end - 1))", "if (begin >= end || i > order::spans::of(p, end - 1))", ["answer", "uninitialised"], cases = _INTERVALS),
    _fault("step_spans_of_intervals_right", "also behind the last that some row sees", "if (begin >= end || i < first_span() || i > order::spans::of(p, end - 1))", "if (begin >= end || i < first_span())", ["answer", "uninitialised"], cases = _INTERVALS),
    _fault("step_span_of_the_unit", "the span that a unit's first tile is in", "begin < end ? Order::spans::of(p, begin)", "begin > end ? Order::spans::of(p, begin)", ["answer", "race"], cases = _INTERVALS),
    _fault("step_intervals_whole_too_early", "tiles in which some row does not see the first keys", "(uint32_t)seen.whole_from", "(uint32_t)max(0, seen.whole_from - 1)", cases = _INTERVALS),
    _fault("step_intervals_cut_too_late", "and the last", "(uint32_t)seen.hidden_from", "(uint32_t)(seen.hidden_from + 1)", cases = _INTERVALS + _TREE),
    _fault("step_ranges_of_another_row", "a query's own range", "IN_SHARED ? last_key(mask(), query_of(half))", "IN_SHARED ? last_key(mask(), query_of(half) / 2 * 2)", cases = _INTERVALS),
    _fault("step_unit_narrowed_while_it_is_read", "all know the tiles that a unit has left", "                narrow_unit<order>(p, unit, made_mask);\n            block_sync();", "                narrow_unit<order>(p, unit, made_mask);", ["race", "answer", "deadlock", "uninitialised"], cases = _INTERVALS),
    _fault("step_hidden_value_of_a_tree", "NaN of a new key that a row does not see", "return sees(mask(), query_of(half), 0, key, 0);", "return key >= first_key(mask(), query_of(half)) && key <= last_of(half);", cases = ["special/tree_*"]),
    _fault("step_intervals_see_nothing", "LSE of a row without keys, where several blocks share it", "sees_some(mask, row_of(0).query)", "true", cases = _INTERVALS),
    _fault("step_mask_of_another_batch", "whose intervals a sequence has", "(int64_t)batch * all.bound_q", "(int64_t)0 * all.bound_q", cases = _INTERVALS + _TREE),
    _fault("step_bad_page_of_a_tree", "a page outside of the pool, in any tile of a unit", " mask(), begin,\n                                                            end - 1);", " mask(), begin,\n                                                            begin);", cases = ["tree/bad_*", "intervals/bad_*"]),
    _fault("hopper_step_tree_slots_of_the_other_row", "whose bits hide scores", "hide_slots(fragments_of(s)[0], half, tree, query_of(half),", "hide_slots(fragments_of(s)[0], half, tree, query_of(0),", kernel = "hopper"),
    _fault("hopper_step_tree_tile_with_slots", "in which tiles bits hide", "(tile + 1) * TILE_N > first_slot(mask())", "tile * TILE_N > first_slot(mask())", kernel = "hopper"),
    _fault("hopper_step_spans_left", "slots of the spans that no row of a tile sees", "i < word(UNIT_SEEN_SPAN) || i > last_span", "i > last_span", ["answer", "uninitialised"], cases = _INTERVALS, kernel = "hopper"),
    _fault("hopper_step_spans_right", "also behind the last that some row sees", "i < word(UNIT_SEEN_SPAN) || i > last_span", "i < word(UNIT_SEEN_SPAN)", ["answer", "uninitialised"], cases = _INTERVALS, kernel = "hopper"),
    _fault("hopper_step_slots_that_are_not_empty", "what is in them", "write_slot<HEAD_DIM>(slot_of(i), word(UNIT_SLOT_ROWS), block, o, none);", "write_slot<HEAD_DIM>(slot_of(i), word(UNIT_SLOT_ROWS), block, o, own);", cases = _INTERVALS, kernel = "hopper"),
    _fault("hopper_step_first_keys", "the first key of a row", "first_key(mask(), query_of(1)) - from", "first_key(mask(), query_of(0)) - from", cases = _INTERVALS, kernel = "hopper"),
    _fault("hopper_step_cut_too_late", "tiles in which some row does not see the last keys", "(uint32_t)seen.hidden_from", "(uint32_t)(seen.hidden_from + 1)", cases = _INTERVALS + _TREE, kernel = "hopper"),
    _fault("hopper_step_announced_while_it_is_narrowed", "all know the tiles that a unit has left", "tiles::mask_of_rows(p, unit));\n    warp_sync();", "tiles::mask_of_rows(p, unit));", ["race", "answer", "deadlock", "uninitialised"], cases = _INTERVALS, kernel = "hopper"),
    _fault("hopper_step_ranges_of_few_rows", "ranges of all rows of a tile", "row < STEP_ROWS", "row < STEP_ROWS / 8", ["answer", "uninitialised"], cases = _INTERVALS, kernel = "hopper"),
    _fault("hopper_step_hidden_value_of_a_tree", "NaN of a new key that a row does not see", "return sees(mask(), query_of(half), 0, key, 0);", "return key >= first_key(mask(), query_of(half)) && key <= last_of(half);", cases = ["special/tree_*"], kernel = "hopper"),
    _fault("hopper_step_bad_page_of_a_tree", "a page outside of the pool, in any tile of a unit", "unit_word(unit, UNIT_END) - 1", "unit_word(unit, UNIT_BEGIN)", cases = ["tree/bad_*", "intervals/bad_*"], kernel = "hopper"),
    _harmless("step_intervals_cut_one_tile_earlier", "a tile is looked at as if some row did not see all of it", "(uint32_t)seen.hidden_from", "(uint32_t)max(0, seen.hidden_from - 1)", cases = _INTERVALS),
    _fault("step_alibi_head_of_the_first_row", "whose slope a row has", "tile.head * p.group + at.head, tile.own, 0", "tile.head * p.group, tile.own, 0", cases = _ALIBI, kernel = "alibi"),
    _fault("step_alibi_place_in_the_tile", "where a query stands", "(int32_t)((uint32_t)at.query + (uint32_t)bias.offset)", "(int32_t)((uint32_t)(at.query - tile.query0) + (uint32_t)bias.offset)", cases = _ALIBI, kernel = "alibi"),
    _fault("step_alibi_not_mirrored", "keys behind a query's place", "fminf(key, mirror[i / 2 % 2] - key)", "key", cases = _ALIBI, kernel = "alibi"),
    _fault("step_alibi_turns_late", "tiles in which a line turns", "end - 1 <= rows.turn", "end - keys <= rows.turn", cases = _ALIBI, kernel = "alibi"),
    _fault("step_logit_of_the_first_head", "whose largest logit it is", "p.base.max_logit + head * p.group + at.head", "p.base.max_logit + head * p.group", cases = ["logit/*"], kernel = "alibi"),
    _fault("step_bias_of_the_first_query", "whose elements a row has", "at.query * all.query", "0", cases = _BIAS, kernel = "tensor"),
    _fault("step_bias_beyond_the_keys", "where pairs of elements end", "end <= bias.seqlen_k", "true", ["answer", "bounds", "uninitialised"], cases = _BIAS, kernel = "tensor"),
    _fault("step_bias_of_the_first_sequence", "whose bias a sequence has", "tile.number", "0", cases = _BIAS, kernel = "tensor"),
    _fault("staged_bias_of_the_first_query", "whose elements a row has", "at.query * all.query", "tile.query0 * all.query", cases = _BIAS, kernel = "staged"),
    _fault("staged_bias_of_the_first_head", "which head a row is of", "(tile.head * p.group + at.head) * all.head", "tile.head * p.group * all.head", cases = _BIAS, kernel = "staged"),
    _fault("staged_bias_of_the_first_sequence", "whose bias a sequence has", "tile.number * all.batch", "0 * all.batch", cases = _BIAS, kernel = "staged"),
    _fault("staged_bias_in_whole_chunks", "where elements are copied by 16 bytes", "left <= 0 || (left >= COUNT && step == BYTES_OF && ((uint64_t)from & 15) == 0)", "left <= 0 || (step == BYTES_OF && ((uint64_t)from & 15) == 0)", ["answer", "bounds", "uninitialised"], cases = _BIAS, kernel = "staged"),
    _fault("staged_bias_of_neighbouring_keys", "where elements of a row are not neighbours", "left >= COUNT && step == BYTES_OF &&", "left >= COUNT &&", ["answer", "bounds", "uninitialised"], cases = _BIAS, kernel = "staged"),
    _fault("staged_bias_of_the_first_half", "which keys the second half is of", "key0 + part * (int32_t)PART, seqlen_k", "key0, seqlen_k", cases = _BIAS, kernel = "staged"),
    _fault("staged_bias_not_awaited", "that elements have come", "        cp_async_wait(0);\n        warp_sync();\n        if (tensor_of(p).narrow) {", "        if (tensor_of(p).narrow) {", ["answer", "pending", "race"], cases = _BIAS, kernel = "staged"),
    _fault("staged_bias_overwritten", "that all lanes have read a tile's elements", "            }\n        }\n        warp_sync();\n    }\n};", "            }\n        }\n    }\n};", ["answer", "race"], cases = _BIAS, kernel = "staged"),
    _fault("staged_bias_half_overwritten", "that all lanes have read the first half", "                if (part > 0) {\n                    warp_sync();", "                if (part > 0) {", ["answer", "race"], cases = _BIAS, kernel = "staged"),
    _fault("staged_bias_of_the_tile_before", "which tile comes next", "request_elements(tile + 1);", "request_elements(tile);", cases = _BIAS, kernel = "staged"),
    _fault("staged_bias_of_another_warp", "where a warp's elements are", "(w * 4 + warp_index() % 4) * elements_t::BYTES", "(warp_index() % 4) * elements_t::BYTES", ["answer", "race"], cases = _BIAS, kernel = "staged"),
]
