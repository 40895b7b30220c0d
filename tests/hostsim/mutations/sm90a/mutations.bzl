"""The deliberate faults in Hopper's kernels, as in ../mutations.bzl; but `cases` are always there. fwd is a persistent forward kernel with turns and a
counter, full the same without a mask, window the same with windows, capped the same with a softcap and sinks; alibi and alibi_short with ALiBi, and one more kernel for ragged sequences, alibi_full without a mask; tensor with a bias by a tensor; bwd_alibi, bwd_alibi_full and split_alibi the same backward, as bwd and split below; short one that loads for itself,
full_short the same without a mask; bwd the fused backward of head_dim 64, split the backward of 192, a warpgroup of which keeps dV and another one
dK; bwd_window the fused backward of 128 with windows, split_window split with windows; lengths the same as window with one more kernel that reads
lengths, ragged a causal one with one more for ragged sequences; step a server's step, step_window the same with windows and a softcap; sequences the fused backward of 128 without a mask, with one more kernel for both,
sequences_shared that of 64, whose query heads are in parts of one.
"""

_ANSWER = ["answer"]
_RACE = ["race", "pending"]
_STUCK = ["deadlock"]
_ANY = ["race", "pending", "uninitialised", "deadlock", "misuse"]

_SQUARE = ["accuracy/square_bottom_right", "accuracy/gqa_8_2"]
# Several tiles a block, and more blocks of keys than stages, with and without a boundary in the middle of one.
_PARTIAL = ["special/partial_tiles_*"]
_LONG = ["accuracy/top_left_long_queries", "accuracy/bottom_right_long_keys"] + _SQUARE + ["accuracy/fused_qkv", "accuracy/decode", "accuracy/q1*"]

def _harmless(kernel, name, why, was, now, cases = ["law/repeat"] + _LONG):
    return dict(kernel = kernel, name = name, breaks = why, was = was, now = now, caught = [], cases = cases)

def _fault(kernel, name, breaks, was, now, caught, cases = _LONG, count = 1):
    return dict(kernel = kernel, name = name, breaks = breaks, was = was, now = now, caught = caught, cases = cases, count = count)

# ---- forward: mbarriers, the two proxies, turns ----------------------------------------------------------------------

_FORWARD = [
    _fault("fwd", "queries_not_waited_for", "Q is multiplied before it has arrived", "query_ring::wait_full(shared, q);", ";", ["pending", "uninitialised", "race"]),
    _fault("fwd", "keys_not_waited_for", "K is multiplied before it has arrived", "key_ring::wait_full(shared, k);", ";", ["pending", "uninitialised", "race"]),
    _fault("fwd", "zeros_for_scores_of_minus_infinity", "rows that see keys, of whose scores none is above -inf", "sees_some() ? float_of(0x7fc00000u) : 0.0f", "sees_some() ? 0.0f : 0.0f", _ANSWER, ["special/only_minus_inf"]),
    _fault("fwd", "infinities_beside_scores_of_minus_infinity", "the same rows beside infinities of V in a tile that is cut", "sees_some() ? float_of(0x7fc00000u) : 0.0f", "sees_some() ? GLINT_INFINITY : 0.0f", _ANSWER, ["special/only_minus_inf_*"]),
    _fault("fwd", "parity_of_values", "the phase that V is waited for", "value_ring::wait_full(shared, v);", "mbarrier_wait(value_ring::full(shared, v), v.phase ^ 1);", _ANY),
    _fault(
        "fwd",
        "phase_not_turned",
        "the phase of a ring after its last stage",
        "ring.stage = 0;\n        ring.phase ^= 1;",
        "ring.stage = 0;",
        _ANY,
    ),
    _fault(
        "fwd",
        "loaded_over_what_is_read",
        "a stage is loaded over before its readers are done",
        "wait_empty(shared, ring);\n        mbarrier_arrive_expect(full(shared, ring), filled);",
        "mbarrier_arrive_expect(full(shared, ring), filled);",
        _RACE + ["misuse"],
    ),
    _fault(
        "fwd",
        "too_few_bytes_expected",
        "K counts as arrived when half of it has",
        "key_ring::begin_fill(shared, k);",
        "key_ring::begin_fill(shared, k, key_tile::bytes / 2);",
        ["pending", "misuse", "race", "deadlock"],
    ),
    _fault("fwd", "too_many_bytes_expected", "more bytes are waited for than come", "query_ring::begin_fill(shared, q);", "query_ring::begin_fill(shared, q, Q_BYTES + 16);", _STUCK),
    _fault(
        "fwd",
        "scores_read_in_flight",
        "scores are made into weights while the product still runs",
        "wgmma_wait<1>();\n                have_scores(own.last - 1);",
        "have_scores(own.last - 1);",
        ["pending"],
    ),
    _fault(
        "fwd",
        "keys_given_back_in_flight",
        "K is given back before its product is done",
        "wgmma_wait<1>();\n                have_scores(own.last - 1);",
        "if (first_lane) mbarrier_arrive(key_ring::empty(shared, k)); wgmma_wait<1>(); wgmma_hold(s, TILE_N / 2); ring_advance<STAGES>(k); if (own.last == 1) { if (first_lane) mbarrier_arrive(query_ring::empty(shared, q)); ring_advance<Q_SLOTS>(q); }",
        _RACE,
    ),
    _fault(
        "fwd",
        "values_given_back_in_flight",
        "V is given back before its product is done",
        "wgmma_wait<0>();\n                have_values(work, own.last);\n                pack_weights<element>(weights, s);",
        "release_values(); v = ring_before(v); wgmma_wait<0>(); wgmma_hold(o, HEAD_DIM / 2); ring_advance<STAGES>(v); pack_weights<element>(weights, s);",
        _RACE,
    ),
    _fault(
        "fwd",
        "weights_made_in_flight",
        "weights are overwritten while the product reads them",
        "wgmma_wait<0>();\n                have_values(work, own.last);\n                pack_weights<element>(weights, s);",
        "pack_weights<element>(weights, s); wgmma_wait<0>(); have_values(work, own.last);",
        ["pending"],
    ),
    _fault(
        "fwd",
        "queries_given_back_early",
        "Q is given back a block too early",
        "if (of_block > own.first)\n                return;",
        "if (of_block > own.first + 1) return;",
        _ANY,
    ),
    _fault(
        "fwd",
        "scanned_values_without_fence",
        "what a scanner stored is not made known to the async proxy",
        "remove_special(values, key_tile::bytes, thread(), 64, element::EXPONENT);\n                        fence_async_shared();",
        "remove_special(values, key_tile::bytes, thread(), 64, element::EXPONENT);",
        ["race"],
        ["special/nan_in_V"],
    ),
    _fault("fwd", "scanner_not_stood_in_for", "an arrival is missing where no scanner works", "mbarrier_arrive(full);", ";", _STUCK),
    _fault(
        "fwd",
        "scanners_count_as_one",
        "V counts as scanned when one of two scanners is done",
        "Tiles::SCANS ? 2 : 1",
        "1",
        _ANY,
    ),
    _fault("fwd", "scanners_skip_one_too_few", "stages that need no scanner", "(uint32_t)(block - work.whole_from) + 1", "(uint32_t)(block - work.whole_from)", _ANY),
    _fault("fwd", "finding_of_the_other_stage", "where a scanner leaves what it found", "found<Tiles>(shared, v.stage) + 4 * scanner", "found<Tiles>(shared, v.stage ^ 1) + 4 * scanner", _ANY),
    _fault("fwd", "announced_over_what_is_read", "the next tile is announced before all have read the one two before", "slots::wait_empty(shared, ring);\n        st_shared_u32(", "st_shared_u32(", ["race", "deadlock"]),
    _fault("fwd", "every_lane_releases", "32 arrivals where one is counted", "!warp || lane_index() == 0)\n                queue::release", "true)\n                queue::release", ["misuse", "race", "deadlock"]),
    _fault("fwd", "turn_of_too_many", "threads of a named barrier", "named_sync(TURN + w, 256);", "named_sync(TURN + w, 384);", ["misuse", "deadlock"]),
    _fault("fwd", "turn_kept", "a warpgroup gives the turn to itself", "named_arrive(TURN + (w + 1) % WARPGROUPS, 256);", "named_arrive(TURN + w, 256);", ["misuse", "deadlock"]),
    _fault("fwd", "more_registers_than_there_are", "setmaxnreg asks for more than the block has", "registers_take<Variant::REGISTERS>();", "registers_take<240>();", ["deadlock", "misuse"]),
    _fault("fwd", "registers_not_given", "setmaxnreg waits for registers that nobody gives", "registers_give<Variant::PRODUCER_REGISTERS>();", ";", ["deadlock", "misuse"]),
    _fault("fwd", "registers_given_by_one_warp", "setmaxnreg is all warps' of a warpgroup", "registers_give<Variant::PRODUCER_REGISTERS>();", "if (warp_index() % 4 == 0) registers_give<Variant::PRODUCER_REGISTERS>();", ["misuse", "divergence", "deadlock"]),
    _fault("fwd", "mbarriers_without_fence", "mbarriers are not made known to the async proxy", "fence_mbarrier_init();", ";", ["misuse", "race"]),
    _fault(
        "fwd",
        "q_has_one_reader_less",
        "Q counts as read when all warps but one are done",
        "query_ring::init(shared, 1, 4 * WARPGROUPS);",
        "query_ring::init(shared, 1, 4 * WARPGROUPS - 1);",
        _ANY,
    ),
    _fault("fwd", "empty_tile_not_written", "a tile whose queries see no key is left as it was", "if (BLIND && work.last < 0)\n", "if (false)\n", _ANSWER, ["accuracy/a_tile_sees_nothing"]),
    _fault("fwd", "part_of_blind_tiles_is_one", "of several tiles whose queries see no key the first is written", "end_of_blind<TILE_M, HEAD_DIM>(work, p.shape)", "work.query0 + TILE_M", _ANSWER, ["accuracy/many_tiles_see_nothing"]),
    _fault("fwd", "tiles_taken_twice", "the counter of tiles begins with those that blocks begin with", "blocks + atom_global_add_u32(p.base.words, 1)", "atom_global_add_u32(p.base.words, 1)", ["race"]),
    _fault(
        "fwd",
        "negated_queries_without_fence",
        "negated Q is not made known to the async proxy",
        "fence_async_shared();\n    named_sync(barrier, 128);",
        "named_sync(barrier, 128);",
        ["race"],
        ["accuracy/negative_scale"],
    ),
    _fault(
        "fwd",
        "negated_queries_without_barrier",
        "Q is multiplied before all of it is negated",
        "fence_async_shared();\n    named_sync(barrier, 128);",
        "fence_async_shared();",
        ["race"],
        ["accuracy/negative_scale"],
    ),
    _fault("fwd", "product_steps_along_columns", "bytes of a step of 16 columns", "kk % steps * 32", "kk % steps * 64", ["answer", "bounds", "uninitialised", "pending", "race"]),
    _fault("fwd", "product_steps_along_rows", "bytes of a step of 16 rows", "kk * 16 * tile::width >> 4", "kk * 8 * tile::width >> 4", _ANSWER),
    _fault(
        "fwd",
        "swizzle_of_a_descriptor",
        "the swizzle of V",
        "matrix_descriptor(at, tile::slab_bytes, 8 * tile::width, (enum tensor_map_swizzle)tile::swizzle)",
        "matrix_descriptor(at, tile::slab_bytes, 8 * tile::width, TENSOR_MAP_SWIZZLE_64B)",
        ["answer", "misuse", "uninitialised"],
    ),
    _fault(
        "fwd",
        "stride_of_a_descriptor",
        "bytes to the next eight rows of Q and K",
        "matrix_descriptor(at, 16, 8 * tile::width, (enum tensor_map_swizzle)tile::swizzle)",
        "matrix_descriptor(at, 16, 4 * tile::width, (enum tensor_map_swizzle)tile::swizzle)",
        ["answer", "misuse"],
    ),
    _fault("fwd", "mask_hides_the_diagonal", "the diagonal", "nt * 8 > last", "nt * 8 >= last", _ANSWER),
    _fault("fwd", "mask_on_too_few_blocks", "a block on the diagonal is taken for one that all queries see", "end_key(band, first_query) / TILE_N", "end_key(band, first_query + TILE_N) / TILE_N", _ANSWER),
    _fault("fwd", "last_block_left_out", "the keys that a warpgroup's last query sees", "min(query0 + 64, mask.seqlen_q)", "min(query0 + 32, mask.seqlen_q)", _ANSWER + _ANY),
    _fault("fwd", "a_key_past_the_end", "keys past the end, as zeros", "min(query + band.right, band.seqlen_k - 1)", "min(query + band.right, band.seqlen_k)", _ANSWER),
    _fault("fwd", "lse_past_the_end", "rows past the end", "lane_index() % 4 == 0 && row < seqlen_q", "lane_index() % 4 == 0 && row <= seqlen_q", ["bounds", "race", "answer"]),
    _fault("fwd", "values_not_rescaled", "O keeps the old maximum", "rescale<HEAD_DIM>(o, factor);", ";", _ANSWER, ["accuracy/one_hot"]),
    _fault("fwd", "special_values_forgotten", "NaN and infinity come back to the queries that see them", "warp_any(special != 0)", "false", _ANSWER, ["special/nan_in_V"]),
    _fault("fwd", "queries_of_the_first_warpgroup", "which rows of Q are loaded", "work.query0 + 64 * w", "work.query0", _ANSWER),
]

