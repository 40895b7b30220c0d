"""The deliberate faults in sm80's decode with a tree, as in ../mutations.bzl; but `cases` are always there. The row serves intervals alone, and
neither, too.
"""

_ANSWER = ["answer"]
_TREE = ["accuracy/tree_none_*", "accuracy/tree_window_*"]
_INTERVALS = ["divided/intervals", "divided/window"]

def _fault(name, breaks, was, now, caught = _ANSWER, cases = _TREE, count = 1):
    return dict(kernel = "dec", name = name, breaks = breaks, was = was, now = now, caught = caught, cases = cases, count = count)

def _harmless(name, why, was, now, cases = _TREE):
    return dict(kernel = "dec", name = name, breaks = why, was = was, now = now, caught = [], cases = cases)

MUTATIONS = [
    _fault("tree_end_of_an_interval", "the last key of an interval", "end = min(end, int_at(mask.end, query));", "end = min(end, int_at(mask.end, query) + 1);", cases = ["accuracy/tree_*"]),
    _fault("tree_keys_of_one_row", "a tile walks over the keys of one of its rows", "        join_lanes(t.keys);\n", "", ["answer", "race", "divergence", "deadlock", "uninitialised"], cases = _INTERVALS),
    _fault("tree_merge_ends_with_a_row", "the keys of the other row that a block folds", "most = max(end, of_lane(end, 1));", "most = end;", ["answer", "divergence", "deadlock", "race"], cases = _INTERVALS),
    _fault("tree_merge_begins_with_the_problem", "the first result that a tile has left", "    find_keys<S, Rows>(p, tile, own);\n", "", ["answer", "uninitialised"], cases = _INTERVALS),
    _fault("tree_cut_of_two_rows", "steps that a row of another lane does not see whole", "lanes < 4", "lanes < 2", ["answer", "divergence", "deadlock"], cases = _INTERVALS),
    _fault("tree_cut_without_new_keys", "new keys between those that all rows see", "early = min(early, max(0, sight.first_slot));", ";", cases = ["accuracy/tree_wider_than_tiles"]),
    _fault("tree_bits_of_the_first_query", "whose bits hide scores", "bits_from(sight.tree, sight.query[rt][odd], first_key + group * 16 - sight.first_slot)", "bits_from(sight.tree, 0, first_key + group * 16 - sight.first_slot)"),
    _fault("tree_bits_of_other_keys", "which bits belong to a lane's second key", "(kt - group) * 16 + half * 8", "(kt - group) * 16"),
    _fault("tree_warp_with_new_keys_left_out", "a warp of whose keys some are new", "first_key + S::WARP_KEYS <= sight.first_slot", "first_key <= sight.first_slot"),
    _fault("tree_hidden_value", "NaN of a new key that a row does not see", "has_slot(sight.tree, sight.query[rt][odd], key - sight.first_slot)", "true", cases = ["special/tree_*"]),
    _fault("tree_window_without_its_left_side", "how far back a window reaches", "max(0, before + max(-own.seqlen_k, min(0, left - 1)))", "max(0, before)"),
    _fault("tree_bits_where_there_are_none", "a problem without a tree", "sight.first_slot = 0x7fffffff;", "sight.first_slot = 0;", ["bounds", "uninitialised"], cases = ["law/intervals_or_a_chain_say_nothing_*"]),
    _fault("tree_page_that_nobody_sees", "a page of new keys that no row sees is a fault", "some = key < slots || has_slot(mask.tree, row / p.shape.group, key - slots);", "some = true;", cases = ["tree/*"]),
    _fault("tree_bad_page_is_no_fault", "a page outside of the pool whose keys a row sees", "some = reaches(keys, first, past - first);", "some = false;", cases = ["tree/bad_*", "intervals/bad_*"]),
    _fault("logit_of_the_first_head", "whose logit a row raises", "raise_logit(p.max_logit + t.head_kv * p.shape.group + row % p.shape.group, maximum);", "raise_logit(p.max_logit + t.head_kv * p.shape.group, maximum);", cases = ["logit/*"]),
    _fault("logit_below_0_by_its_bits", "how floats below 0 are ordered", "atomicMin((uint32_t *)logit, bits_of(own));", "atomicMax((int32_t *)logit, (int32_t)bits_of(own));", cases = ["logit/*"]),
    _harmless("tree_cut_one_step_earlier", "a step is looked at as if some row did not see all of it", "early / S::TILE_N", "max(0, early / S::TILE_N - 1)"),
]
