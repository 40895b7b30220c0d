$ include("cpu_head.c.lua")
$ local scale_parameter, scale_argument = narrow and ", const float *scale" or "", narrow and ", m->scale" or ""
$ -- AVX-512 widens 16 bytes in one instruction; baseline x86-64 has none that converts float16.
$ local widest = kv_dtype == "i8" and (lanes == 16 and 1 or 4) or kv_dtype == "e4m3" and (isa == "x86_64" and 4 or 2)
#define GLINT_CPU_TOGETHER ${widest or dtype == "bf16" and 2 or 1} /* see glint_row_vector */
$ if narrow then
#define GLINT_DEC_UNIT ${kv_dtype == "e4m3" and isa ~= "x86_64" and "256.0f" or "1.0f"} /* a number of K or V over what it is widened to */
$ end

enum {
    HEAD_DIM = ${head_dim},
    ROWS = ${tile_m},  /* of Q that a task works on: queries of all the heads that share a key head */
    CHUNK = ${tile_n}, /* keys */
    FEW_PITCH = 4 * (CHUNK + GLINT_CPU_LANES), /* floats of the scores of up to four rows */
};
#include "lib/cpu/decode.h"
$ if capped then
#include "lib/cpu/softcap.h"
$ end

/* Rows that are worked on together when `left` rows are left: of a block of four one may be idle. */
static int64_t few_of(int64_t left)
{
    return left >= 3 ? 4 : left;
}

/* The steps, with `few` a constant. */
GLINT_OUTLINE void scores(int64_t few, float *s, const float *q, const struct glint_dec_rows *k)
{
    switch (few) {
    case 4: glint_dec_scores(4, s, q, k); break;
    case 2: glint_dec_scores(2, s, q, k); break;
    default: glint_dec_scores(1, s, q, k);
    }
}

$ local least, least_parameter, least_argument = "GLINT_EXP_LEAST", "", ""
$ if biased and not bias_tensor then least, least_parameter, least_argument = "least", ", float least", ", w->least" end
GLINT_OUTLINE void softmax(int64_t few, float *s, int64_t keys, float *max, float *sum${least_parameter})
{
    switch (few) {
    case 4: glint_dec_softmax(4, s, keys, max, sum, ${least}); break;
    case 2: glint_dec_softmax(2, s, keys, max, sum, ${least}); break;
    default: glint_dec_softmax(1, s, keys, max, sum, ${least});
    }
}

$ if narrow then
GLINT_OUTLINE void scale_keys(int64_t few, float *s, int64_t keys, const float *scale)
{
    switch (few) {
    case 4: glint_dec_scale(4, s, keys, scale, GLINT_DEC_UNIT); break;
    case 2: glint_dec_scale(2, s, keys, scale, GLINT_DEC_UNIT); break;
    default: glint_dec_scale(1, s, keys, scale, GLINT_DEC_UNIT);
    }
}

$ end
GLINT_OUTLINE void values(int64_t few, float *o, const float *p, const struct glint_dec_rows *v)
{
    switch (few) {
    case 4: glint_dec_values(4, o, p, v); break;
    case 2: glint_dec_values(2, o, p, v); break;
    default: glint_dec_values(1, o, p, v);
    }
}

$ include("cpu_dec_work.c.lua")
$ -- Of all rows: the ends of the keys that each sees and that some sees, and where these begin. Under a band the first and the last row tell.
$ local least_keys, most_keys = intervals and "w->least_keys" or "keys_of(w, 0)", intervals and "w->most_keys" or "keys_of(w, w->rows - 1)"
$ local least_before, most_before = intervals and "w->least_before" or "before(w, 0)", intervals and "w->most_before" or "before(w, w->rows - 1)"

/* The rows of Q, times softmax_scale, in the order of elements that decode uses; rows that fill up a block of four are
 * zero. */
static void load_queries(const struct work *w, const struct glint_tensors *t, float *q, float *row)
{
    const struct glint_problem *p = w->problem;
    for (int64_t r = 0; r < (w->rows + 3) / 4 * 4; r++, q += GLINT_DEC_DIM) {
        memset(q, 0, sizeof(float) * GLINT_DEC_DIM);
        if (r >= w->rows)
            continue;
        const int64_t query = (w->first_row + r) / w->group, head = w->head_kv * w->group + (w->first_row + r) % w->group;
        glint_widen_rows(row, HEAD_DIM, (const glint_element *)t->q + w->batch * p->q.batch + head * p->q.head + query * p->q.row, 0, 1,
                         HEAD_DIM);
        for (int i = 0; i < GLINT_DEC_DIM; i++)
            if (glint_dec_element(i) < HEAD_DIM)
                q[i] = row[glint_dec_element(i)] * p->softmax_scale;
    }
}