# ---- a block that loads for itself -----------------------------------------------------------------------------------

_SHORT = [
    _fault(
        "short",
        "loaded_over_what_others_read",
        "no barrier before the next keys and values",
        "block_sync();                          /* nobody reads these keys and values any more */\n            load_keys(block - 1 - STAGES, next.stage);",
        "load_keys(block - 1 - STAGES, next.stage);",
        _RACE,
    ),
    _fault(
        "short",
        "keys_to_the_other_stage",
        "where the next keys go",
        "block_sync();                          /* nobody reads these keys and values any more */\n            load_keys(block - 1 - STAGES, next.stage);",
        "block_sync(); load_keys(block - 1 - STAGES, ring.stage);",
        _ANY,
        ["accuracy/rising"],
    ),
    _fault("short", "parity_of_keys", "the phase that K is waited for", "mbarrier_wait(shared + K_FULL + 8 * next.stage, next.phase);", "mbarrier_wait(shared + K_FULL + 8 * next.stage, next.phase ^ 1);", _ANY),
    _fault("short", "short_scores_in_flight", "scores are read while the product still runs", "wgmma_wait<1>();\n            wgmma_hold(s, TILE_N / 2);", "wgmma_hold(s, TILE_N / 2);", ["pending"]),
    _fault("short", "short_values_in_flight", "O is read while the product still runs", "wgmma_wait<0>();\n            wgmma_hold(o, HEAD_DIM / 2);", "wgmma_hold(o, HEAD_DIM / 2);", ["pending"]),
    _fault("short", "bytes_not_expected", "an arrival without the bytes that are to come", "mbarrier_arrive_expect(shared + full + 8 * stage, key_tile::bytes);", "mbarrier_arrive(shared + full + 8 * stage);", ["pending", "misuse", "race"]),
    _fault(
        "short",
        "cleaned_values_without_fence",
        "what was stored is not made known to the async proxy",
        "fence_async_shared();\n                block_sync();\n                special",
        "block_sync();\n                special",
        ["race"],
        ["special/nan_in_V"],
    ),
    _fault(
        "short",
        "cleaned_values_without_barrier",
        "V is multiplied before all threads have cleaned it",
        "fence_async_shared();\n                block_sync();\n                special",
        "fence_async_shared();\n                special",
        ["race"],
        ["special/nan_in_V"],
    ),
    _fault(
        "short",
        "product_without_fence",
        "registers that were touched go into a product without wgmma_fence",
        "wgmma_fence();\n#pragma unroll\n    for (int kk = 0; kk < b_tile::rows / 16; ++kk)\n        multiply_step(Element{}, d, a + 4 * kk, b + row_step<b_tile>(kk), kk > 0 ? 1 : add);",
        "for (int kk = 0; kk < b_tile::rows / 16; ++kk) multiply_step(Element{}, d, a + 4 * kk, b + row_step<b_tile>(kk), kk > 0 ? 1 : add);",
        ["misuse", "race", "pending"],
    ),
]

# ---- windows ---------------------------------------------------------------------------------------------------------

_WINDOWS = ["accuracy/window_whole_blocks_between", "accuracy/window_a_tile", "accuracy/window_both_sides"]
_WINDOW_SPECIAL = ["special/window_bottom_right_nan_in_V", "special/window_of_whole_blocks_nan_in_V"]

_WINDOW = [
    _fault(
        "window",
        "sink_beside_scores_of_minus_infinity",
        "O of a row of a sink and of scores that are all -inf",
        "(inverse == 0.0f || sink == -GLINT_INFINITY)",
        "true",
        _ANSWER,
        ["special/sinks_only_minus_inf"],
    ),
    _fault("window", "window_hides_its_first_key", "the first key of a window", "(Band::LEFT && nt * 8 < begin)", "(Band::LEFT && nt * 8 <= begin)", _ANSWER, _WINDOWS),
    _fault("window", "window_on_too_few_blocks", "a block at the left side that some query does not see whole", "block * TILE_N < query0 + 63 + mask().left", "block * TILE_N < query0 + mask().left", _ANSWER, _WINDOWS),
    _fault("window", "first_block_left_out", "the first block of a warpgroup's first query", "own.first = min(work.last, first_key(mask, query0) / TILE_N);", "own.first = min(work.last, first_key(mask, query0 + 63) / TILE_N);", _ANSWER + _STUCK, _WINDOWS),
    _fault("window", "tile_of_the_last_query", "the first block of a tile", "min(band.seqlen_k, first_key(band, first_query)) / TILE_N", "min(band.seqlen_k, first_key(band, last_query)) / TILE_N", _ANSWER + _ANY, _WINDOWS),
    _fault("window", "cut_block_taken_for_whole", "whose values are looked through for NaN and infinity", "(first_key(band, last_query) + TILE_N - 1) / TILE_N", "first_key(band, last_query) / TILE_N", _ANSWER, _WINDOW_SPECIAL),
    _fault("window", "special_values_before_the_window", "NaN and infinity to the queries that see them", "return sees(mask, query + 8 * half, key);", "return key <= query + 8 * half + mask.right;", _ANSWER, _WINDOW_SPECIAL),
    _fault("window", "keys_not_passed_on", "blocks that others walk over", "for (int32_t i = 0; mask_t::LEFT && i < passed; ++i)\n                    pass_keys();", ";", _ANY, _WINDOWS),
    _fault("window", "values_not_passed_on", "blocks that others walk over", "for (int32_t i = 0; mask_t::LEFT && i < passed; ++i)\n                    pass_values();", ";", _ANY, _WINDOWS),
    _fault("window", "scanners_out_of_step", "which stage the next block that is cut lies in", "ring_skip<STAGES>(v, (uint32_t)(block - work.whole_from) + 1);", "ring_skip<STAGES>(v, (uint32_t)(block - work.whole_from));", _ANY, _WINDOWS),
]

# ---- softcaps and sinks ----------------------------------------------------------------------------------------------

_CAPPED = [
    _fault("capped", "empty_tile_without_sink", "the sink of queries that see no key", "t.sinks ? ld_global_f32(t.sinks + head_q) : -GLINT_INFINITY", "-GLINT_INFINITY", _ANSWER, ["accuracy/sinks_blind_rows"]),
    _fault("capped", "cap_of_another_scale", "scores are capped in the units of the cap", "change_scores(s, score_t::of(p.base));", "change_scores(s, capped_score{2 * p.base.score_ratio, p.base.score_limit});", _ANSWER, ["accuracy/softcap_2"]),
    _fault("capped", "cap_without_its_end", "scores far above the cap", "s = s > cap.limit ? cap.limit : s;", ";", _ANSWER, ["accuracy/softcap_*"]),
    _fault(
        "capped",
        "cap_after_the_mask",
        "a hidden score becomes minus the cap",
        "hide_scores<TILE_N>(s, work, mask, query_of(work), of_block);",
        "hide_scores<TILE_N>(s, work, mask, query_of(work), of_block); change_scores(s, score_t::of(p.base));",
        _ANSWER,
        ["accuracy/softcap_2"],
    ),
    _fault("capped", "sink_beside_raw_maxima", "a sink is in natural units, a maximum in those of the scores", "add_sink<below>(inverse, lse, rows.max[half], sum, natural_scale<Bias>(t.shape), ld_global_f32(t.sinks + work.head_q));", "add_sink<below>(inverse, lse, rows.max[half], sum, 1.0f, ld_global_f32(t.sinks + work.head_q));", _ANSWER, ["accuracy/softcap_and_sinks"]),
    _fault("capped", "sink_without_the_factor_of_sums", "a row's sum has the factor 2^-BELOW", "fmaf(sink - top, log2_e, (float)-below)", "(sink - top) * log2_e", _ANSWER, ["accuracy/softcap_and_sinks"]),
    _fault("capped", "sink_of_every_lane", "the four lanes of a row add its sink once", "fmaf(sum, kept, ex2(of_sink))", "fmaf(sum, kept, quad_sum(ex2(of_sink)))", _ANSWER, ["accuracy/softcap_and_sinks"]),
    _fault("capped", "sum_of_another_base", "a sink above the maximum makes the sum of the keys smaller", "ex2((own - top) * log2_e)", "ex2(own - top)", _ANSWER, ["accuracy/softcap_and_sinks"]),
    _fault("capped", "lse_without_the_sink", "the sink in LSE, where scores are above it", "log_sum<below>(max, total, softmax_scale)", "log_sum<below>(max, sum, softmax_scale)", _ANSWER, ["accuracy/softcap_and_sinks"]),
    _fault("capped", "sink_of_the_key_head", "whose sink it is", "add_sink<below>(inverse, lse, rows.max[half], sum, natural_scale<Bias>(t.shape), ld_global_f32(t.sinks + work.head_q));", "add_sink<below>(inverse, lse, rows.max[half], sum, natural_scale<Bias>(t.shape), ld_global_f32(t.sinks + work.head_q / t.shape.group));", _ANSWER, ["accuracy/softcap_and_sinks"]),
    _fault("capped", "blind_rows_without_the_sink", "LSE of a query that sees no key is its sink", "lse = sink;", ";", _ANSWER, ["accuracy/sinks_blind_rows"]),
]

# ---- ALiBi -----------------------------------------------------------------------------------------------------------

_ALIBI_CASES = ["accuracy/alibi_mixed", "accuracy/alibi_top_left"]

_ALIBI_RAGGED = ["alibi/ragged_top_left"]

_ALIBI = [
    _fault("alibi", "alibi_of_the_key_head", "whose slope it is", "bias_t::at(p.base, work.head_q, {mask().seqlen_q - first_q, mask().seqlen_k, 0, 0}, first_q)", "bias_t::at(p.base, work.head_q / p.base.shape.group, {mask().seqlen_q - first_q, mask().seqlen_k, 0, 0}, first_q)", _ANSWER, _ALIBI_CASES),
    _fault("alibi", "alibi_of_a_warps_first_query", "where a thread's queries are", "thread / 32 * 16 + thread % 32 / 4 + 8 * half", "thread / 32 * 16 + 8 * half", _ANSWER, _ALIBI_CASES),
    _fault("alibi", "alibi_of_a_warpgroups_first_query", "where they are in a plain block", "(uint32_t)before + thread_index() % 128 / 32 * 16 + lane_index() / 4", "(uint32_t)before", _ANSWER, _ALIBI_CASES),
    _fault("alibi", "alibi_of_the_first_block", "where a block's keys are", "line, of_block * TILE_N, factor", "line, 0, factor", _ANSWER, _ALIBI_CASES),
    _fault("alibi", "alibi_of_the_other_half", "a thread's two queries", "(float)(own + 8 * half - 2 * (int32_t)(lane_index() & 3))", "(float)(own + 8 - 8 * half - 2 * (int32_t)(lane_index() & 3))", _ANSWER, _ALIBI_CASES),
    _fault("alibi", "alibi_of_a_quads_first_key", "a thread's first key", "(float)(ahead - column)", "(float)(ahead)", _ANSWER, _ALIBI_CASES),
    _fault("alibi", "alibi_without_the_scale", "exponents of a plain block", "s[i] = fmaf(s[i], scale, fmaf((float)(i / 4 * 8 + i % 2), rise, shift[i / 2 % 2]));", "s[i] = fmaf(s[i], 1.0f, fmaf((float)(i / 4 * 8 + i % 2), rise, shift[i / 2 % 2]));", _ANSWER, _ALIBI_CASES),
    _fault("alibi", "alibi_references_stay", "a row whose exponents go beyond its reference", "followed = warp_any(!(bound <= (float)(12 - below)));", "followed = false;", _ANSWER, ["accuracy/falling", "special/logits_*"]),
    _fault("alibi", "alibi_faded_too_soon", "weights that are left out are 0", "bound < -127.0f", "bound < 0.0f", _ANSWER, _ALIBI_CASES),
    _fault("alibi", "alibi_nan_fades", "NaN far away", "largest = max(largest, (int32_t)bits_of(s[i]));", "largest = max(largest, (int32_t)bits_of(fmaxf(s[i], 0.0f)));", _ANSWER, ["special/alibi_far_nan_in_K"]),
    _fault("alibi_full", "alibi_not_mirrored", "keys behind a query's place", "fminf(key, mirror - key)", "key", _ANSWER, _ALIBI_CASES),
    _fault("alibi_full", "alibi_rises_behind", "blocks of keys behind all places", "before < -62 ? line.behind : line.rise", "line.rise", _ANSWER, ["accuracy/alibi_blind_rows"]),
    _fault("alibi_full", "alibi_sums_not_rescaled", "sums when a reference has grown", "rows.sum[half] *= factor[half];", "rows.sum[half] *= 1.0f;", _ANSWER, ["accuracy/alibi_blind_rows", "accuracy/falling"], count = 3),
    _fault("alibi", "alibi_lse_scaled_twice", "LSE of scores in natural units", "log_sum<below>(rows.max[half], sum, natural_scale<Bias>(t.shape))", "log_sum<below>(rows.max[half], sum, t.shape.softmax_scale)", _ANSWER, _ALIBI_CASES),
    _fault("alibi", "alibi_sink_beside_scaled_maxima", "a sink beside scores in natural units", "add_sink<below>(inverse, lse, rows.max[half], sum, natural_scale<Bias>(t.shape), ld_global_f32(t.sinks + work.head_q));", "add_sink<below>(inverse, lse, rows.max[half], sum, t.shape.softmax_scale, ld_global_f32(t.sinks + work.head_q));", _ANSWER, ["accuracy/alibi_top_left"]),
    _fault("alibi", "alibi_of_queries_in_the_tensor", "the position of a ragged sequence's queries", "(int32_t)offset - first_q", "(int32_t)offset", _ANSWER, _ALIBI_RAGGED),
    _fault("alibi", "alibi_first_query_not_kept", "where a ragged sequence begins, which the tile's slot has", "FIRST_Q ? 1 + rows[0] : 1", "1", _ANSWER, _ALIBI_RAGGED),
    _fault("alibi_short", "alibi_of_the_tensors_queries", "the position of queries, and how many there are, of a short ragged tile", "get_ragged_tile(shared + TILE_AT).first_q", "0", _ANSWER, _ALIBI_RAGGED),
]

