$ local w_most_keys, w_least_before = "keys_of(&w, w.rows - 1)", "before(&w, 0)"
$ if intervals then w_most_keys, w_least_before = "w.most_keys", "w.least_before" end
$ local first_chunk, or_later, is_blind = "0", "", "keys_of(w, r) == 0"
$ if bounds_first then
$   first_chunk, or_later = w_least_before .. " / CHUNK * CHUNK", " || " .. w_least_before .. " >= first_key + CHUNK"
$   is_blind = "keys_of(w, r) <= before(w, r)"
$ end
/* O = o / sum and LSE = max + log(sum) of a row, with the sink in both; a row that sees no key has O = 0 and LSE =
 * sink. */
static void end_row(const struct glint_cpu_call *call, const struct work *w, int64_t r, const float *o, float max, float sum, float *row)
{
    const struct glint_problem *p = call->problem;
    const int64_t query = (w->first_row + r) / w->group, head = w->head_kv * w->group + (w->first_row + r) % w->group;
    glint_element *out = (glint_element *)call->tensors->o + w->batch * p->o.batch + head * p->o.head + query * p->o.row;
    float *lse = call->tensors->lse + (w->batch * p->heads_q + head) * call->queries + query;
    const bool blind = ${is_blind};
    const float sink = p->sinks != 0 ? call->tensors->sinks[head] : -INFINITY;
    const struct glint_total total = glint_total(glint_splat(max), glint_splat(sum), sink);
    const float factor = total.factor[0];
    for (int i = 0; i < GLINT_DEC_DIM; i++)
        if (glint_dec_element(i) < HEAD_DIM)
            row[glint_dec_element(i)] = blind ? 0.0f : o[i] * factor;
    glint_narrow_rows(out, 0, row, HEAD_DIM, 1, HEAD_DIM, 1.0f);
    *lse = blind ? sink : total.lse[0];
}

/* Where the workspace has what a chunk leaves of a row: O [GLINT_DEC_DIM], not divided; the maximum; the sum. */
static float *partial_of(const struct glint_cpu_call *call, const struct work *w, int64_t r, int64_t chunk)
{
    const struct glint_problem *p = call->problem;
    const int64_t row = (w->batch * p->heads_kv + w->head_kv) * w->group * p->seqlen_q + w->first_row + r;
    return call->partials + (row * call->geometry.key_blocks + chunk) * GLINT_DEC_PITCH(HEAD_DIM);
}

/* The block of rows of a task, which is `pair` (batch, key head). */
static struct work work_at(const struct glint_cpu_call *call, int64_t pair, int64_t block)
{
    const struct glint_problem *p = call->problem;
    struct work w = {${narrow and ".call = call, " or ""}.problem = p, .band = call->band, .batch = pair / p->heads_kv, .head_kv = pair % p->heads_kv};
    w.group = p->heads_q / p->heads_kv;
    w.first_row = block * ROWS;
    w.rows = glint_clamp(w.group * p->seqlen_q - w.first_row, 0, ROWS);
    w.page_table = call->tensors->page_table;
$ if biased then
    w.tensors = call->tensors;
$ end
$ if biased and not bias_tensor then
    w.least = GLINT_EXP_LEAST;
    for (int64_t head = w.head_kv * w.group; head < (w.head_kv + 1) * w.group; head++) {
        const struct glint_bias bias = glint_bias_between(p, w.tensors, w.batch, head, 0, 0);
        w.least = bias.slope == 0.0f ? w.least : glint_bias_least(&bias);
    }
$ end
$ if intervals then
    w.key_begin = glint_cpu_interval(call, call->tensors->key_begin, w.batch);
    w.key_end = glint_cpu_interval(call, call->tensors->key_end, w.batch);
$   if tree_bits then
    w.tree = glint_cpu_tree_of(call, w.batch);
$   end
    find_extent(&w);
$ end
$ if not products then
    w.early = 2.0 * (double)p->batch * (double)p->heads_kv * (double)p->seqlen_k * (double)(HEAD_DIM * sizeof(glint_kv)) > 1 << 20;
$ end
    const int64_t first = w.page_table ? 0 : w.batch;
    w.k = (const glint_kv *)call->tensors->k + first * p->k.batch + w.head_kv * p->k.head;
    w.v = (const glint_kv *)call->tensors->v + first * p->v.batch + w.head_kv * p->v.head;
    return w;
}

/* A row's chunks are added up in their order, whoever does it and wherever they come from, so the bits are the same:
 *   m' = max(m, m_c)    O = e^(m - m') O + e^(m_c - m') O_c    s = e^(m - m') s + e^(m_c - m') s_c */
static void add_chunk(float *all_o, float *all_max, float *all_sum, const float *o, float max, float sum)
{
    const float m = max > *all_max ? max : *all_max;
    const float before = m == *all_max ? 1.0f : glint_exp(glint_splat(*all_max - m))[0];
    const float now = m == max ? 1.0f : glint_exp(glint_splat(max - m))[0];
    for (int i = 0; i < GLINT_DEC_DIM; i += GLINT_CPU_LANES)
        glint_store(all_o + i, glint_fma(glint_load(all_o + i), glint_splat(before), glint_load(o + i) * now));
    *all_sum = glint_fma_scalar(*all_sum, before, sum * now);
    *all_max = m;
}