/* Neighbouring keys whose rows lie one after another, in K as in V: GLINT_DEC_BLOCK at most. */
struct run {
    const glint_kv *k, *v;
    int64_t rows;
};

/* The runs of some keys, a chunk's at most: a page has 16 rows at least. */
struct runs {
    struct run run[CHUNK / 16];
    int64_t count;
};

/* Of the keys [key, end). Pages are looked up here alone, once a chunk and once ahead of it. */
GLINT_OUTLINE void find_runs(const struct work *w, struct runs *found, int64_t key, int64_t end)
{
    const struct glint_problem *p = w->problem;
    found->count = 0;
    for (int64_t last; key < end; key = last) {
        const struct glint_cpu_keys at = glint_cpu_keys_at(p, w->page_table, w->page_table ? w->batch : 0, key);
        const glint_kv *k = w->k + at.page * p->k.batch + at.row * p->k.row, *v = w->v + at.page * p->v.batch + at.row * p->v.row;
        last = key + (at.rows < end - key ? at.rows : end - key); /* at.rows has no end where K and V are linear */
        for (; key < last; key += GLINT_DEC_BLOCK, k += GLINT_DEC_BLOCK * p->k.row, v += GLINT_DEC_BLOCK * p->v.row)
            found->run[found->count++] = (struct run){k, v, last - key < GLINT_DEC_BLOCK ? last - key : GLINT_DEC_BLOCK};
    }
}

/* Run i of a chunk's K or V, and what comes next: the run that follows; after the last one of K the first of V, and
 * after that of V the next chunk's first of K. Rows that are used a chunk of K or of V later come into the second-level
 * cache meanwhile: V during K, the next chunk's K during V. Without this, decode from memory took 1.0 to 1.6 times as
 * long with linear K and V, 1.2 to 2.2 times with pages of 64 rows (Zen 4, 32,768 keys, glint_bench
 * --decode --page-rows 64, medians of three, in turns). It costs 4 % where K and V are in the third-level cache, 12 % at most, and small ones go without.
 * With this, and without the first-level cache asked for, it gains less. Where it is left to hardware:
 * glint_dec_streams. */
GLINT_INLINE struct glint_dec_rows rows_of(const struct work *w, const struct runs *here, const struct runs *then, const bool of_v, int64_t i)
{
    const ptrdiff_t k_row = w->problem->k.row, v_row = w->problem->v.row;
    const struct run *run = &here->run[i];
    struct glint_dec_rows x = {.row = of_v ? run->v : run->k, .stride = of_v ? v_row : k_row, .rows = run->rows};
    x.dense = !w->page_table && x.stride == HEAD_DIM;
    const struct runs *far = of_v ? then : here;
    if (i + 1 < here->count)
        x.next = of_v ? run[1].v : run[1].k, x.next_stride = x.stride, x.next_rows = run[1].rows;
    else if (far->count > 0)
        x.next = of_v ? far->run[0].k : far->run[0].v, x.next_stride = of_v ? k_row : v_row, x.next_rows = far->run[0].rows;
    if (w->early && i < far->count)
        x.far = of_v ? far->run[i].k : far->run[i].v, x.far_stride = of_v ? k_row : v_row, x.far_rows = far->run[i].rows;
    return x;
}