# ---- a bias by a tensor ----------------------------------------------------------------------------------------------

_TENSOR_CASES = ["accuracy/bias_full", "accuracy/bias_lines*"]

_TENSOR = [
    _fault("tensor", "bias_of_the_key_head", "whose bias it is", "Tiles::number(p.base, work, work.query0), work.head_q,", "Tiles::number(p.base, work, work.query0), work.head_q / p.base.shape.group,", _ANSWER, _TENSOR_CASES),
    _fault("tensor", "bias_asked_for_too_soon", "a copy begins when the block before has been added", "staged::add(s, p, shared + BIAS_AT);\n                if (of_block > own.first)\n                    request_bias(of_block - 1);", "if (of_block > own.first)\n                    request_bias(of_block - 1);\n                staged::add(s, p, shared + BIAS_AT);", _RACE + _ANSWER, _TENSOR_CASES),
    _fault("tensor", "bias_not_awaited", "a block is added when it has arrived", "cp_async_wait(0);\n        warp_sync();\n        if (tensor(p).narrow)", "warp_sync();\n        if (tensor(p).narrow)", _RACE, _TENSOR_CASES),
    _fault("tensor", "bias_of_one_lane", "other lanes have copied what a lane adds", "cp_async_wait(0);\n        warp_sync();\n        if (tensor(p).narrow)", "cp_async_wait(0);\n        if (tensor(p).narrow)", _RACE, _TENSOR_CASES),
    _fault("tensor", "bias_over_what_is_read", "other lanes have added what a lane copies over", "                s[i + 1] = fmaf(s[i + 1], scale, pair[1]);\n            }\n        }\n        warp_sync();", "                s[i + 1] = fmaf(s[i + 1], scale, pair[1]);\n            }\n        }", _RACE, _TENSOR_CASES),
    _fault("tensor", "bias_of_the_first_keys", "where a block's keys are", "first + key0 * all.key * bytes", "first", _ANSWER, _TENSOR_CASES),
    _fault("tensor", "bias_of_one_half", "a thread's two queries", "(uint32_t)(i / 2 % 2 * 8 * (int)ROW + i / 4 * 8)", "(uint32_t)(i / 4 * 8)", _ANSWER, _TENSOR_CASES, count = 2),
    _fault("tensor", "bias_of_the_tensors_queries", "where a ragged sequence's queries are", "query_of(work) - Tiles::first_query(shared, t));\n                request_bias", "query_of(work));\n                request_bias", _ANY + _ANSWER, ["bias/ragged"]),
    _fault("tensor", "bias_of_the_first_sequence", "which ragged sequence it is", "number_of_row(p.sequences, p.shape.batch, query0)", "0 * query0", _ANY + _ANSWER, ["bias/ragged"]),
]

# Whatever has the lines of steps: fused, without a mask, split.
_BACKWARD_ALIBI = [
    _fault("bwd_alibi", "line_of_the_key_head", "whose slope a step's line has", "lines::of(p.base, walk.head, Blocks", "lines::of(p.base, work.head_kv, Blocks", _ANSWER, _ALIBI_CASES),
    _fault("bwd_alibi", "line_of_the_first_queries", "where a step's queries are", "walk.m * TILE_M, TILE_M, work.key0, TILE_N), LINE_AT", "0, TILE_M, work.key0, TILE_N), LINE_AT", _ANSWER, _ALIBI_CASES),
    _fault("bwd_alibi", "line_of_the_first_keys", "where a block's keys are", "walk.m * TILE_M, TILE_M, work.key0, TILE_N), LINE_AT", "walk.m * TILE_M, TILE_M, 0, TILE_N), LINE_AT", _ANSWER, _ALIBI_CASES),
    _fault("bwd_alibi", "line_over_what_is_read", "a line is left before its stage is empty", "    ring_of::wait_empty(shared, queries);\n    leave_line(line, shared + line_at + queries.stage * Line::BYTES);", "    leave_line(line, shared + line_at + queries.stage * Line::BYTES); ring_of::wait_empty(shared, queries);", ["race"], _ALIBI_CASES),
    _fault("bwd_alibi", "line_of_the_other_stage", "which stage's line it is", "shared + LINE_AT + queries.stage * line_t::BYTES", "shared + LINE_AT", _ANSWER + ["race", "uninitialised"], _ALIBI_CASES),
    _fault("bwd_alibi", "line_of_a_blocks_first_key", "where a thread's keys are", "2 * (thread_index_anew() & 3) - key()", "2 * (thread_index_anew() & 3)", _ANSWER, _ALIBI_CASES),
    _fault("bwd_alibi", "line_of_the_second_key", "a thread's two keys", "line[0] * (line[1] - 8.0f)", "line[0] * (line[1] + 8.0f)", _ANSWER, _ALIBI_CASES),
    _fault("bwd_alibi", "line_of_the_calls_lengths", "the position of a ragged sequence's queries", "alibi_bias::at(p, head, {mask.seqlen_q, mask.seqlen_k, 0, 0}, 0)", "(alibi_bias::at(p, head, {p.shape.seqlen_q, p.shape.seqlen_k, 0, 0}, 0))", _ANSWER, ["alibi/ragged"]),
    _fault("bwd_alibi_full", "line_not_bent", "keys behind a query's place", "if (bend != 0.0f)", "if (false)", _ANSWER, _ALIBI_CASES),
    _fault("bwd_alibi_full", "line_bent_too_late", "a block where the line turns is taken for one of keys before all places", "from >= keys - 1", "from >= 0", _ANSWER, ["accuracy/alibi_blind_rows", "accuracy/alibi_mixed"]),
    _fault("bwd_alibi_full", "line_rises_behind", "steps whose keys are all behind", "{-rise, from", "{rise, from", _ANSWER, ["accuracy/alibi_blind_rows"]),
    _fault("split_alibi", "line_of_the_blocks_first_query", "where a thread's queries are in the kernel for dQ", "query - work.query0);", "0);", _ANSWER, _ALIBI_CASES),
    _fault("split_alibi", "line_of_the_other_query", "a thread's two queries in the kernel for dQ", "first + 8.0f, -lse[1]", "first - 8.0f, -lse[1]", _ANSWER, _ALIBI_CASES),
    _fault("split_alibi", "line_of_the_last_block", "the keys of a step in the kernel for dQ", "DQ_M, block * DQ_N, DQ_N)", "DQ_M, work.last * DQ_N, DQ_N)", _ANSWER, _ALIBI_CASES),
]

# ---- backward: dS between the warpgroups, sums in turns --------------------------------------------------------------

_SUMS = """give_back();
                    if (!dq.last)
                        turn_pass(dq.turn, (uint32_t)(work.key0 + TILE_N));"""
_KEY_SPECIAL = ["special/nan_in_K"]

_BACKWARD = [
    _fault(
        "bwd",
        "ds_without_fence",
        "dS is not made known to the async proxy",
        "fence_async_shared();\n                    arrive(ds_ring::full(shared, queries));",
        "arrive(ds_ring::full(shared, queries));",
        ["race"],
    ),
    _fault(
        "bwd",
        "ds_from_one_lane",
        "a warp's arrival before all of its lanes have stored dS",
        "fence_async_shared();\n                    arrive(ds_ring::full(shared, queries));",
        "fence_async_shared(); if (lane == 0) mbarrier_arrive(ds_ring::full(shared, queries));",
        ["race"],
    ),
    _fault("bwd", "ds_over_what_is_read", "dS is stored over one that the other warpgroup still multiplies", "ds_ring::wait_empty(shared, queries);", ";", _RACE),
    _fault("bwd", "dq_of_the_wrong_step", "dQ is that of the step at hand", "!kind.plain && step == 0 ? queries : ring_before(queries)", "queries", _ANY + _ANSWER),
    _fault(
        "bwd",
        "dout_given_back_in_flight",
        "dO is given back before dV has it",
        "wgmma_wait<1>();\n                    wgmma_hold(dv, HEAD_DIM / 2);\n                    arrive(do_ring::empty(shared, queries));",
        "arrive(do_ring::empty(shared, queries)); wgmma_wait<1>(); wgmma_hold(dv, HEAD_DIM / 2);",
        _RACE,
    ),
    _fault(
        "bwd",
        "queries_given_back_in_flight",
        "Q is given back before dK has it",
        "wgmma_wait<0>();\n                wgmma_hold(dk, HEAD_DIM / 2);\n                arrive(q_ring::empty(shared, queries));",
        "arrive(q_ring::empty(shared, queries)); wgmma_wait<0>(); wgmma_hold(dk, HEAD_DIM / 2);",
        _RACE,
    ),
    _fault(
        "bwd",
        "sums_out_of_turn",
        "a block adds to dQ before its turn",
        "turn_wait(turn, before);",
        ";",
        ["race", "uninitialised", "pending"],
    ),
    _fault("bwd", "turn_passed_before_the_sum", "the turn is passed while the sum is under way", "bulk_wait<0>();\n    st_release_u32(turn, keys);", "st_release_u32(turn, keys);", _RACE),
    _fault("bwd", "turn_passed_when_read", "the turn is passed when the copy has read its source", "bulk_wait<0>();\n    st_release_u32(turn, keys);", "bulk_wait_read<0>(); st_release_u32(turn, keys);", _RACE),
    _fault("bwd", "turn_without_acquire", "a turn is seen, but not what was done before it", "ld_acquire_u32(turn) < keys", "ld_relaxed_u32(turn) < keys", ["race"]),
    _fault("bwd", "stage_given_back_while_read", "what leaves is written over", _SUMS, "bulk_commit(); mbarrier_arrive(out_ring::empty(shared, own)); bulk_wait_read<0>(); if (!dq.last) turn_pass(dq.turn, (uint32_t)(work.key0 + TILE_N));", _RACE),
    _fault("bwd", "turn_never_passed", "the blocks after it wait", _SUMS, "give_back();", _STUCK),
    _fault("bwd", "parity_of_the_turn_seen", "whether the sum is complete", "seen_in ^= 1u << (SEEN_AT + out.stage);", ";", _ANY, ["law/repeat"]),
    _fault("bwd", "sum_read_before_its_turn", "the last block reads the sum before others have added", "mbarrier_wait(shared + TURN_SEEN + 8 * out.stage, seen_in >> (SEEN_AT + out.stage) & 1);\n                seen_in", "seen_in", ["race", "uninitialised", "pending"]),
    _fault(
        "bwd",
        "results_without_fence",
        "what leaves is not made known to the copy engine",
        "fence_async_shared();\n                                    arrive(out_ring::full(shared, out));",
        "arrive(out_ring::full(shared, out));",
        ["race"],
    ),
    _fault("bwd", "values_never_given_back", "V of the next keys waits", "arrive(shared + v_ring::empty_at);", ";", _STUCK, ["accuracy/batch_3", "accuracy/mqa_8_1", "law/workspace_contents_many_heads"]),
    _fault("bwd", "check_not_told", "nobody says that K has been looked at", "mbarrier_arrive(shared + CHECKED);\n        mbarrier_wait(shared + CHECKED, turn % 2);", "mbarrier_wait(shared + CHECKED, turn % 2);", _STUCK),
    _fault(
        "bwd",
        "cleaned_keys_without_fence",
        "what was stored is not made known to the async proxy",
        "remove_special(shared, OWN_BYTES, thread_index_anew() - 128, 32 * WARPS, element::EXPONENT);\n                fence_async_shared();",
        "remove_special(shared, OWN_BYTES, thread_index_anew() - 128, 32 * WARPS, element::EXPONENT);",
        ["race"],
        _KEY_SPECIAL,
    ),
    _fault(
        "bwd",
        "settled_without_fence",
        "what was stored is not made known to the async proxy",
        "fence_async_shared();\n    named_sync(barrier, threads);",
        "named_sync(barrier, threads);",
        ["race"],
        ["special/nan_in_dO"],
    ),
    _fault("bwd", "backward_mask_one_off", "the diagonal", "column < sight.first[side]", "column <= sight.first[side]", _ANSWER),
    _fault("bwd", "backward_mask_on_too_few_blocks", "a block on the diagonal is taken for one that is seen whole", "max(0, key0 + TILE_N - 1 - band.right)", "max(0, key0 - band.right)", _ANSWER),
    _fault("bwd", "last_block_not_last", "which block rounds dQ", "work.key0 + TILE_N >= keys.end}", "work.key0 + TILE_N > keys.end}", _ANY + _ANSWER, ["accuracy/q1_k128_bottom_right"]),
    _fault("bwd", "first_block_adds", "the first block adds to what the workspace holds", "work.key0 <= keys.first", "false", ["uninitialised", "deadlock"]),
    _fault("bwd", "one_head_of_the_group", "the sum over a group's query heads", "work.steps = rows * work.group;", "work.steps = rows;", _ANSWER + _ANY, ["accuracy/gqa_8_2"]),
    _fault("bwd", "turn_of_the_first", "whose turn it is to multiply", "named_sync(TURN_BARRIER + warpgroup, 32 * WARPS);", "named_sync(TURN_BARRIER, 32 * WARPS);", ["misuse", "deadlock"]),
    _fault("bwd", "ds_not_transposed", "how dS is stored", "stmatrix_x4_trans(tile_move(lane_at, 16 * j, 0, tile::rows, tile::chunks), words + 4 * j);", "stmatrix_x4(tile_move(lane_at, 16 * j, 0, tile::rows, tile::chunks), words + 4 * j);", _ANSWER),
    _fault("bwd", "rows_not_expected", "LSE is read before it has arrived", "tile::bytes + row_bytes", "tile::bytes", ["pending", "misuse", "race", "deadlock"]),
    _fault("bwd", "dk_not_scaled", "the scale of dK", "leave(dk, shape.softmax_scale);", "leave(dk, 1.0f);", _ANSWER),
    _fault("bwd", "plain_on_the_diagonal", "steps on the diagonal are made without a mask", "max(work.first, work.clear_from)", "work.first", _ANSWER + _ANY, ["accuracy/q129_k129_bottom_right"]),
    _fault("bwd", "plain_in_the_last_block", "the last block adds to dQ and does not round it", "work.key0 + TILE_N >= keys_seen(mask, mask.seqlen_q)", "false", _ANSWER + _ANY, ["accuracy/whole_key_blocks"]),
    _fault("bwd", "walk_after_plain_steps", "where the steps after the plain ones are", "make_anew(step);", "make_anew(step + 1);", _ANSWER + _ANY, ["accuracy/whole_key_blocks"]),
    _fault("bwd", "rows_beyond_the_last_query_not_hidden", "zeros of Q and dO meet infinities of K and V, where the mask hides nothing", "!kind.plain && is_partial<TILE_M>(mask(), walk.m)", "false", _ANSWER, _PARTIAL),
    _fault("bwd", "rows_beyond_the_last_query_plain", "steps of the other heads of a group hide none of these", "is_partial<TILE_M>(mask, work.last) ? work.group : 0", "0", _ANSWER, _PARTIAL),
    _fault("bwd", "no_registers_left", "setmaxnreg asks for more than the block has", "registers_take<Variant::REGISTERS>();", "registers_take<240>();", ["deadlock", "misuse"]),
]

