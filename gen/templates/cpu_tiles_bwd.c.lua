$ include("cpu_tiles_head.c.lua")

enum {
    PANELS = TILE_M / GLINT_PANEL,       /* of a query block */
    PANEL_DIM = GLINT_PANEL * DIM,       /* numbers of Q of a panel */
    KEY_TILES = TILE_N / 16,             /* of a key block */
    A_TILE = PANELS * GLINT_TILE_HALVES, /* P and dS of 16 keys and a query block */
};

/* The matrices of a lane's scratch: lib/cpu/cpu.h gives their shapes. */
struct matrices {
    uint16_t *q, *dout, *q_pairs, *dout_pairs;
    float *stats, *dq, *dk, *dv;
    uint16_t *k, *v, *k_t;
    float *s, *dp;
    uint16_t *p, *ds;
};

static float *stats_of(const struct matrices *m, int64_t panel)
{
    return m->stats + panel * 3 * GLINT_PANEL;
}
$ if causal then

/* Rows of a panel that have an infinity or a NaN are noted: zero times that is NaN, so the zeros of hidden pairs do not
 * hide them. In pairs they are packed as zero, and what they give to the keys that see them is added apart
 * (add_special_rows). */
static void note_special(float *noted, const struct glint_rows *x)
{
    for (int64_t r = 0; r < x->rows; r++) {
        const struct glint_rows row = {.row = x->row + r * x->stride, .rows = 1};
        if (glint_any_special_half(&row))
            noted[r] = 1.0f;
    }
}
$ end

/* Packs Q and dO of one query head both ways, with LSE, and delta = rowsum(dO * O) - dLSE. rowsum(dO * O) is the
 * diagonal of O dO^T by the instruction that makes V dO^T: where one key has all the weight, dP - delta is exactly
 * dLSE. Where sink_delta is given it becomes the sum over the rows of exp(sink - LSE) delta; of delta a row that sees
 * no key has - dLSE alone. */
GLINT_OUTLINE void load_head(const struct glint_cpu_call *call, const struct matrices *m, int64_t batch, int64_t head, float *sink_delta)
{
    const struct glint_problem *p = call->problem;
    const struct glint_tensors *t = call->tensors;
    const glint_element *q = (const glint_element *)t->q + batch * p->q.batch + head * p->q.head;
    const glint_element *o = (const glint_element *)t->o + batch * p->o.batch + head * p->o.head;
    const glint_element *dout = (const glint_element *)t->dout + batch * p->dout.batch + head * p->dout.head;
    const float *lse = t->lse + (batch * p->heads_q + head) * call->queries;
    glint_vec sink_sum = glint_splat(0.0f);
    for (int64_t first = 0; first < p->seqlen_q; first += GLINT_PANEL) {
        const int64_t queries = glint_clamp(p->seqlen_q - first, 0, GLINT_PANEL), panel = first / GLINT_PANEL;
        struct glint_rows q_rows = {.row = q + first * p->q.row, .stride = p->q.row, .rows = queries};
        struct glint_rows dout_rows = {.row = dout + first * p->dout.row, .stride = p->dout.row, .rows = queries};
        const struct glint_rows o_rows = {.row = o + first * p->o.row, .stride = p->o.row, .rows = queries};
        uint16_t *o_tiles = m->k; /* not in use yet */
        glint_pack_across(m->q + panel * PANEL_DIM, &q_rows, GLINT_PANEL);
        glint_pack_across(m->dout + panel * PANEL_DIM, &dout_rows, GLINT_PANEL);
        glint_pack_rows(o_tiles, &o_rows, GLINT_PANEL);
        glint_tile_scores(m->s, o_tiles, m->dout + panel * PANEL_DIM, 2);

        float *stats = stats_of(m, panel);
        memset(stats, 0, sizeof(float) * 3 * GLINT_PANEL);
        memcpy(stats, lse + first, sizeof(float) * (size_t)queries);
        for (int64_t i = 0; i < queries; i++)
            stats[GLINT_PANEL + i] = m->s[i / 16 * 3 * GLINT_TILE_FLOATS + i % 16 * 17]; /* tiles (0, 0) and (1, 1) of four */
$ if causal then
        note_special(stats + 2 * GLINT_PANEL, &q_rows);
        note_special(stats + 2 * GLINT_PANEL, &dout_rows);
        q_rows.clean = dout_rows.clean = true;
$ end
        glint_pack_pairs(m->q_pairs + panel * PANEL_DIM, &q_rows, GLINT_PANEL);
        glint_pack_pairs(m->dout_pairs + panel * PANEL_DIM, &dout_rows, GLINT_PANEL);
        for (int64_t i = 0; i < queries; i += GLINT_CPU_LANES) {
            const glint_vec dlse = glint_dlse_of(call, batch, head, first + i, glint_clamp(queries - i, 0, GLINT_CPU_LANES));
            const glint_vec delta = glint_load(stats + GLINT_PANEL + i) - dlse;
            glint_store(stats + GLINT_PANEL + i, delta);
            if (sink_delta)
                sink_sum += glint_sink_share(glint_rows_with_keys(call, first + i), t->sinks[head], glint_load(stats + i), delta, dlse);
        }
    }
    if (sink_delta) {
        *sink_delta = 0.0f;
        for (int i = 0; i < GLINT_CPU_LANES; i++)
            *sink_delta += sink_sum[i];
    }
}

