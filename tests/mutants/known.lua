-- Survivors that no test can or should kill, each with its reason: { file, line, old, new, class, why }. `line` is the
-- text of the source's line. Where a file has the line more than once, `within` is the name of the function that is
-- meant; where the line has the text `old` more than once, `number` is which of them is meant. Classes: "equivalent"
-- computes the same for every input; "speed" changes time, or room that is not promised, alone.
local function equivalent(file, line, old, new, why, which)
  which = which or {}
  return { file = file, line = line, old = old, new = new, class = "equivalent", why = why, within = which.within, number = which.number }
end

return {
  equivalent("lib/context.c", "return sum ^ sum >> 29;", ">>", "<<", "another mixing function of the same strength"),
  equivalent("lib/plan.c", "sum ^= sum >> 29;", ">>", "<<", "another mixing function of the same strength"),
  equivalent("lib/plan.c", "uint64_t word, sum = 0;", "0", "1", "another start of the sum"),
  equivalent("lib/check_problem.c", "if (p->head_dim < 8 || p->head_dim % 8 != 0 || p->head_dim > GLINT_MAX_EXTENT)", "8", "7",
    "no multiple of 8 lies between", { number = 1 }),
  equivalent("lib/check_problem.c",
    "if (__builtin_mul_overflow(rows, p->heads_q, &rows) || __builtin_mul_overflow(rows, 4, &rows))", "4", "8",
    "O of as many rows is larger, and is refused before"),
  equivalent("lib/choose.c", "return p->seqlen_q > p->seqlen_k ? p->seqlen_q : p->seqlen_k;", ">", ">=", "of two equal numbers either is taken",
    { number = 2 }),
  equivalent("lib/cpu/backend.c",
    "if (row->family != taken->family || row->isa <= taken->isa || row->isa >= 32 || !glint_has_key(row, &key) ||", "32", "33",
    "the numbers of instruction sets are far below"),
  equivalent("lib/selftest.c", "t->status = GLINT_OK;", "t->status = GLINT_OK;", ";", "the struct begins as zeros"),
  equivalent("lib/selftest.c", "for (uint32_t i = 0; i < glint_variants_count; i++) {", "<", "<=", "a row beyond the table is not available",
    { within = "glint_selftest_size" }),
  equivalent("lib/selftest.c", "for (uint32_t i = 0; i < glint_variants_count; i++) {", "<", "<=", "a row beyond the table is not available",
    { within = "glint_selftest" }),
  equivalent("lib/selftest.c",
    "exp_reference(above < 0.0 ? above : 0.0) * g_of(head, i) * t->z * (double)answer.mean_c[head * rows_q + i];", "0.0", "1",
    "LSE is not below the sink", { number = 1 }),
  equivalent("lib/cpu/append.c", "int32_t largest = 0;", "0", "1", "of a row of zeros the scale is 2^-126 all the same"),
  equivalent("lib/cpu/append.c", "largest = 0x7fc00000;", "0x7fc00000", "2143289345", "NaN is NaN, with any other bits"),
  equivalent("lib/merge.c", "return glint_refuse(fault, GLINT_REASON_RESULT_OVERLAP, field, of_result, 0, 0);", "0", "1",
    "the sentence says no number", { number = 1 }),
  equivalent("lib/merge.c", "return glint_refuse(fault, GLINT_REASON_RESULT_OVERLAP, field, of_result, 0, 0);", "0", "1",
    "the sentence says no number", { number = 2 }),
  equivalent("lib/selftest.c",
    "glint_problem_bshd(&t->problem, (enum glint_dtype)v->dtype, 1, seqlen_q, v->tile_n + 5, HEADS, 1, v->head_dim);", "5", "6",
    "a key more tells as much"),
  equivalent("lib/cpu/backend.c", "for (uint32_t isa = 0; isa < 32; isa++)", "32", "33",
    "the instruction set 0 is none, and a shift by 32 is the sanitizers' to find", { number = 2 }),
  equivalent("lib/cpu/launch.c", "const int64_t lanes = g->lanes > 0 ? g->lanes : 1;", ">", ">=",
    "without lanes there is no task, and nobody has a share", { number = 2 }),
  equivalent("lib/cuda/open.c", "return sm == device_sm ? 2 * sm + 1 : 0;", "2", "4", "of the images that run it is the nearest anyhow"),
  equivalent("lib/cuda/open.c", "memset(cuda, 0, glint_cuda_size());", "memset(cuda, 0, glint_cuda_size());", ";",
    "glint_context_init has cleared all of it"),
  { file = "lib/pool.c", line = "if (now != seen || atomic_load_explicit(&pool->stop, memory_order_relaxed))",
    old = "now != seen || atomic_load_explicit(&pool->stop, memory_order_relaxed)", new = "0", class = "speed", why = "workers sleep at once" },
  { file = "lib/cpu/merge.c", line = "const int64_t row_bytes = (int64_t)(merge->parts + 1) * merge->head_dim * 4;", old = "4", new = "3",
    number = 3, class = "speed", why = "how many bodies share the rows" },
  { file = "lib/cuda/launch.c", line = "else if (kernel->map_count > 0 && glint_features_of(problem) == GLINT_FEATURE_RIGHT_BOUND)",
    old = "==", new = "!=", class = "speed", why = "in which order blocks work on tiles" },
  { file = "lib/pool.c", line = "atomic_store_explicit(&pool->caller_sleeps, 0, memory_order_relaxed);", old = "0", new = "1", class = "speed",
    why = "later jobs end with a signal that nobody waits for" },
  { file = "lib/pool.c", line = "return (bytes + 63) / 64 * 64;", old = "63", new = "126", class = "speed", why = "a line of room more" },
}