# ---- backward in two kernels -----------------------------------------------------------------------------------------

_SPLIT = [
    _fault("split", "split_rows_beyond_the_last_query_not_hidden", "zeros of Q and dO meet infinities of K and V, where the mask hides nothing", "is_partial<TILE_M>(mask(), walk.m)", "false", _ANSWER, _PARTIAL),
    _fault("split", "parity_of_p", "P is stored over what the other warpgroup reads", "keeps_dk ? queries.phase : queries.phase ^ 1", "queries.phase", _ANY),
    _fault("split", "p_from_one_lane", "a warp's arrival before all of its lanes have stored P", "arrive(p_ring::full(shared, queries));", "if (lane == 0) mbarrier_arrive(p_ring::full(shared, queries));", ["race"]),
    _fault("split", "parity_of_the_other_tile", "the phase of Q or dO", "mbarrier_wait(z_full + 8 * queries.stage, queries.phase);", ";", ["pending", "uninitialised", "race"]),
    _fault(
        "split",
        "dv_over_keys_that_are_read",
        "dV leaves through K before all warps have multiplied it",
        "fence_async_shared();\n        named_sync(OWN_BARRIER + keeps_dk, 128);",
        "fence_async_shared();",
        ["race", "uninitialised"],
    ),
    _fault(
        "split",
        "dv_without_fence",
        "dV is not made known to the copy engine",
        "fence_async_shared();\n        named_sync(OWN_BARRIER + keeps_dk, 128);",
        "named_sync(OWN_BARRIER + keeps_dk, 128);",
        ["race"],
    ),
    _fault(
        "split",
        "dq_without_barrier",
        "dQ leaves before all warps have stored it",
        "fence_async_shared();\n        named_sync(DQ_OWN_BARRIER + warpgroup, 128);",
        "fence_async_shared();",
        ["race", "uninitialised"],
    ),
    _fault(
        "split",
        "dq_scores_in_flight",
        "scores are read while the product still runs",
        "wgmma_wait<0>();\n            wgmma_hold(s, DQ_N / 2);\n            wgmma_hold(dp, DQ_N / 2);",
        "wgmma_hold(s, DQ_N / 2); wgmma_hold(dp, DQ_N / 2);",
        ["pending"],
    ),
    _fault("split", "dq_keys_given_back_in_flight", "K is given back before dQ has it", "wgmma_wait<2>();\n            wgmma_hold(dq, HEAD_DIM / 2);", "wgmma_hold(dq, HEAD_DIM / 2);", ["race", "pending"]),
    _fault("split", "dq_mask_on_too_few_blocks", "a block on the diagonal is taken for one that all queries see", "end_key(band, first_query) / TILE_N", "end_key(band, first_query + TILE_N) / TILE_N", _ANSWER, ["accuracy/q1_k131_top_left"]),
    _fault("split", "dq_turn_of_too_few", "threads of a named barrier", "named_sync(DQ_TURN_BARRIER + warpgroup, 256);", "named_sync(DQ_TURN_BARRIER + warpgroup, 128);", ["misuse", "race", "deadlock"]),
    _fault("split", "dq_keys_loaded_over", "K is loaded over before dQ has it", "arrive(k_empty);", ";", _STUCK, ["accuracy/q131_k131_top_left"]),
]

# ---- changes that are not faults -------------------------------------------------------------------------------------

_HARMLESS = [
    _harmless("fwd", "other_tiles", "the order of tiles", "blocks + atom_global_add_u32(p.base.words, 1)", "tile + blocks"),
    _harmless(
        "split",
        "p_given_back_by_one_lane",
        "P is not stored again before its Q and dO are given back, which all lanes do together",
        "arrive(p_ring::empty(shared, queries));",
        "if (lane == 0) mbarrier_arrive(p_ring::empty(shared, queries));",
    ),
    _harmless("bwd", "turn_taken_twice", "one more look at the turn", "turn_wait(dq.turn, (uint32_t)work.key0);", "turn_wait(dq.turn, (uint32_t)work.key0); turn_wait(dq.turn, (uint32_t)work.key0);"),
]

# ---- backward: windows -----------------------------------------------------------------------------------------------

_SLIDING = ["accuracy/window_sliding", "accuracy/window_both_sides"]

_BACKWARD_WINDOW = [
    _fault(
        "bwd_window",
        "first_block_of_a_window_adds_to_dq",
        "the first key block adds dQ to what nobody has stored",
        "work.key0 <= keys.first",
        "work.key0 == 0",
        _ANSWER + _ANY,
        ["accuracy/window_a_tile", "accuracy/window_one_key"],
    ),
    _fault("bwd_window", "walk_ends_for_the_first_key", "the last query that sees a key", "last_query / TILE_M) : last_m", "(last_query - TILE_N + 1) / TILE_M) : last_m", _ANSWER + _ANY, _SLIDING),
    _fault("bwd_window", "window_taken_for_whole", "query blocks that see all keys of a block", "(key0 - band.left + 1) / TILE_M - 1", "(key0 - band.left + 1) / TILE_M", _ANSWER, ["accuracy/window_whole_blocks_between"]),
    _fault("bwd_window", "window_shows_a_query_more", "the last query that sees a key", "column > sight.last[side]", "column > sight.last[side] + 1", _ANSWER, _SLIDING),
    _fault("bwd_window", "plain_after_the_window", "steps that the window cuts at its end are made without a mask", "cut + 1", "1", _ANSWER + _ANY, ["accuracy/window_whole_blocks_between"]),
    _fault("bwd_window", "special_dout_after_the_window", "NaN of dO to the keys that their query sees", "sees(mask, query, key + 8 * side)", "key + 8 * side <= query + mask.right", _ANSWER, ["special/window_bottom_right_nan_in_dO"]),
    _fault("bwd_window", "special_keys_before_the_window", "NaN of K to the queries that see it", "sees(own_mask, query + 8 * side, work.key0 + (int32_t)i)", "(work.key0 + (int32_t)i <= query + 8 * side + own_mask.right)", _ANSWER, ["special/window_bottom_right_nan_in_K"]),
    _fault("split_window", "dq_begins_for_the_last_query", "the first block of keys", "min(band.seqlen_k, first_key(band, first_query)) / TILE_N", "min(band.seqlen_k, first_key(band, last_query)) / TILE_N", _ANSWER, _SLIDING),
    _fault("split_window", "dq_takes_a_block_for_whole", "a block at the left side that some query does not see whole", "hides_some(mask(), block, work.whole_from, work.hidden_from)", "hides_some(mask(), block, work.first, work.hidden_from)", _ANSWER, ["accuracy/window_whole_blocks_between"]),
    _fault("split_window", "dq_hides_the_first_key", "the first key of a window", "(Band::LEFT && nt * 8 < begin)", "(Band::LEFT && nt * 8 <= begin)", _ANSWER, _SLIDING),
    _fault("split_window", "dq_special_keys_before_the_window", "NaN of K to the queries that see it", "sees(mask(), query + 8 * half, block * DQ_N + (int32_t)row)", "(block * DQ_N + (int32_t)row <= query + 8 * half + mask().right)", _ANSWER, ["special/window_bottom_right_nan_in_K"]),
]

# ---- forward: no mask ------------------------------------------------------------------------------------------------

_FULL = [
    _fault("full", "values_of_no_keys", "the map of no keys has a row, and that is of Q", "(block + beyond) * TILE_N", "block * TILE_N", _ANSWER, ["special/queries_of_no_keys"]),
    _fault("full_short", "short_values_of_no_keys", "the map of no keys has a row, and that is of Q", "of + beyond", "of", _ANSWER, ["special/queries_of_no_keys"]),
]

# ---- forward: lengths ------------------------------------------------------------------------------------------------

_BATCH = ["lengths/bottom_right", "lengths/many_heads"]

_CLEAR = "clear_rows<key_tile>(values, Tiles::mask(p.base, shared, t).seqlen_k - block * TILE_N, thread(), 64)"

_LENGTHS = [
    _harmless("lengths", "values_beyond_a_length_left_to_the_scan", "under a mask the scan for NaN and infinity clears them, too; without one clear_rows alone does", _CLEAR, "false", _BATCH),
    _fault("lengths", "cleared_values_without_fence", "zeros beyond a length are not made known to the async proxy", _CLEAR, "(%s, false)" % _CLEAR, ["race"], _BATCH),
    _fault("lengths", "lengths_given_back_early", "the next lengths are announced over those that are read", "if (!keeps)\n                queue::template give_back", "if (true)\n                queue::template give_back", _ANY + _ANSWER, _BATCH),
    _fault("lengths", "rows_beyond_a_length_written", "O and LSE end at the bound", "done_seqlen_q = mask().seqlen_q", "done_seqlen_q = shape.seqlen_q", _ANSWER, _BATCH),
    _fault("lengths", "lengths_of_the_first", "whose lengths a tile has", "own = find_sequence(p.base, work.batch);", "own = find_sequence(p.base, 0);", _ANSWER, _BATCH),
    _fault("lengths", "a_row_of_tiles_passed_over", "the last tile of a sequence's heads", "Band::RIGHT && own > 0 ? tiles - own : tiles", "Band::RIGHT && own > 0 ? tiles - own + 1 : tiles", _ANSWER, _BATCH),
    _fault("lengths", "a_key_seen_by_the_lengths_of_the_first", "whether a query sees a key", "find_sequence(p, of.batch)", "find_sequence(p, 0)", _ANSWER, _BATCH),
    _fault("lengths", "faults_of_some_sequences", "whose lengths are looked at", "blocks * (thread_index_anew() % 64) + block_index()", "blocks * (thread_index_anew() % 64)", _ANSWER, _BATCH),
]

# ---- forward: ragged sequences ---------------------------------------------------------------------------------------

_RAGGED_CASES = ["ragged/bottom_right", "ragged/top_left", "ragged/many"]