/* Scores to P = exp(S - LSE), and dP to dS = P (dP - delta). */
struct softmax {
    float scale; /* softmax_scale */
$ if capped then
    float cap; /* of the scores as they are here, before softmax_scale; 0: none */
$ end
};

/* Two rows of keys, r and r + 1 of a tile of them that is `key` keys from the block's first, for both tiles of queries
 * of a panel. */
GLINT_INLINE void gradient_rows(const bool hides, const struct glint_tile_panel *x, const struct softmax *f, const float *s, const float *dp,
                                float *pairs, uint16_t *p, uint16_t *ds, int64_t key, int r)
{
    glint_vec gradient[2][2]; /* [row][tile] */
    GLINT_UNROLL
    for (int row = 0; row < 2; row++) {
        glint_vec weight[2];
        GLINT_UNROLL
        for (int tile = 0; tile < 2; tile++) {
            const int at = tile * GLINT_TILE_FLOATS + (r + row) * 16;
            glint_vec score = glint_load(s + at), slope = glint_load(dp + at) - glint_load(x->delta + 16 * tile);
$ if capped then
            if (f->cap != 0.0f) {
                const struct glint_softcap cap = glint_softcap_of(f->cap);
                score = glint_softcap(score, cap);
                const glint_vec tanh = score * cap.inverse;
                slope *= glint_horner(-tanh, tanh, 1.0f);
            }
$ end
            /* Rounding can leave a score a little above its LSE, and where LSE is -inf no key is seen. */
            const glint_vec t = glint_min(glint_splat(0.0f), glint_fma(score, glint_splat(f->scale), -glint_load(x->lse + 16 * tile)));
            weight[tile] = glint_exp2(t * 0x1.715476p+0f);
            gradient[row][tile] = weight[tile] * slope;
            if (hides) {
                const glint_veci sees = glint_tile_sees(x, key + r + row, 16 * tile);
                weight[tile] = (glint_vec)((glint_veci)weight[tile] & sees);
                gradient[row][tile] = (glint_vec)((glint_veci)gradient[row][tile] & sees);
            }
        }
        const glint_halves weights = glint_round_pair(weight[0], weight[1]);
        const glint_halves gradients = glint_round_pair(gradient[row][0], gradient[row][1]);
        memcpy(p + (r + row) * 32, &weights, sizeof weights);
        memcpy(ds + (r + row) * 32, &gradients, sizeof gradients);
    }
    GLINT_UNROLL
    for (int tile = 0; tile < 2; tile++) {
        const glint_words pair = glint_pair_of(gradient[0][tile], gradient[1][tile]);
        memcpy(pairs + tile * GLINT_TILE_FLOATS, &pair, sizeof pair);
    }
}

/* P and dS of a panel and `keys` keys, a multiple of 32, from `first` on. S and dP are [keys / 16][2][16][16]. p and ds
 * get both as A, a tile of 16 keys by 32 queries each; s gets dS in pairs of keys, in the first of two tiles: a pair's
 * row is never below the rows that it is made of. */