$ if bounds_first then
/* s[r / 4][key][few] = Q K^T of the chunk's keys [begin, keys), and -inf where a row does not see the key. */
static void make_scores(const struct work *w, const struct runs *here, float *s, const float *q, int64_t first_key, int64_t begin, int64_t keys${scale_parameter})
$ else
/* s[r / 4][key][few] = Q K^T of the chunk's first `keys` keys, and -inf where a row does not see the key. */
static void make_scores(const struct work *w, const struct runs *here, float *s, const float *q, int64_t first_key, int64_t keys${scale_parameter})
$ end
{
$ local from = bounds_first and "begin" or "0"
    for (int64_t i = 0, block = ${from}; i < here->count; block += here->run[i++].rows) {
        struct glint_dec_rows rows = rows_of(w, here, here, false, i);
        for (int64_t r = 0, few; r < w->rows; r += few, rows.next_rows = rows.far_rows = 0) {
            few = few_of(w->rows - r);
            scores(few, s + r / 4 * FEW_PITCH + block * few, q + r * GLINT_DEC_DIM, &rows);
        }
    }
$ if narrow then
    for (int64_t r = 0, few; r < w->rows; r += few) {
        few = few_of(w->rows - r);
        scale_keys(few, s + r / 4 * FEW_PITCH${bounds_first and " + begin * few" or ""}, keys${bounds_first and " - begin" or ""}, scale${bounds_first and " + begin" or ""});
    }
$ end
$ if capped then
    for (int64_t r = 0, few; r < w->rows && w->problem->softcap != 0.0f; r += few) {
        few = few_of(w->rows - r);
$   if bounds_first then
        glint_softcap_scores(s + r / 4 * FEW_PITCH + begin * few, (keys - begin) * few, glint_softcap_of(w->problem->softcap));
$   else
        glint_softcap_scores(s + r / 4 * FEW_PITCH, keys * few, glint_softcap_of(w->problem->softcap));
$   end
    }
$ end
$ if biased then
    for (int64_t r = 0, few; r < w->rows; r += few) {
        few = few_of(w->rows - r);
        struct glint_bias_source bias[4];
        memset(bias, 0, sizeof bias);
        for (int64_t i = 0; i < few && r + i < w->rows; i++) {
            const int64_t row = w->first_row + r + i;
            const int64_t head = w->head_kv * w->group + row % w->group;
            bias[i] = glint_bias_between(w->problem, w->tensors, w->batch, head, row / w->group, first_key + ${from});
        }
        glint_dec_bias(few, s + r / 4 * FEW_PITCH + ${from} * few, keys - ${from}, bias);
    }
$ end
    for (int64_t r = 0; r < w->rows; r++) {
        const int64_t few = few_of(w->rows - r / 4 * 4);
$ if bounds_first then
        const int64_t from = glint_clamp(before(w, r) - first_key, begin, keys);
        for (int64_t key = begin; key < from; key++)
            s[r / 4 * FEW_PITCH + key * few + r % 4] = -INFINITY;
$   if tree_bits then
        for (int64_t key = glint_clamp(first_of_tree(w) - first_key, from, keys); key < keys; key++)
            if (!chooses(w, r, first_key + key))
                s[r / 4 * FEW_PITCH + key * few + r % 4] = -INFINITY;
$   end
        for (int64_t key = glint_clamp(keys_of(w, r) - first_key, from, keys); key < keys; key++)
$ else
        for (int64_t key = glint_clamp(keys_of(w, r) - first_key, 0, keys); key < keys; key++)
$ end
            s[r / 4 * FEW_PITCH + key * few + r % 4] = -INFINITY;
    }
}