static void begin_rows(const struct matrices *m)
{
    memset(m->all_o, 0, sizeof(float) * ROWS * GLINT_DEC_DIM);
    for (int r = 0; r < ROWS; r++) {
        m->all_max[r] = -INFINITY;
        m->all_sum[r] = 0.0f;
    }
}

$ if max_logit then
/* The largest logits of a chunk, where the problem asks for them. */
static void take_logits(const struct glint_cpu_call *call, float *scratch, const struct work *w, const float *max, int64_t first_key)
{
    if (call->problem->max_logit == 0)
        return;
    float *const largest = glint_cpu_max_logit(call, scratch) + w->head_kv * w->group;
    for (int64_t r = 0; r < w->rows; r++)
        if (keys_of(w, r) > first_key)
            glint_take_largest(&largest[(w->first_row + r) % w->group], &max[r], 1);
}

$ end
/* All chunks of a block of rows, one after another: where there are enough such blocks, or many queries. */
static void whole(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct matrices m = matrices_of(call, scratch);
    const struct work w = work_at(call, task / call->geometry.query_blocks, task % call->geometry.query_blocks);
    begin_rows(&m);
    load_queries(&w, call->tensors, ${products and "&m" or "m.q, m.row"});
    for (int64_t first_key = ${first_chunk}; first_key < ${w_most_keys}; first_key += CHUNK) {
        chunk(&w, &m, first_key);
$ if max_logit then
        take_logits(call, scratch, &w, m.max, first_key);
$ end
        for (int64_t r = 0; r < w.rows; r++)
            if (keys_of(&w, r) > first_key)${bounds_first and " /* one that begins later adds nothing yet: O = 0, sum = 0 */" or ""}
                add_chunk(m.all_o + r * GLINT_DEC_DIM, &m.all_max[r], &m.all_sum[r], m.o + r * GLINT_DEC_DIM, m.max[r], m.sum[r]);
    }
    for (int64_t r = 0; r < w.rows; r++)
        end_row(call, &w, r, m.all_o + r * GLINT_DEC_DIM, m.all_max[r], m.all_sum[r], m.row);
}

/* Split, the first phase: one chunk of keys for a block of rows, left in the workspace. */
static void part(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct glint_problem *p = call->problem;
    const struct glint_cpu_geometry *g = &call->geometry;
    const struct matrices m = matrices_of(call, scratch);
    /* Where heads lie side by side in a row of keys they are worked on one after another: together they read whole
     * pages. */
    const int64_t chunks = g->key_blocks, heads = p->heads_kv, pairs = task / g->query_blocks;
    const bool heads_first = p->k.head < p->k.row;
    const int64_t in_batch = pairs % (chunks * heads), batch = pairs / (chunks * heads);
    const int64_t index = heads_first ? in_batch / heads : in_batch % chunks;
    const int64_t head_kv = heads_first ? in_batch % heads : in_batch / chunks;
    const struct work w = work_at(call, batch * heads + head_kv, task % g->query_blocks);
    const int64_t first_key = index * CHUNK;
    if (${w_most_keys} <= first_key${or_later})
        return;
    load_queries(&w, call->tensors, ${products and "&m" or "m.q, m.row"});
    chunk(&w, &m, first_key);
$ if max_logit then
    take_logits(call, scratch, &w, m.max, first_key);
$ end
    for (int64_t r = 0; r < w.rows; r++) {
        float *partial = partial_of(call, &w, r, index);
        memcpy(partial, m.o + r * GLINT_DEC_DIM, sizeof(float) * GLINT_DEC_DIM);
        partial[GLINT_DEC_DIM] = m.max[r];
        partial[GLINT_DEC_DIM + 1] = m.sum[r];
    }
}

glint_cpu_phase_fn ${symbol};
void ${symbol}(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
$ if products then
    struct glint_tiles found;
    GLINT_TILES_SAVE(&found);
$ end
    if (call->geometry.split > 1)
        part(call, scratch, task);
    else
        whole(call, scratch, task);
$ if products then
    glint_tiles_end(&found);
$ end
}

/* Split, the second phase: a block of rows. */
glint_cpu_phase_fn ${symbol}_then;
void ${symbol}_then(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct matrices m = matrices_of(call, scratch);
    const struct work w = work_at(call, task / call->geometry.query_blocks, task % call->geometry.query_blocks);
    begin_rows(&m);
    for (int64_t r = 0; r < w.rows; r++) {
        float *all_o = m.all_o + r * GLINT_DEC_DIM;
$ if bounds_first then
        for (int64_t c = before(&w, r) / CHUNK; before(&w, r) < keys_of(&w, r) && c * CHUNK < keys_of(&w, r); c++) {
$ else
        for (int64_t c = 0; c * CHUNK < keys_of(&w, r); c++) {
$ end
            const float *partial = partial_of(call, &w, r, c);
            add_chunk(all_o, &m.all_max[r], &m.all_sum[r], partial, partial[GLINT_DEC_DIM], partial[GLINT_DEC_DIM + 1]);
        }
        end_row(call, &w, r, all_o, m.all_max[r], m.all_sum[r], m.row);
    }
}