GLINT_OUTLINE void gradient(const struct glint_tile_panel *x, const struct softmax *f, float *s, const float *dp, uint16_t *p, uint16_t *ds,
                            int64_t first, int64_t keys)
{
    for (int64_t t = 0; t < keys / 16; t++, s += 2 * GLINT_TILE_FLOATS, dp += 2 * GLINT_TILE_FLOATS, p += A_TILE, ds += A_TILE) {
        const int64_t key = first + 16 * t;
        float *pairs = t % 2 == 0 ? s : s - 2 * GLINT_TILE_FLOATS + 8 * 16;
        if (key + 15 + x->shift > 0 || key < GLINT_PANEL - 1 + x->lag || key + 16 > x->keys || x->queries < GLINT_PANEL) {
            for (int r = 0; r < 16; r += 2, pairs += 16)
                gradient_rows(true, x, f, s, dp, pairs, p, ds, key, r);
        } else {
            for (int r = 0; r < 16; r += 2, pairs += 16)
                gradient_rows(false, x, f, s, dp, pairs, p, ds, key, r);
        }
    }
}
$ if causal then

/* c [keys][DIM] += A X for what was packed as zero: infinite and NaN elements of the panel's rows of X that are noted,
 * and the keys [from, to) that see them. A is P or dS, a tile of 16 keys by 32 queries every A_TILE. */
static void add_special_rows(float *c, const uint16_t *a, const struct glint_rows *rows, const float *noted, const struct glint_tile_panel *x,
                             int64_t from, int64_t to)
{
    for (int64_t i = 0; i < x->queries; i++) {
        if (noted[i] == 0.0f)
            continue;
        for (int64_t r = from; r < to && r < x->keys; r++) {
            if (i < r + x->shift || i > r - x->lag)
                continue;
            const float weight = glint_float_of(a[r / 16 * A_TILE + r % 16 * 32 + i]);
            for (int d = 0; d < HEAD_DIM; d++) {
                const uint16_t number = rows->row[i * rows->stride + d];
                if ((number & 0x7f80) == 0x7f80) {
                    float *at = c + (r / 16 * GLINT_DIM_TILES + d / 16) * GLINT_TILE_FLOATS + r % 16 * 16 + d % 16;
                    *at = glint_fma_scalar(weight, glint_float_of(number), *at);
                }
            }
        }
    }
}

/* dQ^T += K^T dS^T likewise: elements of the keys [from, to), and the queries that see them. */
static void add_special_keys(float *dq, const float *pairs, const struct glint_rows *k, const struct glint_tile_panel *x, int64_t from, int64_t to)
{
    for (int64_t r = from; r < to && r < x->keys; r++) {
        const struct glint_rows row = {.row = k->row + r * k->stride, .rows = 1};
        if (!glint_any_special_half(&row))
            continue;
        for (int64_t lane = 0; lane < GLINT_PANEL; lane += 16) {
            const glint_veci sees = glint_tile_sees(x, r, lane);
            glint_words pair;
            memcpy(&pair, pairs + lane / 16 * GLINT_TILE_FLOATS + (r - from) / 32 * 4 * GLINT_TILE_FLOATS + r % 32 / 2 * 16, sizeof pair);
            const glint_vec weight = (glint_vec)(r % 2 == 0 ? pair << 16 : pair & 0xffff0000);
            for (int d = 0; d < HEAD_DIM; d++)
                if ((row.row[d] & 0x7f80) == 0x7f80) {
                    float *at = dq + lane * DIM + glint_transposed_row(d) * 16;
                    glint_store(at, glint_select(sees, glint_fma(weight, glint_splat(glint_float_of(row.row[d])), glint_load(at)), glint_load(at)));
                }
        }
    }
}
$ end

/* A key block: rows of K, packed in scratch, and what query 0 sees of them. */
struct keys {
    struct glint_rows k;
    int64_t keys, shift, lag; /* query i of the head sees key r of the block iff i >= r + shift and i <= r - lag */
    float *dk, *dv;
$ if causal then
    bool special; /* K has infinities or NaN: transposed they are zero */
    const glint_element *q, *dout;
    int64_t q_stride, dout_stride;
$ end
};