$ if bounds_first then
/* o[r] += P V of the chunk's keys [from, to), one row by itself. */
static void add_alone(const struct work *w, float *o, const float *s, int64_t first_key, int64_t r, int64_t from, int64_t to)
{
    const int64_t few = few_of(w->rows - r / 4 * 4);
    float weight[GLINT_DEC_BLOCK];
$   if tree_bits then
    for (int64_t key = from, count = 1; key < to; key += count, count = 1) {
        if (!chooses(w, r, first_key + key))
            continue;
        int64_t end = key + 1;
        while (end < to && chooses(w, r, first_key + end))
            end++;
        const struct place at = place_of(w, true, first_key + key, end - key);
$   else
    for (int64_t key = from, count; key < to; key += count) {
        const struct place at = place_of(w, true, first_key + key, to - key);
$   end
        const struct glint_dec_rows rows = {.row = at.row, .stride = w->problem->v.row, .rows = at.rows};
        count = rows.rows;
        for (int64_t j = 0; j < count; j++)
            weight[j] = s[r / 4 * FEW_PITCH + (key + j) * few + r % 4];
        values(1, o + r * GLINT_DEC_DIM, weight, &rows);
    }
}

/* o[r] = P V of the chunk, not yet divided by the sum. Keys [shared, all) are seen by every row; of those before and
 * after a row adds the ones that it sees, for zero times an infinity or a NaN would not be zero. Each row adds its keys
 * in their order. */
static void make_output(const struct work *w, const struct runs *here, const struct runs *then, float *o, const float *s, int64_t first_key,
                        int64_t begin, int64_t shared, int64_t all, int64_t keys)
$ else
/* o[r] = P V of the chunk, not yet divided by the sum. The first `all` keys are seen by every row; of the others a row
 * adds those that it sees, for zero times an infinity or a NaN would not be zero. */
static void make_output(const struct work *w, const struct runs *here, const struct runs *then, float *o, const float *s, int64_t first_key,
                        int64_t all, int64_t keys)
$ end
{
    for (int64_t r = 0; r < w->rows; r++)
        memset(o + r * GLINT_DEC_DIM, 0, sizeof(float) * GLINT_DEC_DIM);
$ if bounds_first then
    for (int64_t r = 0; r < w->rows; r++)
        add_alone(w, o, s, first_key, r, glint_clamp(before(w, r) - first_key, 0, shared), glint_clamp(keys_of(w, r) - first_key, 0, shared));
$ end
    for (int64_t i = 0, block = ${bounds_first and "begin" or "0"}; i < here->count; block += here->run[i++].rows) {
        struct glint_dec_rows rows = rows_of(w, here, then, true, i);
$ if bounds_first then
        const int64_t from = block > shared ? block : shared, to = block + rows.rows < all ? block + rows.rows : all;
        rows.row += (from - block) * rows.stride;
$ else
        const int64_t from = block, to = block + rows.rows < all ? block + rows.rows : all;
$ end
        rows.rows = to - from;
        if (from >= to)
            continue;
        for (int64_t r = 0, few; r < w->rows; r += few, rows.next_rows = rows.far_rows = 0) {
            few = few_of(w->rows - r);
            values(few, o + r * GLINT_DEC_DIM, s + r / 4 * FEW_PITCH + from * few, &rows);
        }
    }
$ if bounds_first then
    for (int64_t r = 0; r < w->rows; r++)
        add_alone(w, o, s, first_key, r, glint_clamp(before(w, r) - first_key, all, keys), glint_clamp(keys_of(w, r) - first_key, all, keys));
}
$ else
    for (int64_t r = 0; r < w->rows; r++) {
        const int64_t few = few_of(w->rows - r / 4 * 4), seen = glint_clamp(keys_of(w, r) - first_key, 0, keys);
        float weight[GLINT_DEC_BLOCK];
        for (int64_t key = all, count; key < seen; key += count) {
            const struct place at = place_of(w, true, first_key + key, seen - key);
            const struct glint_dec_rows rows = {.row = at.row, .stride = w->problem->v.row, .rows = at.rows};
            count = rows.rows;
            for (int64_t j = 0; j < count; j++)
                weight[j] = s[r / 4 * FEW_PITCH + (key + j) * few + r % 4];
            values(1, o + r * GLINT_DEC_DIM, weight, &rows);
        }
    }
}
$ end

/* The matrices of a lane's scratch: lib/cpu/cpu.h gives their shapes. */
struct matrices {
    float *q, *o, *s, *max, *sum, *all_o, *all_max, *all_sum, *row${narrow and ", *scale" or ""};
};

static struct matrices matrices_of(const struct glint_cpu_call *call, float *scratch)
{
    const uint64_t *region = call->geometry.region;
    struct matrices m = {.q = scratch + region[GLINT_DEC_Q], .o = scratch + region[GLINT_DEC_O], .s = scratch + region[GLINT_DEC_S],
                         .max = scratch + region[GLINT_DEC_STATS], .all_o = scratch + region[GLINT_DEC_ALL_O],
                         .row = scratch + region[GLINT_DEC_ROW]};
$ if narrow then
    m.scale = scratch + region[GLINT_DEC_SCALE];
$ end
    m.sum = m.max + ROWS;
    m.all_max = m.max + 2 * ROWS;
    m.all_sum = m.max + 3 * ROWS;
    return m;
}

$ if narrow then
/* Asks for the scales of the keys [key, end), which are used after other rows are read. With this, and with K of the
 * next chunk asked for by rows_of, int8 takes 0.86 times as long and bf16, which has no scales, 0.95 (Zen 5;
 * glint_bench --decode --dtype bf16 --kv-dtype same,i8
 * --head-dim 128 --heads 32:8 --seqlen 32768 --batch 2, medians of six runs in turns with those of before). */