_RAGGED = [
    _harmless("ragged", "tile_after_a_warp_sync_more", "one more barrier of the warp", "pick_tile<TILE_M, FIRST_Q>(p, table, number - group[3] * heads);", "warp_sync(); pick_tile<TILE_M, FIRST_Q>(p, table, number - group[3] * heads);", _RAGGED_CASES),
    _fault("ragged", "ragged_keys_of_the_tensor", "keys are counted from the tensor's first row on", "&p.map[MAP_K], work.first_k + block * TILE_N", "&p.map[MAP_K], block * TILE_N", _ANSWER, _RAGGED_CASES),
    _fault("ragged", "ragged_values_of_the_tensor", "values are counted from the tensor's first row on", "work.first_k + (block + beyond) * TILE_N", "(block + beyond) * TILE_N", _ANSWER, _RAGGED_CASES),
    _fault("ragged", "ragged_band_not_moved", "the side of the mask of queries that are counted in the tensor", "band_from(mask_of<Band>(own), -first_q, 0)", "Band{own.left - first_q, own.right, first_q + own.seqlen_q, own.seqlen_k}", _ANSWER + _ANY, _RAGGED_CASES),
    _fault("ragged", "ragged_rows_of_the_next_written", "where the queries of a sequence end", "band_from(mask_of<Band>(own), -first_q, 0)", "Band{own.left - first_q, own.right - first_q, first_q + own.seqlen_q + 1, own.seqlen_k}", _ANSWER + ["race"], _RAGGED_CASES),
    _fault("ragged", "ragged_special_of_the_tensor", "where NaN and infinity of V are looked up again", "(int32_t)ld_shared_u32(kept + 20)", "0", _ANSWER, _RAGGED_CASES),
    _fault("ragged", "ragged_tile_of_the_next_kept", "a warp keeps its tile after it has given it back", "if (lane_index() == 0)\n            copy_words<32>(kept, slots::tile(shared, ring));", ";", _ANSWER + ["uninitialised"], _RAGGED_CASES),
    _fault("ragged", "ragged_level_not_begun", "the sequences that have tiles of a level", "active && low < level && level <= high", "active && level <= high", _ANSWER + _ANY + ["bounds"], _RAGGED_CASES),
    _fault("ragged", "ragged_tiles_of_another_section", "how many tiles of the section end above", "from_high += other_section == section ?", "from_high += other_section <= section ?", _ANSWER + _ANY, _RAGGED_CASES),
    _fault("ragged", "ragged_heads_of_the_first_part", "heads of a section come in parts", "part * each + of_part % size", "of_part % size", _ANSWER + _ANY, _RAGGED_CASES),
    _fault("ragged", "ragged_group_passed_over", "32 sequences after a group", "(int32_t)group[0] + 32, (int32_t)group[1]", "(int32_t)group[0] + 64, (int32_t)group[1]", _ANSWER + _ANY + ["bounds"], ["ragged/many"]),
    _fault("ragged", "ragged_tile_read_before_it_is_found", "no barrier between the lane that finds a tile and the others", "    pick_tile<TILE_M, FIRST_Q>(p, table, number - group[3] * heads);\n    warp_sync();", "    pick_tile<TILE_M, FIRST_Q>(p, table, number - group[3] * heads);", ["race", "uninitialised"], _RAGGED_CASES),
    _fault("ragged", "ragged_number_not_for_all", "no barrier between the lane that takes a number and the others", "st_shared_u32(table + RAGGED_GROUP + 20, blocks + atom_global_add_u32(counter, 1));\n    warp_sync();", "st_shared_u32(table + RAGGED_GROUP + 20, blocks + atom_global_add_u32(counter, 1));", ["race", "uninitialised"], _RAGGED_CASES),
    _fault("ragged", "ragged_announced_over_what_is_read", "a tile is announced before all have read the one three before", "slots::wait_empty(shared, ring);\n        copy_words<32>(", "copy_words<32>(", ["race", "deadlock"], _RAGGED_CASES),
    _fault("ragged", "ragged_fault_of_a_block", "the sequence with a first row that is none is not noted", "p.base.sequences.fault && block_index() == 0", "p.base.sequences.fault && block_index() == 1000000", _ANSWER, ["ragged/bottom_right"]),
]

# ---- forward: intervals ----------------------------------------------------------------------------------------------

_APART = ["accuracy/intervals_any_0", "accuracy/intervals_prefix_0", "accuracy/intervals_blocks_0", "accuracy/intervals_chunks_0", "accuracy/intervals_apart"]
_INTERVAL_ROWS = ["intervals/given", "intervals/ragged"]
_INTERVAL_SPECIAL = ["special/intervals_nan_in_V", "special/intervals_inf_in_V"]

_INTERVALS = [
    _harmless("intervals", "each_cut_block_of_a_tile_hidden", "a warpgroup whose queries see all of a block hides nothing of it", "block < (int32_t)bits_of(whole[0]) || block >= (int32_t)bits_of(whole[1])", "true", _APART),
    _fault("intervals", "ranges_before_the_tile", "no barrier between the lane that has a tile and those that make its ranges", "warp_sync();\n            if (queue::get(shared, t, work)) {\n                const mask_t mask = mask_of_slot(p, work, slot);\n\n                slot_t::put(slot, mask.begin, mask.end);\n            }", "if (queue::get(shared, t, work)) {\n                const mask_t mask = mask_of_slot(p, work, slot);\n\n                slot_t::put(slot, mask.begin, mask.end);\n            }", ["race", "uninitialised"], _APART),
    _fault("intervals", "tile_told_before_its_ranges", "no barrier between the lanes that make ranges and the one that announces", "warp_sync();\n            const bool any = queue::get(shared, t, work);", "const bool any = queue::get(shared, t, work);", ["race", "uninitialised"], _APART),
    _fault("intervals", "interval_tile_never_told", "all wait for the tile", "if (lane_index() == 0)\n                queue::tell(shared, t);", ";", _STUCK, _APART),
    _fault("intervals", "next_tile_never_wanted", "the warp that makes ranges waits for the one that loads", "mbarrier_arrive(wanted<Tiles>(shared));", ";", _STUCK, _APART),
    _fault("intervals", "values_of_the_next_block", "which values a thread loads behind the keys of a block", "load_values<Tiles>(p, shared, work, block + 1, v, cut);", "load_values<Tiles>(p, shared, work, block, v, cut);", _ANSWER + _ANY, _APART),
    _fault("intervals", "last_values_of_a_tile_not_loaded", "the values of a tile's last block", "load_values<Tiles>(p, shared, work, work.first, v, cut);", ";", _STUCK, _APART),
    _fault("intervals", "interval_tiles_taken_by_all_lanes", "one lane takes a tile", "if (mask_t::INTERVALS && lane_index() > 0)\n                return 0;", ";", _ANSWER + _ANY, ["accuracy/gqa_8_2"] + _APART),
    _fault("intervals", "intervals_of_the_first_sequence", "whose intervals a tile has", "get_sequence(slot), (int64_t)work.batch * p.shape.seqlen_q", "get_sequence(slot), 0", _ANSWER, _INTERVAL_ROWS + _APART),
    _fault("intervals", "blocks_of_the_first_warpgroup", "which blocks a warpgroup walks over", "ld_shared_f32x2(own, mask.own + (uint32_t)query0 / 4)", "ld_shared_f32x2(own, mask.own + (uint32_t)query0 / 64 * 16 % 16 + (uint32_t)query0 / 128 * 32)", _ANSWER + _ANY, _APART),
    _fault("intervals", "cut_by_the_right_ends_alone", "a block at whose left side some query does not see all", "block < (int32_t)bits_of(whole[0]) || block", "block", _ANSWER, _APART),
    _fault("intervals", "interval_shows_a_key_more", "the end of an interval", "nt * 8 >= end || nt * 8 < begin ? hidden", "nt * 8 > end || nt * 8 < begin ? hidden", _ANSWER, _APART),
    _fault("intervals", "whole_from_the_first", "from where on each query sees all keys", "bounds.late = max(bounds.late, others.late)", "bounds.late = min(bounds.late, others.late)", _ANSWER + _ANY, _APART),
    _fault("intervals", "hidden_from_the_last", "to where each query sees all keys", "bounds.early = min(bounds.early, others.early)", "bounds.early = max(bounds.early, others.early)", _ANSWER, _APART),
    _fault("intervals", "a_warpgroup_that_sees_nothing_walks", "the one block of a warpgroup whose queries see no key", "if (blocks.last < 0)\n            blocks.first = blocks.last = tile.first;", ";", _ANSWER + _ANY, _APART),
    _fault("intervals", "a_tile_that_sees_nothing_has_no_block", "the one block of a tile whose queries see no key", "tile.first = min(tile.last, tile.first);", ";", _ANSWER + _ANY, _APART),
    _fault("intervals", "ranges_past_the_last_query", "the bounds of rows that are no queries", "(int32_t)row < rows", "true", ["bounds", "uninitialised"] + _ANSWER, _INTERVAL_ROWS + _APART),
    _fault("intervals", "special_values_by_another_interval", "NaN and infinity of V to the queries that see them", "return sees(mask, query + 8 * half, key);", "return sees(mask, query, key);", _ANSWER, _INTERVAL_SPECIAL),
    _fault("short_intervals", "short_ranges_without_a_barrier", "ranges are read before all threads have made theirs", "put_range(ranges + (uint32_t)row * RANGE_BYTES, keys_of_query(mask, query0 + row));\n        block_sync();", "put_range(ranges + (uint32_t)row * RANGE_BYTES, keys_of_query(mask, query0 + row));", ["race", "uninitialised"], _APART),
    _fault("short_intervals", "short_intervals_of_the_first_sequence", "whose intervals a tile has", "mask.begin += (int64_t)work.batch * p.shape.seqlen_q;", ";", _ANSWER, _INTERVAL_ROWS + _APART),
    _fault("short_intervals", "short_intervals_not_hidden", "scores that an interval hides", "is_cut(work, block)) {", "block >= work.hidden_from) {", _ANSWER, _APART),
]

# ---- backward: intervals ---------------------------------------------------------------------------------------------

_FAR = ["accuracy/intervals_far", "accuracy/intervals_apart"]