/* A query block by a key block: adds what they give each other to dK, dV and dQ^T. */
GLINT_OUTLINE void block_by_keys(const struct matrices *m, const struct softmax *f, int64_t block, int64_t queries, const struct keys *k, float *dq)
{
    /* Keys that a panel is worked on with, in whole steps of 32; neither falls from panel to panel. */
    int64_t begin[PANELS] = {0}, end[PANELS] = {0};
    const int64_t panels = (queries + GLINT_PANEL - 1) / GLINT_PANEL;
    for (int64_t i = 0; i < panels; i++) {
        const int64_t panel = block * PANELS + i, first = panel * GLINT_PANEL;
        float *stats = stats_of(m, panel);
        const struct glint_tile_panel x = {.lse = stats, .delta = stats + GLINT_PANEL, .shift = k->shift - first, .lag = k->lag + first,
                                          .queries = glint_clamp(queries - i * GLINT_PANEL, 0, GLINT_PANEL), .keys = k->keys};
$ if causal then
        end[i] = (glint_clamp(x.queries - x.shift, 0, k->keys) + 31) / 32 * 32;
        begin[i] = ${bounds_first and "glint_clamp(x.lag, 0, end[i]) / 32 * 32" or "0"};
        if (begin[i] >= end[i])
            continue;
$ else
        end[i] = (k->keys + 31) / 32 * 32;
        begin[i] = 0;
$ end
        const int64_t count = end[i] - begin[i];
        uint16_t *p = m->p + i * GLINT_TILE_HALVES + begin[i] / 16 * A_TILE, *ds = m->ds + i * GLINT_TILE_HALVES + begin[i] / 16 * A_TILE;
        glint_tile_scores(m->s, m->k + begin[i] * DIM, m->q + panel * PANEL_DIM, count / 16);
        glint_tile_scores(m->dp, m->v + begin[i] * DIM, m->dout + panel * PANEL_DIM, count / 16);
        gradient(&x, f, m->s, m->dp, p, ds, begin[i], count);

        /* dQ^T += K^T dS^T. */
        glint_tile_transposed_product(dq + panel * PANEL_DIM, m->k_t + begin[i] * DIM, (const uint16_t *)m->s, 4 * GLINT_TILE_HALVES,
                                     GLINT_TILE_HALVES, count / 32, true);
$ if causal then
        if (k->special)
            add_special_keys(dq + panel * PANEL_DIM, m->s, &k->k, &x, begin[i], end[i]);
$ end
    }

    /* dV += P^T dO and dK += dS^T Q, for the panels that see some of 32 keys. */
    for (int64_t key = 0; key < k->keys; key += 32) {
        int64_t from = 0, to = panels;
        while (from < to && end[from] <= key)
            from++;
        while (to > from && begin[to - 1] > key)
            to--;
        if (from == to)
            continue;
        const int64_t at = from * GLINT_TILE_HALVES + key / 16 * A_TILE, panel = block * PANELS + from;
        glint_tile_product(k->dv + key * DIM, m->p + at, A_TILE, m->dout_pairs + panel * PANEL_DIM, to - from);
        glint_tile_product(k->dk + key * DIM, m->ds + at, A_TILE, m->q_pairs + panel * PANEL_DIM, to - from);
    }
$ if causal then
    for (int64_t i = 0; i < panels; i++) {
        const int64_t first = (block * PANELS + i) * GLINT_PANEL;
        const float *noted = stats_of(m, block * PANELS + i) + 2 * GLINT_PANEL;
        const struct glint_tile_panel x = {.shift = k->shift - first, .lag = k->lag + first,
                                          .queries = glint_clamp(queries - i * GLINT_PANEL, 0, GLINT_PANEL), .keys = k->keys};
        const struct glint_rows q = {.row = k->q + first * k->q_stride, .stride = k->q_stride};
        const struct glint_rows dout = {.row = k->dout + first * k->dout_stride, .stride = k->dout_stride};
        add_special_rows(k->dv, m->p + i * GLINT_TILE_HALVES, &dout, noted, &x, begin[i], end[i]);
        add_special_rows(k->dk, m->ds + i * GLINT_TILE_HALVES, &q, noted, &x, begin[i], end[i]);
    }
$ end
}