GLINT_OUTLINE void ask_for_scales(const struct work *w, const float *scales, int64_t key, int64_t end)
{
    const struct glint_problem *p = w->problem;
    for (int64_t count; key < end && p->kv_scales == GLINT_SCALES_ROW; key += count) {
        const struct glint_cpu_keys at = glint_cpu_keys_at(p, w->page_table, w->batch, key);
        const float *here = scales + (at.page * p->heads_kv + w->head_kv) * (p->page_rows > 0 ? p->page_rows : w->call->keys) + at.row;
        count = glint_clamp(end - key, 0, at.rows < 16 ? at.rows : 16);
        __builtin_prefetch(here, 0, 3);
    }
}

$ end
/* What one chunk of keys gives each row that sees some of it: O, not divided by the sum; the maximum; the sum. */
static void chunk(const struct work *w, const struct matrices *m, int64_t first_key)
{
$ if bounds_first then
    /* Some row sees the keys [begin, keys), from a whole block on: so the sums of a row are made of the same lanes
     * wherever it begins. Every row sees [shared, all). */
    const int64_t keys = glint_clamp(${most_keys} - first_key, 0, CHUNK);
    const int64_t begin = glint_clamp(${least_before} - first_key, 0, keys) / GLINT_DEC_BLOCK * GLINT_DEC_BLOCK;
    const int64_t shared = glint_clamp(${most_before} - first_key, begin, keys);
    const int64_t all = glint_clamp(${least_keys} - first_key, shared, keys);
    struct runs here, then;
    find_runs(w, &here, first_key + begin, first_key + keys);
    find_runs(w, &then, first_key + CHUNK, glint_clamp(${most_keys}, 0, first_key + 2 * CHUNK));
$ if narrow then
    glint_bring_scales(m->scale + begin, w->call, w->call->tensors->k_scale, w->batch, w->head_kv, first_key + begin, keys - begin);
    ask_for_scales(w, w->call->tensors->v_scale, first_key + begin, first_key + keys);
$ end
    make_scores(w, &here, m->s, m->q, first_key, begin, keys${scale_argument});
$ else
    const int64_t all = glint_clamp(${least_keys} - first_key, 0, CHUNK);           /* keys that every row sees */
    const int64_t keys = glint_clamp(${most_keys} - first_key, 0, CHUNK); /* that some row sees */
    struct runs here, then;
    find_runs(w, &here, first_key, first_key + keys);
    find_runs(w, &then, first_key + CHUNK, glint_clamp(${most_keys}, 0, first_key + 2 * CHUNK));
$ if narrow then
    glint_bring_scales(m->scale, w->call, w->call->tensors->k_scale, w->batch, w->head_kv, first_key, keys);
    ask_for_scales(w, w->call->tensors->v_scale, first_key, first_key + keys);
$ end
    make_scores(w, &here, m->s, m->q, first_key, keys${scale_argument});
$ end
$ if narrow then
    glint_bring_scales(m->scale${bounds_first and " + begin" or ""}, w->call, w->call->tensors->v_scale, w->batch, w->head_kv, ${bounds_first and "first_key + begin, keys - begin" or "first_key, keys"});
    ask_for_scales(w, w->call->tensors->k_scale, first_key + CHUNK, glint_clamp(${most_keys}, 0, first_key + 2 * CHUNK));
$ end
    for (int64_t r = 0, few; r < w->rows; r += few) {
        few = few_of(w->rows - r);
$ if bounds_first then
        softmax(few, m->s + r / 4 * FEW_PITCH + begin * few, keys - begin, m->max + r, m->sum + r${least_argument});
$ if narrow then
        scale_keys(few, m->s + r / 4 * FEW_PITCH + begin * few, keys - begin, m->scale + begin);
$ end
    }
    make_output(w, &here, &then, m->o, m->s, first_key, begin, shared, all, keys);
$ else
        softmax(few, m->s + r / 4 * FEW_PITCH, keys, m->max + r, m->sum + r${least_argument});
$ if narrow then
        scale_keys(few, m->s + r / 4 * FEW_PITCH, keys, m->scale);
$ end
    }
    make_output(w, &here, &then, m->o, m->s, first_key, all, keys);
$ end
}

$ include("cpu_dec_tasks.c.lua")