_BACKWARD_INTERVALS = [
    _fault("bwd_intervals", "gaps_walked_over", "blocks of queries that see none of the keys", "if (work.gaps > 0)\n        while (walk.m >= work.first &&", "if (false)\n        while (walk.m >= work.first &&", _ANSWER + _ANY, _FAR),
    _fault("bwd_intervals", "step_before_in_a_gap", "of which step dQ is", "while (!is_step<TILE_M, TILE_N>(p, work, before.m))\n            ++before.m;", ";", _ANSWER + _ANY, _FAR),
    _fault("bwd_intervals", "gaps_after_plain_steps", "where the steps after the plain ones are", "if (work.gaps == 0)\n        return walk_at(work, step);", "return walk_at(work, step);", _ANSWER + _ANY, _FAR),
    _fault("bwd_intervals", "last_keys_in_plain_steps", "the last block of keys adds to dQ and does not round it", "is_clear(bounds) && bounds.all.end > work.key0 + TILE_N", "is_clear(bounds)", _ANSWER + _ANY, _FAR + _APART),
    _fault("bwd_intervals", "some_keys_taken_for_all", "blocks of queries that see all of the keys", "return covers(bounds, work.key0, TILE_N);", "return reaches(bounds.all, work.key0, TILE_N);", _ANSWER, _APART),
    _fault("bwd_intervals", "clear_up_to_the_last", "where blocks end that see all of the keys", "clear.end = min(clear.end, m);", ";", _ANSWER, ["accuracy/intervals_between"]),
    _fault("bwd_intervals", "plain_up_to_the_last", "where plain steps end", "plain.end = min(plain.end, m);", ";", _ANSWER + _ANY, _FAR + _APART),
    _fault("bwd_intervals", "plain_steps_of_another_place", "how many steps come before the plain ones", "above += is_step<TILE_M, TILE_N>(p, work, m);", ";", _ANSWER + _ANY, _FAR),
    _fault("bwd_intervals", "first_plain_step_one_early", "the step before a plain one is plain", "above * work.group + 1", "above * work.group", _ANSWER + _ANY, _FAR),
    _fault("bwd_intervals", "steps_of_one_lane", "lanes count steps together", "seen += of_lane(seen, lanes);", ";", _ANSWER + _ANY, _APART),
    _fault("bwd_intervals", "steps_of_all_lanes", "one lane takes a number", "if (tells)\n                number = READS ? atom_global_add_u32(p.base.turn, 1) : given::take(p.base, numbers);", "number = READS ? atom_global_add_u32(p.base.turn, 1) : given::take(p.base, numbers);", _ANSWER + _ANY, _APART),
    _fault("bwd_intervals", "interval_begins_a_key_late", "the begin of an interval", "own >= (int32_t)keys[e % 2 * 2]", "own > (int32_t)keys[e % 2 * 2]", _ANSWER, _APART),
    _fault("bwd_intervals", "interval_ends_a_key_late", "the end of an interval", "own < (int32_t)keys[e % 2 * 2 + 1]", "own <= (int32_t)keys[e % 2 * 2 + 1]", _ANSWER, _APART),
    _fault("bwd_intervals", "intervals_of_neighbouring_queries", "which bit is of which query and key", "key + e / 2 * 8", "key + e % 2 * 8", _ANSWER, _APART),
    _fault("bwd_intervals", "bits_of_the_first_queries", "whose ranges a word of bits is of", "rows + 16 * (8 * word + j)", "rows + 16 * j", _ANSWER, _APART),
    _fault("bwd_intervals", "steps_over_what_is_read", "a block's steps are announced before all have read those two before", "slots::wait_empty(shared, ring);\n        interval_slot_of_keys", "interval_slot_of_keys", _RACE, _APART),
    _fault("bwd_intervals", "ranges_of_the_first_sequence", "whose intervals a step has", "int64_t row = (int64_t)ld_shared_u32(at + slot_t::BATCH_AT) * p.padded_q;", "int64_t row = 0;", _ANSWER, ["intervals/given", "intervals/padded"]),
    _fault("bwd_intervals", "turn_of_the_first_queries", "which keys the queries of a step see", "bounds_at<TILE_M>(p, (int64_t)work.batch * p.padded_q + work.padded + walk.m * TILE_M).all", "bounds_at<TILE_M>(p, (int64_t)work.batch * p.padded_q + work.padded).all", _ANSWER + _ANY, _APART),
    _fault("bwd_intervals", "block_given_back_when_read", "what waits of a block is read until its end", "if (!Blocks::KEPT)\n                arrive(Blocks::queue::slots::empty(shared, ring_at(turn)));", "arrive(Blocks::queue::slots::empty(shared, ring_at(turn)));", ["race", "misuse", "deadlock", "pending"], _APART),
    _fault("bwd_intervals", "block_never_given_back", "the loader waits for a place", "if (Blocks::KEPT && first_lane)\n                Blocks::queue::release(shared, ring_at(turn));", ";", _STUCK, _APART),
    _fault("bwd_intervals", "special_keys_of_hidden_queries", "NaN of K to the queries that see it", "sees(own_mask, query + 8 * side, work.key0 + (int32_t)i)", "sees(own_mask, query, work.key0 + (int32_t)i)", _ANSWER, ["special/intervals_nan_in_K"]),
    _fault("bwd_intervals", "ranges_of_the_first_ragged_rows", "where the ranges of a ragged sequence are", "row += (int32_t)ld_shared_u32(at + slot_t::PADDED_AT);", ";", _ANSWER, ["intervals/ragged"]),
    _fault("bwd_intervals", "bounds_of_the_first_ragged_rows", "where the bounds of a ragged sequence are", "return bounds_at<TILE_M>(p, (int64_t)work.batch * p.padded_q + work.padded + m * TILE_M);", "return bounds_at<TILE_M>(p, (int64_t)work.batch * p.padded_q + m * TILE_M);", _ANSWER + _ANY, ["intervals/ragged"]),
    _fault("bwd_intervals", "next_block_never_wanted", "the warp that finds steps waits for the one that loads", "q_ring::wait_empty(shared, last);\n                mbarrier_arrive(shared + WANTED);", ";", _STUCK, _APART),
    _fault("bwd_intervals", "next_block_waits_for_a_q_to_come", "which Q is the last one of few steps", "ring_advance<STAGES>(last); /* of two", "ring_advance<STAGES>(last); ring_advance<STAGES>(last); /* of two", _STUCK, _APART),
    _fault("bwd_intervals", "block_of_no_steps_wants_two", "a block of keys that nobody sees wants the next one once", "if (LATE && work.steps > 0 && work.steps < 4 * AHEAD)", "if (LATE && work.steps < 4 * AHEAD)", _STUCK, ["accuracy/top_left_long_keys", "accuracy/q1_k259_top_left"]),
    _fault("bwd_intervals", "gaps_taken_for_steps", "blocks of queries after the plain steps are counted where some see nothing", "if (LATE && seen == all.end - all.first)", "if (LATE)", _ANSWER + _ANY, _FAR),
    _harmless("bwd_intervals", "next_block_wanted_with_the_last_step", "when the next block of keys is found is a question of time", "q_ring::wait_empty(shared, last);\n", "", _APART),
    _fault("bwd_intervals", "block_of_no_steps_wants_nothing", "a block of keys that nobody sees wants the next one, too", "if (work.steps == 0) {\n                mbarrier_arrive(shared + WANTED);", "if (work.steps == 0) {", _STUCK, ["accuracy/top_left_long_keys", "accuracy/q1_k259_top_left"]),
    _fault("bwd_intervals", "keys_looked_at_and_not_told", "nobody says that K has been looked at", "mbarrier_arrive(shared + CHECKED);\n        mbarrier_wait(shared + CHECKED, turn % 2);", "mbarrier_wait(shared + CHECKED, turn % 2);", _STUCK, _APART),
    _fault("bwd_intervals", "keys_not_looked_at", "NaN of K must not meet a dS of zero", "work.steps > 0 && (work.first < work.clear_from || is_cut<mask_t>(work, work.last))", "false", _ANSWER, ["special/intervals_nan_in_K"]),
    _fault("bwd_intervals", "loader_keeps_its_block", "whoever loads gives a block back", "Blocks::queue::release(shared, ring_at(turn));\n        }\n    }\n\n    /* Takes to memory", "}\n    }\n\n    /* Takes to memory", _STUCK, _APART),
    _harmless("bwd_intervals", "every_step_cut", "a step whose queries see all of the keys is looked at as if they did not", "work.clear_from = clear.first;", "work.clear_from = all.end;", _APART),
]

# ---- backward: lengths and ragged sequences --------------------------------------------------------------------------

_OWN = ["lengths/full", "ragged/full"]
_OTHERS = ["ragged/many", "lengths/top_left"]

_OWN_ENDS = "fence_async_shared();\n                    named_sync(BOTH_BARRIER, 32 * WARPS);\n                }\n                wgmma_hold(s"

# ---- backward, split: lengths and ragged sequences -------------------------------------------------------------------

_SPLIT_LENGTHS = ["lengths/bottom_right", "ragged/bottom_right"]

_SPLIT_SEQUENCES = [
    _fault("split", "split_queries_beyond_the_end", "Q of another sequence must not meet a dS of zero", "clear_own_rows<query_tile, 1>(q_ring::tile(shared, next), left, 32 * WARPS);", ";", _ANSWER, _SPLIT_LENGTHS),
    _fault("split", "split_gradients_beyond_the_end", "dO of another sequence must not meet a P of zero", "clear_own_rows<query_tile, 1>(do_ring::tile(shared, next), left, 32 * WARPS);", ";", _ANSWER, _SPLIT_LENGTHS),
    _fault("split", "split_cleared_before_it_has_come", "rows are cleared when dO has arrived", "do_ring::wait_full(shared, next);\n", "", ["race", "pending", "answer", "uninitialised"], _SPLIT_LENGTHS),
    _fault("split", "split_cleared_by_one_warpgroup", "rows that both warpgroups clear both multiply", "fence_async_shared();\n                    named_sync(BOTH_BARRIER, 32 * WARPS);\n                }\n        };", "fence_async_shared();\n                }\n        };", ["race", "answer"], _SPLIT_LENGTHS),
    _fault("split", "split_keys_of_the_tensor", "where the keys of a ragged sequence are", "work.first_k = at.first_k;", ";", _ANSWER + _ANY, ["ragged/bottom_right"]),
    _fault("split", "split_lse_of_the_first_sequence", "where LSE and delta of a ragged sequence are", "work.padded = Rows::padded_first_of(kept);", ";", _ANSWER + _ANY, ["ragged/bottom_right"]),
    _fault("split", "split_rows_of_the_next_sequence", "a tile that its sequence does not fill leaves by rows", "whole = rows >= TILE_N;", "whole = true;", _ANSWER + _ANY, _SPLIT_LENGTHS),
    _fault("split", "dq_rows_of_the_next_sequence", "dQ of queries that are another sequence's", "whole = rows >= OWN_ROWS;", "whole = true;", _ANSWER + _ANY, _SPLIT_LENGTHS),
    _fault("split", "dq_lse_of_the_first_sequence", "where LSE of a ragged sequence is", "p.base.lse_log2 + work.head * p.base.padded_q + first.padded + query", "p.base.lse_log2 + work.head * p.base.padded_q + query", _ANSWER + _ANY, ["ragged/bottom_right"]),
]

# ---- parts: the query heads of a key head shared by several blocks ---------------------------------------------------

_GROUPS = ["accuracy/gqa_8_2", "accuracy/mqa_8_1"]
_GATHER = "wait_turn_seen();\n                const float *sum"
_SHARE = "give_back();\n                    turn_pass(place.turn, part + 1);"
_LAST_TURN = "turn_wait(sum_of(which * ((int)SHARES / 2) + share).turn, part);"

_PARTS = [
    _fault("bwd", "parts_do_not_add", "every part stores dK and dV over those of the parts before it", "add(place.sum, place.turn, part == 0, part);", "add(place.sum, place.turn, true, part);", _ANSWER + _ANY, _GROUPS),
    _fault("bwd", "first_part_adds", "the first part adds to what the workspace holds", "add(place.sum, place.turn, part == 0, part);", "add(place.sum, place.turn, false, part);", ["uninitialised"] + _ANSWER, _GROUPS),
    _fault("bwd", "part_out_of_turn", "a part adds before its turn", "add(place.sum, place.turn, part == 0, part);", "add(place.sum, place.turn, part == 0, 0);", ["race", "uninitialised", "pending"], _GROUPS),
    _fault("bwd", "key_turn_passed_before_the_sum", "the turn of a share is passed while its sum is under way", "turn_pass(place.turn, part + 1);", "st_release_u32(place.turn, part + 1);", _RACE, _GROUPS),
    _fault("bwd", "key_turn_never_passed", "the parts after it wait", "turn_pass(place.turn, part + 1);", ";", _STUCK, _GROUPS),
    _fault("bwd", "key_turn_of_the_same_part", "whose turn comes next", "turn_pass(place.turn, part + 1);", "turn_pass(place.turn, part);", _STUCK, _GROUPS),
    _fault("bwd", "share_given_back_while_read", "a share of dK or dV is written over while it leaves", _SHARE, "bulk_commit(); mbarrier_arrive(out_ring::empty(shared, own)); turn_pass(place.turn, part + 1);", _RACE, _GROUPS),
    _fault("bwd", "share_without_fence", "a share of dK or dV is not made known to the copy engine", "+ 1]);\n                    send_out();", "+ 1]);\n                    arrive(out_ring::full(shared, out)); ring_advance<STAGES>(out);", ["race"], _GROUPS),
    _fault("bwd", "last_part_out_of_turn", "the last part rounds before the others have added", _LAST_TURN, ";", ["race", "uninitialised", "pending"], _GROUPS),
    _fault("bwd", "turn_of_dv_for_dk", "the last part takes dV's turn for dK's", _LAST_TURN, _LAST_TURN.replace("which * ((int)SHARES / 2) + share", "share"), ["race", "uninitialised", "pending"], _GROUPS),
    _fault("bwd", "last_part_one_part_early", "the last part does not wait for the one before it", _LAST_TURN, _LAST_TURN.replace(", part)", ", part - 1)"), ["race", "uninitialised", "pending"], _GROUPS),
    _fault("bwd", "sum_gathered_before_its_turn", "the warps of the last part do not wait for the sum", _GATHER, "seen ^= 1u << out.stage; const float *sum", ["race", "uninitialised", "pending"], _GROUPS),
    _fault("bwd", "parity_of_the_gathered_sum", "whether the sum of the parts is complete", _GATHER, "mbarrier_wait(shared + TURN_SEEN + 8 * out.stage, seen >> out.stage & 1); const float *sum", _ANY + _ANSWER, _GROUPS + ["law/repeat"]),
    _fault("bwd", "sum_of_dv_for_dk", "the last part adds the sum of dV to dK", "which * ((int)SHARES / 2)).sum", "0).sum", _ANSWER, _GROUPS),
    _fault("bwd", "sum_of_the_first_key_head", "where a key head's dK and dV are summed", "work.batch * p.shape.heads_kv + work.head_kv", "work.batch * p.shape.heads_kv", _ANSWER + _ANY, ["accuracy/gqa_8_2"]),
    _fault("bwd", "heads_of_the_first_part", "where the query heads of a part begin", "work.head0 += first;", ";", _ANSWER + _ANY, _GROUPS),
    _fault("bwd", "heads_beyond_the_short_part", "how many query heads the short part has", "work.group = end - first;", "work.group = p.part_heads;", _ANSWER + _ANY, _GROUPS),
    _fault("bwd", "blocks_of_one_part", "numbers for the blocks of part 0 alone", "staggered_order(&p.shape, TILE_N, p.parts)", "staggered_order(&p.shape, TILE_N, 1)", _ANSWER + _ANY, _GROUPS),
    _fault("bwd", "key_turns_not_cleared", "the turns of the parts begin with what the workspace holds", "p.parts > 1", "false", ["uninitialised"], _GROUPS),
    _harmless("bwd", "key_turn_taken_twice", "one more look at the turn of a share", "turn_wait(turn, before);", "turn_wait(turn, before); turn_wait(turn, before);", _GROUPS),
]

# ---- the block that rounds dQ of all queries, without a mask ---------------------------------------------------------

_WHOLE = ["accuracy/whole_key_blocks", "accuracy/gqa_8_2", "accuracy/q1*"]