/* Writes dQ of a panel of a head. */
GLINT_OUTLINE void store_dq(const struct glint_cpu_call *call, int64_t batch, int64_t head, int64_t panel, const float *dq)
{
    const struct glint_problem *p = call->problem;
    const int64_t first = panel * GLINT_PANEL, queries = glint_clamp(p->seqlen_q - first, 0, GLINT_PANEL);
    glint_element *to = (glint_element *)call->tensors->dq + batch * p->dq.batch + head * p->dq.head + first * p->dq.row;
    const glint_vec scale = glint_splat(p->softmax_scale);
    const glint_veci keep = ~(glint_veci){0};
    for (int64_t i = 0; i < queries; i += 16)
        glint_unpack_columns(to + i * p->dq.row, p->dq.row, dq + i * DIM, queries - i, &scale, &keep);
}

/* dK and dV of one key head, and dQ of the query heads that read it. When the problem is split, of one group of key
 * blocks, and its part of dQ goes to the workspace. dQ is summed within a group of key blocks (kb = group mod
 * key_groups), then over the groups in order. */
glint_cpu_phase_fn ${symbol};
void ${symbol}(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct glint_problem *p = call->problem;
    const struct glint_cpu_geometry *g = &call->geometry;
    float *s = scratch + g->region[GLINT_AMX_BWD_S];
    uint16_t *weights = (uint16_t *)(scratch + g->region[GLINT_AMX_BWD_P]);
    const struct matrices m = {
        (uint16_t *)(scratch + g->region[GLINT_AMX_BWD_Q]), (uint16_t *)(scratch + g->region[GLINT_AMX_BWD_DOUT]),
        (uint16_t *)(scratch + g->region[GLINT_AMX_BWD_Q_PAIRS]), (uint16_t *)(scratch + g->region[GLINT_AMX_BWD_DOUT_PAIRS]),
        scratch + g->region[GLINT_AMX_BWD_STATS], scratch + g->region[GLINT_AMX_BWD_DQ], scratch + g->region[GLINT_AMX_BWD_DK],
        scratch + g->region[GLINT_AMX_BWD_DV], (uint16_t *)(scratch + g->region[GLINT_AMX_BWD_K]),
        (uint16_t *)(scratch + g->region[GLINT_AMX_BWD_V]), (uint16_t *)(scratch + g->region[GLINT_AMX_BWD_K_T]),
        s, s + TILE_N * GLINT_PANEL, weights, weights + TILE_N * TILE_M,
    };
    const struct softmax f = {.scale = p->softmax_scale${capped and ", .cap = softcap_of_scores(p)" or ""}};
    const bool split = g->split > 1;
    const int64_t first_group = task % g->split, last_group = split ? first_group : g->key_groups - 1;
    const int64_t block_step = g->split, first_block = first_group; /* key blocks of this task; the n-th has the n-th dK and dV */
    const int64_t head_kv = task / g->split % p->heads_kv, batch = task / g->split / p->heads_kv;
    const int64_t head_group = p->heads_q / p->heads_kv, dq_floats = g->query_blocks * TILE_M * DIM;
    const glint_element *k = (const glint_element *)call->tensors->k + batch * p->k.batch + head_kv * p->k.head;
    const glint_element *v = (const glint_element *)call->tensors->v + batch * p->v.batch + head_kv * p->v.head;

$ if products == "amx" then
    struct glint_tiles found;
    glint_tiles_begin(&found);
$ end
    const int64_t own_blocks = (g->key_blocks - first_block + block_step - 1) / block_step;
    memset(m.dk, 0, sizeof(float) * (size_t)(own_blocks * TILE_N * DIM));
    memset(m.dv, 0, sizeof(float) * (size_t)(own_blocks * TILE_N * DIM));
    for (int64_t head = head_kv * head_group; head < (head_kv + 1) * head_group; head++) {
        load_head(call, &m, batch, head, p->sinks != 0 && first_group == 0 ? glint_cpu_sink_delta(call, batch, head) : NULL);
        for (int64_t group = first_group; group <= last_group; group++) {
            float *dq = m.dq;
            if (split)
                dq = call->partials + (uint64_t)((group * p->batch + batch) * p->heads_q + head) * g->partial_floats;
            else if (group > 0)
                dq += dq_floats;
            memset(dq, 0, sizeof(float) * (size_t)dq_floats);
            for (int64_t key_block = group; key_block < g->key_blocks; key_block += g->key_groups) {
                const int64_t first_key = key_block * TILE_N, keys = glint_clamp(p->seqlen_k - first_key, 0, TILE_N);
                const int64_t n = (key_block - first_block) / block_step * TILE_N * DIM, whole = (keys + 31) / 32 * 32;
$ if causal then
                const int64_t first_query = glint_clamp(first_key - call->band.last, 0, p->seqlen_q); /* to see any of these keys */
                const int64_t end_query = ${bounds_first and "glint_clamp(first_key + keys - call->band.first, 0, p->seqlen_q)" or "p->seqlen_q"};
$ else
                const int64_t first_query = 0, end_query = p->seqlen_q;
$ end
                if (first_query >= end_query)
                    continue;
                const struct glint_rows v_rows = {.row = v + first_key * p->v.row, .stride = p->v.row, .rows = keys};
                struct keys x = {.k = {.row = k + first_key * p->k.row, .stride = p->k.row, .rows = keys}, .keys = keys,
                                 .dk = m.dk + n, .dv = m.dv + n};
                x.shift = ${causal and "first_key - call->band.last" or "-GLINT_FAR"};
                x.lag = ${bounds_first and "call->band.first - first_key" or "-GLINT_FAR"};
                glint_pack_rows(m.k, &x.k, whole);
                glint_pack_rows(m.v, &v_rows, whole);
$ if causal then
                x.q = (const glint_element *)call->tensors->q + batch * p->q.batch + head * p->q.head, x.q_stride = p->q.row;
                x.dout = (const glint_element *)call->tensors->dout + batch * p->dout.batch + head * p->dout.head, x.dout_stride = p->dout.row;
$ end
$ if causal then
                x.special = glint_pack_transposed_clean(m.k_t, &x.k, whole);
$ else
                glint_pack_transposed(m.k_t, &x.k, whole);
$ end
                for (int64_t block = first_query / TILE_M; block * TILE_M < end_query; block++)
                    block_by_keys(&m, &f, block, glint_clamp(p->seqlen_q - block * TILE_M, 0, TILE_M), &x, dq);
            }
            if (!split && group > 0)
                for (int64_t i = 0; i < dq_floats; i += GLINT_CPU_LANES)
                    glint_store(m.dq + i, glint_load(m.dq + i) + glint_load(dq + i));
        }
        for (int64_t panel = 0; !split && panel * GLINT_PANEL < p->seqlen_q; panel++)
            store_dq(call, batch, head, panel, m.dq + panel * PANEL_DIM);
    }
$ if products == "amx" then
    glint_tiles_end(&found);
$ end

    glint_element *dk = (glint_element *)call->tensors->dk + batch * p->dk.batch + head_kv * p->dk.head;
    glint_element *dv = (glint_element *)call->tensors->dv + batch * p->dv.batch + head_kv * p->dv.head;
    for (int64_t key_block = first_block; key_block < g->key_blocks; key_block += block_step) {
        const int64_t first_key = key_block * TILE_N, keys = glint_clamp(p->seqlen_k - first_key, 0, TILE_N);
        const int64_t n = (key_block - first_block) / block_step * TILE_N * DIM;
        glint_unpack_rows(dk + first_key * p->dk.row, p->dk.row, m.dk + n, keys, p->softmax_scale);
        glint_unpack_rows(dv + first_key * p->dv.row, p->dv.row, m.dv + n, keys, 1.0f);
    }
}

/* dQ of one query block of one head: the sum of the groups' parts, in order. Only when the problem is split. */
glint_cpu_phase_fn ${symbol}_then;
void ${symbol}_then(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct glint_problem *p = call->problem;
    const struct glint_cpu_geometry *g = &call->geometry;
    const int64_t block = task % g->query_blocks, head = task / g->query_blocks % p->heads_q;
    const int64_t batch = task / g->query_blocks / p->heads_q;
    float *dq = scratch + g->region[GLINT_AMX_BWD_DK];
    for (int64_t panel = block * PANELS; panel < (block + 1) * PANELS && panel * GLINT_PANEL < p->seqlen_q; panel++) {
        for (int64_t group = 0; group < g->key_groups; group++) {
            const float *part = call->partials + (uint64_t)((group * p->batch + batch) * p->heads_q + head) * g->partial_floats + panel * PANEL_DIM;
            for (int64_t i = 0; i < PANEL_DIM; i += GLINT_CPU_LANES)
                glint_store(dq + i, group == 0 ? glint_load(part + i) : glint_load(dq + i) + glint_load(part + i));
        }
        store_dq(call, batch, head, panel, dq);
    }
}