_ROUNDING = [
    _fault("sequences", "sum_brought_out_of_turn", "the sum is brought before all blocks have added", "turn_wait(dq.turn, (uint32_t)work.key0);", ";", ["race", "uninitialised", "pending"], _WHOLE),
    _fault("sequences", "half_a_sum_expected", "the sum counts as there when half of it is", "mbarrier_arrive_expect(barrier, bytes);\n    bulk_load(to", "mbarrier_arrive_expect(barrier, bytes / 2);\n    bulk_load(to", ["pending", "misuse", "race", "deadlock"], _WHOLE),
    _fault("sequences", "sum_read_before_it_is_there", "the sum is added before it has arrived", "mbarrier_wait(shared + TURN_SEEN + 8 * out.stage, seen_in >> (SEEN_AT + out.stage) & 1);\n", "", ["race", "uninitialised", "pending"], _WHOLE),
    _fault("sequences", "rounded_over_what_is_read", "dQ is stored over sums that other warps have not read", "named_sync(OWN_BARRIER + warpgroup, 128);", ";", ["race"], _WHOLE),
    _fault("sequences", "barrier_of_the_other_warpgroup", "which barrier the warps of a warpgroup meet at", "named_sync(OWN_BARRIER + warpgroup, 128);", "named_sync(OWN_BARRIER, 128);", ["race", "misuse", "deadlock"], _WHOLE),
    _fault("sequences", "rounded_dq_of_the_sum", "where the rounded dQ leaves from", "out + (Blocks::ROUNDS ? ROUNDED_AT : 0)", "out", _ANSWER + _ANY, _WHOLE),
    _fault("sequences", "only_block_waits_for_a_sum", "a block that is the first and the last one", "place.first = work.key0 == 0, place.last", "place.first = false, place.last", _STUCK, ["accuracy/q1*"]),
    _fault("sequences", "rounds_in_no_block", "which block rounds", "if (work.key0 + TILE_N >= mask().seqlen_k) {", "if (false) {", _ANSWER + _ANY, _WHOLE),
    _fault("sequences", "rounds_in_every_block", "which block rounds", "if (work.key0 + TILE_N >= mask().seqlen_k) {", "if (true) {", _ANSWER + _ANY, _WHOLE),
    _fault("sequences", "kept_values_of_the_other_warpgroup", "whose V is in registers", "keep_rows<own_tile>(kept_v, shared + V_AT + own, lane, warp_index() % 4);", "keep_rows<own_tile>(kept_v, shared + V_AT + (own ^ own_tile::bytes), lane, warp_index() % 4);", _ANSWER, _WHOLE),
    _fault("sequences", "kept_values_of_the_first_warp", "which rows of V a warp has in registers", "warp * (16 * tile::width)", "warp * 0", _ANSWER, _WHOLE),
]

_SEQUENCES = [
    _harmless("sequences", "values_beyond_an_end_cleared", "dP of keys beyond an end is hidden, whatever V holds there", "clear_own_rows<own_tile, 2>(shared, mask().seqlen_k - work.key0, 32 * WARPS)", "(clear_own_rows<own_tile, 2>(shared + V_AT, mask().seqlen_k - work.key0, 32 * WARPS), clear_own_rows<own_tile, 2>(shared, mask().seqlen_k - work.key0, 32 * WARPS))", _OWN),
    _fault("sequences", "keys_beyond_an_end_multiplied", "a dS of zero meets what is in rows of K beyond an end", "clear_own_rows<own_tile, 2>(shared, mask().seqlen_k - work.key0, 32 * WARPS)", "false", _ANSWER, _OWN),
    _fault("sequences", "queries_beyond_an_end_multiplied", "a dS of zero meets what is in rows of Q beyond an end", "clear_own_rows<query_tile, 1>(q, left, 32 * WARPS);", ";", _ANSWER, _OWN),
    _fault("sequences", "dout_beyond_an_end_multiplied", "a P of zero meets what is in rows of dO beyond an end", "clear_own_rows<query_tile, 1>(dout, left, 32 * WARPS);", ";", _ANSWER, _OWN),
    _fault("sequences", "queries_multiplied_before_they_are_cleared", "rows beyond the last query are cleared while the other warpgroup multiplies them", _OWN_ENDS, _OWN_ENDS.replace("named_sync(BOTH_BARRIER, 32 * WARPS);", ";"), _RACE, _OWN),
    _fault("sequences", "dout_cleared_before_it_is_there", "rows of dO beyond the last query are cleared before they have arrived", "do_ring::wait_full(shared, queries);\n                    clear_own_rows", "clear_own_rows", _RACE, _OWN),
    _fault("sequences", "queries_beyond_an_end_seen", "a tile of queries that its sequence does not fill is taken for a whole one", "is_partial<TILE_M>(mask(), walk.m)", "false", _ANSWER, _OWN),
    _fault("sequences", "plain_at_an_end", "steps of the other heads of a group at the last queries are plain", "is_partial<TILE_M>(mask, work.last) ? work.group : 0", "0", _ANSWER, _OWN),
    _fault("sequences", "given_rows_beyond_an_end_plain", "with a call's own lengths, too, zeros of Q and dO meet infinities of K and V", "is_partial<TILE_M>(mask, work.last) ? work.group : 0", "0", _ANSWER, _PARTIAL),
    _fault("sequences", "tile_beyond_an_end_written", "a tile that its sequence does not fill leaves whole", "Blocks::READS && rows < tile_rows", "Blocks::READS && rows < 0", _ANSWER + _ANY, _OWN),
    _fault("sequences", "rows_leave_before_they_are_there", "one lane has waited for a stage, and all read it", "warp_sync();\n                store_rows<decltype(tile)>(view", "store_rows<decltype(tile)>(view", ["race", "uninitialised"], _OWN),
    _fault("sequences", "rows_given_back_while_read", "a stage is given back before all lanes have read it", "head, row, rows, from);\n                warp_sync();", "head, row, rows, from);", ["race"], _OWN),
    _fault("sequences", "sequence_keys_of_the_tensor", "K and V are counted from the tensor's first row on", "map,\n                                work.first_k + work.key0 + half * OWN_ROWS,", "map, work.key0 + half * OWN_ROWS,", _ANSWER, _OWN),
    _fault("sequences", "sequence_queries_of_the_tensor", "Q and dO are counted from the tensor's first row on", "map, work.first_q + walk.m * tile::rows,", "map, walk.m * tile::rows,", _ANSWER, _OWN),
    _fault("sequences", "sums_of_another_sequence", "where a sequence's dQ is summed", "work.padded / TILE_M + walk.m", "walk.m", _ANSWER + _ANY, _OWN + _OTHERS),
    _fault("sequences", "turns_of_the_next_tile", "where the turns of a sequence begin", "place_of(p, block, block.at.row0) / TILE_M + thread_index()", "place_of(p, block, block.at.row0) / TILE_M + thread_index() + 1", _ANY, _OWN),
    _fault("sequences", "numbers_not_begun", "the counter of key blocks", "st_global_u32(p.turn, 0);", ";", ["uninitialised"], _OWN),
    _fault("sequences", "unit_read_before_it_is_there", "the loader reads what it works on before it has arrived", "at = queue::wait(shared, ring_at(turn));\n            return !is_end", "at = queue::slots::tile(shared, ring_at(turn));\n            return !is_end", ["race", "uninitialised", "pending"], _OWN),
    _fault("sequences", "half_a_unit_expected", "a unit counts as there when half of it is", "slots::begin_fill(shared, ring);\n        bulk_load", "slots::begin_fill(shared, ring, UNIT_BYTES / 2);\n        bulk_load", ["pending", "misuse", "race", "deadlock"], _OWN),
    _fault("sequences", "unit_announced_over_what_is_read", "a unit is brought before all are done with the one two before", "slots::begin_fill(shared, ring);\n        bulk_load", "mbarrier_arrive_expect(slots::full(shared, ring), UNIT_BYTES);\n        bulk_load", ["race", "pending", "deadlock"], ["ragged/many", "lengths/full"]),
    _fault("sequences_shared", "unit_of_the_part_before", "which query heads a part has", "group - (parts - 1 - part) * heads", "group - (parts - part) * heads", _ANSWER + _ANY + ["bounds"], _OWN),
    _fault("sequences_shared", "unit_turns_not_cleared", "the turns of a sequence's parts begin with what the workspace holds", "if (part == 0 && parts > 1)", "if (false)", ["uninitialised"], _OWN),
    _fault("sequences_shared", "unit_sums_of_the_first_head", "where a sequence's dK and dV are summed", "rows[3] + (uint32_t)place.at.head * blocks", "rows[3]", _ANSWER + _ANY, _OWN),
    _fault("sequences_shared", "unit_sums_of_the_first_sequence", "where a sequence's dK and dV are summed", "r.first_k ? (uint32_t)padded_first(k.at, sequence) / TILE_N : (uint32_t)sequence * heads * blocks", "0u", _ANSWER + _ANY, ["ragged/many", "lengths/full"]),
    _fault("sequences", "unit_blocks_of_longer_rows", "how many units come before a block where sequences differ", "sum += min(own, index);", "sum += index;", _ANSWER + _ANY + ["bounds"], _OWN + _OTHERS),
    _fault("sequences", "units_without_an_end", "what a block finds after the last unit", "if (n >= before) {", "if (false) {", ["uninitialised"], _OWN),
    _fault("sequences", "unit_ranks_of_equals", "which of two sequences with as many queries comes first", "(lane_index() ^ mask) < lane_index()", "false", _ANSWER + _ANY + ["bounds"], ["lengths/full", "ragged/many"]),
    _fault("sequences", "unit_group_read_before_it_is_there", "no barrier between the lanes that know a sequence and those that place a unit", "st_shared_u32x4(to + 16 * i, words[i]);\n            warp_sync();", "st_shared_u32x4(to + 16 * i, words[i]);", ["race", "uninitialised"], _OWN),
    _fault("sequences", "unit_group_written_while_read", "no barrier between two groups of sequences", "warp_sync();\n            for (int i = 0; i < 3; ++i)", "for (int i = 0; i < 3; ++i)", ["race"], ["ragged/many"]),
    _fault("sequences", "sequence_of_the_bound", "where the keys of a sequence end", "return get_mask<mask_t>(at);", "return {get_mask<mask_t>(at).left, get_mask<mask_t>(at).right, get_mask<mask_t>(at).seqlen_q, get_mask<mask_t>(at).seqlen_k + 1};", _ANSWER + _ANY, _OWN),
    _fault("sequences", "length_of_a_padded_batch", "the keys of a padded batch have no end before the bound", "side.first ? end : at + side.bound", "end", _ANSWER + _ANY, ["lengths/full"]),
]

# ---- a server's step: the plan, the order of sums, and what passes between kernels -----------------------------------

_STEP_CASES = _SQUARE + ["accuracy/gqa_7_1", "accuracy/bottom_right_long_keys", "accuracy/decode", "accuracy/q259*"]
_UNWRITTEN = ["answer", "uninitialised", "deadlock", "bounds"]
_STEP_WINDOWS = _WINDOWS + ["accuracy/window*", "lengths/*"]

_STEP = [
    _fault("step", "step_counter_begins_late", "the plan's counter, from which blocks take their next units", "const uint32_t head[4] = {0, (uint32_t)total[0]", "const uint32_t head[4] = {1, (uint32_t)total[0]", _UNWRITTEN, ["law/workspace_contents_many_heads", "lengths/many_heads", "ragged/many"]),
    _fault("step", "step_ends_of_few_rows", "where a sequence's units of few rows end", "(uint32_t)(before[1] + own[1])", "(uint32_t)before[1]", _UNWRITTEN, ["accuracy/batch_3", "accuracy/decode", "lengths/bottom_right"]),
    _fault("step", "step_units_before", "how many units are before a sequence's own", "s.few ? before[1] : before[0]", "before[0]", _UNWRITTEN + _ANY, ["accuracy/q1*", "accuracy/decode", "lengths/bottom_right", "ragged/bottom_right"]),
    _fault("step", "step_slot_of_a_span", "each span has a slot, and slot 0 is of the first chunk", "slot = of_span - word(UNIT_SECOND) + 1;", "slot = of_span - word(UNIT_SECOND);", _UNWRITTEN + _RACE, _STEP_CASES),
    _fault("step", "step_first_chunk_alone", "the merge begins with slot 0", "if (begin + i < count && begin + i == 0) {", "if (begin + i < count && begin + i <= 1) {", _ANSWER, _STEP_CASES),
    _fault("step", "step_fold_of_an_empty_span", "rows whose scores are all -inf, in several spans", "row.sum == 0.0f ? 0.0f : ex2((before - now) * scale)", "ex2((before - now) * scale)", _ANSWER, ["special/only_minus_inf_many_keys", "special/sinks_only_minus_inf_many_keys"]),
    _fault("step", "step_fold_without_factor", "O of the spans before is relative to another maximum", "return fmaf(before, f.before, span * f.span);", "return before + span * f.span;", _ANSWER, ["accuracy/rising", "accuracy/falling"] + _STEP_CASES),
    _fault("step", "step_span_not_closed", "a new span begins where its tile does", "pending = true;", ";", _ANSWER, ["accuracy/rising", "accuracy/falling"] + _STEP_CASES),
    _fault("step", "step_keys_one_tile_off", "the tile of K that comes next", "shape::place_of_part(p, unit, part, tile + 1) : place;\n                    const uint32_t full = key_ring", "shape::place_of_part(p, unit, part, tile) : place;\n                    const uint32_t full = key_ring", _ANSWER, ["accuracy/q259*", "pages/bottom_right"]),
    _fault("step", "step_parity_of_queries", "the phase that Q is waited for", "mbarrier_wait(shared + Q_FULL + 8 * w, q_phase);", "mbarrier_wait(shared + Q_FULL + 8 * w, q_phase ^ 1);", _ANY),
    _fault("step", "step_queries_not_cleared", "rows of Q that no copy fills", "st_shared_u32x4(shared + i, zeros);", ";", ["uninitialised"], ["accuracy/q1*", "accuracy/gqa_7_1"]),
    _fault("step", "step_plan_not_awaited", "the plan is there when the second kernel reads it", "if (!plans)\n            await_predecessors();", "", _RACE + ["uninitialised"], ["lengths/many_heads", "ragged/many"]),
    _fault("step", "step_own_plan_takes_a_neighbours_units", "blocks that plan for themselves take units in turn", "number += p.blocks;", "number += 1;", _ANSWER + _RACE, _STEP_CASES),
    _fault("step", "step_own_plan_of_one_block", "each block reads a plan of its own", "block_index() * (uint32_t)p.own_plan", "(block_index() > 0 ? 1u : 0u) * (uint32_t)p.own_plan", _RACE, _STEP_CASES),
    _fault("step", "step_own_plan_not_awaited", "lengths are there when a block plans for itself", "if (!early)\n        await_predecessors();", "", _RACE + ["uninitialised"], ["lengths/*"]),
    _fault("step", "step_early_plan_not_awaited", "a plan of the host's lengths is written when the call before has ended", "if (early) /* once, as there are at most so many sequences */\n            await_predecessors();", "", _RACE + ["uninitialised"], _STEP_CASES),
    _fault("step", "step_first_unit_of_another_sequence", "the first unit of a block, which is made with its plan", "(int32_t)block_index(), sequence,\n                                  {mine", "(int32_t)block_index(), 0,\n                                  {mine", _RACE + _UNWRITTEN, ["accuracy/batch_3"]),
    _fault("step", "step_first_unit_of_none", "blocks beyond the units that there are", "unit && lane_index() == 0 && (int32_t)block_index() >= total[0] + total[1]", "unit && lane_index() == 0 && (int32_t)block_index() > total[0] + total[1]", _UNWRITTEN, _STEP_CASES),
    _fault("step", "step_first_unit_again", "a block's units after its first one", "announced = false;", ";", _UNWRITTEN, _STEP_CASES),
    _fault("step", "step_merge_before_its_parts", "slots are there when the last kernel reads them", "await_predecessors();\n        merge_slots", "merge_slots", _RACE + ["uninitialised"], _STEP_CASES),
    _fault("step", "step_special_values_lost", "NaN of V of a tile that is cut reaches the rows that see it", "RIGHT && tiles::is_cut(tile, first_cut, whole_from)", "false", _ANSWER, ["special/nan_in_V", "special/inf_in_V"]),
    _fault("step_window", "step_window_not_hidden", "keys before a row's window, in a tile that others see", "LEFT && tile < whole_from) {", "LEFT && tile < 0) {", _ANSWER, _WINDOWS),
    _fault("step_window", "step_window_hides_its_first_key", "the first key of a window", "i / 4 * 8 + i % 2 < first[i / 2 % 2]", "i / 4 * 8 + i % 2 <= first[i / 2 % 2]", _ANSWER, _WINDOWS),
    _fault("step_window", "step_window_begins_a_tile_late", "the first tile of keys of a tile of rows", "(uint32_t)max(blocks.first, Order::spans::begin(p, first))", "(uint32_t)max(blocks.first + 1, Order::spans::begin(p, first))", _ANSWER + _ANY, _WINDOWS),
    _fault("step_window", "step_window_second_of_the_sequence", "with a window each tile of rows has chunks of its own", "s.chunks > 1 ? span_of_chunk<Order>(p, s, size, blocks, 1) : s.second", "s.second", _UNWRITTEN + _ANY, _STEP_WINDOWS),
    _fault("step_window", "step_window_slots_of_the_sequence", "slots of a tile of rows, with a window", "return s.spans - second + 1;", "return 1;", _UNWRITTEN + _ANY, _STEP_WINDOWS),
    _fault("step_window", "step_window_not_scanned", "tiles that the left side of a window cuts are scanned", "LEFT && !shape::is_cut(tile, first_cut, whole_from)", "LEFT && !shape::is_cut(tile, first_cut, 0)", _ANY, _WINDOWS),
    _fault("step_window", "step_window_special_values_lost", "NaN of V of a tile at the left side of a window reaches the rows that see it", "side < 1 + LEFT", "side < 1", _ANSWER, ["special/window_of_whole_blocks_nan_in_V", "special/nan_in_V"]),
    _fault("step_window", "step_slot_written_while_it_is_read", "a slot is read by all lanes of a quad and written by one", "rows[1] = {ld_global_cg_f32(row + 16), ld_global_cg_f32(row + 17)};\n    warp_sync();", "rows[1] = {ld_global_cg_f32(row + 16), ld_global_cg_f32(row + 17)};", ["race"], ["special/window_of_whole_blocks_nan_in_V"]),
    _fault("step_window", "step_not_capped", "the softcap", "change_scores(s, score_t::of(p.base));", ";", _ANSWER, ["accuracy/softcap*"]),
    _fault("step_window", "step_row_that_sees_no_key", "O of a row whose window is beyond the keys", "inverse_of(row.sum, [&]() { return sees; });", "inverse_of(row.sum, [&]() { return true; });", _ANSWER, ["special/window_queries_of_no_keys", "special/queries_of_no_keys"]),
    _fault("step", "step_unit_given_back_early", "words of a unit stay until all warps have read them", "unit_ring::init(shared, 1, 12);", "unit_ring::init(shared, 1, 4);", _ANY + ["answer"], ["accuracy/gqa_8_2", "accuracy/batch_3", "ragged/many"], 2),
]

# ---- the same over K and V of 8 bits -------------------------------------------------------------------------------

_STEP_NARROW = [
    _fault("step_narrow", "narrow_scores_not_scaled", "the scales of K", "scales::scale_scores(scale_ring::tile(shared, ring_at(step)), s);", ";", _ANSWER, _STEP_CASES),
    _fault("step_narrow", "narrow_scales_of_another_column", "where a key's scale lies", "key / 8 % 2 * 2 + key % 2", "key % 2 * 2 + key / 8 % 2", _ANSWER, _STEP_CASES),
    _fault("step_narrow", "narrow_scales_over_what_is_read", "scales are there until their tile's weights are made", "scale_ring::wait_empty(shared, c);", ";", _RACE + ["answer"], _STEP_CASES),
    _fault("step_narrow", "narrow_scale_of_a_hidden_key", "a hidden value's scale, whatever it is, plays no part", "s[i] == 0.0f ? 0.0f : s[i] * of_key", "s[i] * of_key", _ANSWER, ["special/*"]),
    _fault("step_narrow", "narrow_piece_not_waited_for", "bytes are there when they are widened", "piece_ring::wait_full(shared, pieces);", ";", _ANY + ["answer"], _STEP_CASES),
    _fault("step_narrow", "narrow_bytes_over_what_is_read", "bytes stay until they are widened", "piece_ring::wait_empty(shared, pieces);", ";", _ANY + ["answer"], _STEP_CASES),
    _fault("step_narrow", "narrow_tile_of_one_widener", "a tile is whole when all warps have widened theirs", "tile_ring::init(shared, WIDENERS, 8);", "tile_ring::init(shared, 1, 8);", _ANY + ["answer"], _STEP_CASES),
    _fault("step_narrow", "narrow_tile_without_fence", "widened numbers are known to the products", "fence_async_shared();\n                warp_sync();\n                if (lane_index() == 0)\n                    mbarrier_arrive(tile_ring::full", "warp_sync();\n                if (lane_index() == 0)\n                    mbarrier_arrive(tile_ring::full", _ANY, _STEP_CASES),
    _fault("step_narrow", "narrow_values_of_another_tile", "the order of tiles of K and V", "skip(v, 2 - before_last);", "skip(v, 2);", _ANY + ["answer"], _STEP_CASES),
    _fault("step_narrow", "narrow_swizzle", "where 16 bytes of a widened row are", "(in_slab ^ turned) * 16", "in_slab * 16", _ANSWER, _STEP_CASES),
    _fault("step_narrow", "narrow_nan_of_values_lost", "NaN of V of a tile that is cut is told", "left = left || (cut && RIGHT && is_key);", ";", _ANSWER, ["special/nan_in_V"]),
    _fault("step_narrow", "narrow_nan_of_keys_lost", "NaN of K", "return !cut || (!RIGHT && is_key);", "return of_v && (!cut || (!RIGHT && is_key));", _ANSWER, ["special/nan_in_K"]),
]

MUTATIONS = _HARMLESS + _FORWARD + _WINDOW + _CAPPED + _ALIBI + _TENSOR + _SHORT + _BACKWARD + _BACKWARD_ALIBI + _SPLIT + _BACKWARD_WINDOW + _BACKWARD_INTERVALS + _FULL + _LENGTHS + _RAGGED + _INTERVALS + _PARTS + _ROUNDING + _SEQUENCES + _SPLIT_SEQUENCES + _STEP + _STEP_NARROW

# What of the machine a fault goes against. The others are the masks' and the arithmetic's.
KINDS = {
    "phases of mbarriers": [
        "queries_not_waited_for",
        "keys_not_waited_for",
        "parity_of_values",
        "phase_not_turned",
        "scanners_skip_one_too_few",
        "parity_of_keys",
        "keys_not_passed_on",
        "values_not_passed_on",
        "scanners_out_of_step",
        "parity_of_the_turn_seen",
        "parity_of_p",
        "parity_of_the_other_tile",
        "sum_gathered_before_its_turn",
        "parity_of_the_gathered_sum",
        "sum_read_before_it_is_there",
        "only_block_waits_for_a_sum",
    ],
    "arrivals": [
        "scanner_not_stood_in_for",
        "scanners_count_as_one",
        "every_lane_releases",
        "q_has_one_reader_less",
        "ds_from_one_lane",
        "check_not_told",
        "p_from_one_lane",
    ],
    "bytes expected": [
        "too_few_bytes_expected",
        "too_many_bytes_expected",
        "bytes_not_expected",
        "rows_not_expected",
        "half_a_sum_expected",
    ],
    "fences of the async proxy": [
        "scanned_values_without_fence",
        "mbarriers_without_fence",
        "negated_queries_without_fence",
        "cleaned_values_without_fence",
        "ds_without_fence",
        "results_without_fence",
        "cleaned_keys_without_fence",
        "settled_without_fence",
        "dv_without_fence",
        "cleared_values_without_fence",
        "share_without_fence",
    ],
    "stages given back": [
        "loaded_over_what_is_read",
        "keys_given_back_in_flight",
        "values_given_back_in_flight",
        "queries_given_back_early",
        "announced_over_what_is_read",
        "loaded_over_what_others_read",
        "keys_to_the_other_stage",
        "ds_over_what_is_read",
        "dout_given_back_in_flight",
        "queries_given_back_in_flight",
        "stage_given_back_while_read",
        "values_never_given_back",
        "dv_over_keys_that_are_read",
        "dq_keys_given_back_in_flight",
        "dq_keys_loaded_over",
        "rows_given_back_while_read",
        "line_over_what_is_read",
        "unit_announced_over_what_is_read",
        "share_given_back_while_read",
    ],
    "products in flight": [
        "scores_read_in_flight",
        "weights_made_in_flight",
        "short_scores_in_flight",
        "short_values_in_flight",
        "product_without_fence",
        "dq_scores_in_flight",
    ],
    "setmaxnreg": [
        "more_registers_than_there_are",
        "registers_not_given",
        "registers_given_by_one_warp",
        "no_registers_left",
    ],
    "descriptors": [
        "product_steps_along_columns",
        "product_steps_along_rows",
        "swizzle_of_a_descriptor",
        "stride_of_a_descriptor",
    ],
    "turns": [
        "turn_of_too_many",
        "turn_kept",
        "tiles_taken_twice",
        "sums_out_of_turn",
        "turn_passed_before_the_sum",
        "turn_passed_when_read",
        "turn_without_acquire",
        "turn_never_passed",
        "sum_read_before_its_turn",
        "turn_of_the_first",
        "dq_turn_of_too_few",
        "turns_of_the_next_tile",
        "numbers_not_begun",
        "unit_turns_not_cleared",
        "part_out_of_turn",
        "key_turn_passed_before_the_sum",
        "key_turn_never_passed",
        "key_turn_of_the_same_part",
        "last_part_out_of_turn",
        "turn_of_dv_for_dk",
        "last_part_one_part_early",
        "key_turns_not_cleared",
        "sum_brought_out_of_turn",
        "rounded_over_what_is_read",
        "barrier_of_the_other_warpgroup",
    ],
}

_NAMES = {mutation["name"]: None for mutation in MUTATIONS}

[fail("no fault is called " + name) for names in KINDS.values() for name in names if name not in _NAMES]
