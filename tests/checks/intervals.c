/* Intervals, trees, ALiBi and a bias where sequences are given, padded, ragged or in pages: each sequence has the bits
 * that it has alone, with intervals and distances of its own; a page that no query reaches is never a fault, and one
 * that some query reaches is. */
#include <math.h>
#include <string.h>

#include "tests/checks/accuracy.h"
#include "tests/oracle/half.h"
#include "tests/support/rand.h"

enum kind { GIVEN, PADDED, RAGGED, PADDED_PAGES, RAGGED_PAGES, KINDS };
static const char *const kind_names[KINDS] = {"given", "padded", "ragged", "pages", "ragged_pages"};

/* Of a batch: three sequences of some tiles, then one without queries, one without keys and one with a length that is
 * none, then more small ones than a warp looks through at a time. */
enum { SOME = 3, WRONG = 5, FEW = 7, MANY = 40, PAGE_ROWS = 16 };

/* A batch on the device. Tensors are [heads, rows, head_dim], and the sequences lie in their rows. */
struct batch {
    struct subject *subject;
    enum kind kind;
    int64_t count, heads_q, heads_kv, dim, bound[2], rows[2], at[2][MANY], length[2][MANY];
    void *tensor[TENSORS], *alone[TENSORS], *pool[2];
    float *lse_alone, *dlse, *dlse_alone, *sinks, *dsinks, *lse_host, *slopes, *logit, *bias, *dbias, *dbias_alone;
    int32_t *begin, *end, *host[2], *first[2], *lengths[2], *table;
    uint32_t *fault, *tree, *tree_host;
    bool ends;             /* of V one element of each head of a sequence is special alone, in one of its last rows */
    int64_t grown;         /* with `ends`: eight rows of the last sequence that have larger scores in the second tile */
    int64_t pages, spoilt; /* spoilt: the first sequence with a page outside of the pool; -1: none */
};

static bool is_ragged(enum kind kind)
{
    return kind == RAGGED || kind == RAGGED_PAGES;
}

static bool of_keys(enum tensor t)
{
    return t == K || t == V || t == DK || t == DV;
}

static size_t element(const struct batch *b)
{
    return dtype_bytes((enum glint_dtype)b->subject->info.dtype);
}

static int64_t count_of(const struct batch *b, enum tensor t)
{
    return t == LSE ? b->heads_q * b->rows[0] : (of_keys(t) ? b->heads_kv : b->heads_q) * b->rows[of_keys(t)] * b->dim;
}

static size_t bytes_of(const struct batch *b, enum tensor t)
{
    return (size_t)count_of(b, t) * (t == LSE ? sizeof(float) : element(b)) + 1;
}

static void *put(const struct batch *b, const void *from, size_t bytes)
{
    void *const to = check_device_memory(b->subject->backend, bytes + 1, 256, FENCE_NONE);
    b->subject->backend->copy_in(to, from, bytes);
    return to;
}

/* In the forward pass scores of every sixth row of Q are -inf, and in sequences of even numbers each row of V has NaN
 * or an infinity in a column of its own: so a query's O tells the keys that it sees. */
static void *put_normal(const struct batch *b, enum tensor t, const struct shape *shape)
{
    const enum glint_dtype dtype = (enum glint_dtype)b->subject->info.dtype;
    const bool forward = b->subject->info.pass == GLINT_FORWARD;
    const float largest = shape->softmax_scale < 0 ? -INFINITY : INFINITY;
    struct rand r = rand_stream(shape->seed, (uint64_t)t);
    unsigned char *const bytes = check_memory(bytes_of(b, t));
    for (int64_t i = 0; i < count_of(b, t); i++) {
        const int64_t row = i / b->dim % b->rows[of_keys(t)], d = i % b->dim;
        const float normal = rand_normal(&r);
        if (b->ends && forward && d == 0 && row >= b->at[of_keys(t)][1] && (t == Q || t == K)) {
            const int64_t own = row - b->at[of_keys(t)][1], tile = own / b->subject->info.tile_n;
            const double scale = shape->softmax_scale != 0 ? (double)shape->softmax_scale : 1 / sqrt((double)b->dim);
            const float grows = t == K ? (tile == 1 ? (float)(120 / (16 * scale)) : 0)
                                : own / (b->subject->info.queries_up_to > 0 ? 4 : 8) == b->grown ? 16
                                                                                                 : 0;
            dtype_store_row(dtype, bytes + (size_t)i * element(b), &grows, 1);
            continue;
        }
        const float x = !forward || d != 0 ? normal : t == Q && row % 6 == 5 ? largest : t == K ? -1 : normal;
        dtype_store_row(dtype, bytes + (size_t)i * element(b), &x, 1);
    }
    for (int64_t sequence = 0; sequence < b->count && forward && t == V && b->ends; sequence++)
        for (int64_t h = 0; h < b->heads_kv; h++) {
            const int64_t key = b->length[1][sequence] - 1 - h * (sequence + 3) % 7, row = b->at[1][sequence] + key;
            const int64_t d = h != 0 ? 5 * key % b->dim : (sequence % 2 != 0 ? b->dim / 2 : b->dim) - 1;
            unsigned char *const at = bytes + (size_t)((h * b->rows[1] + row) * b->dim) * element(b);
            if (key >= 0)
                dtype_store_row(dtype, at + (size_t)d * element(b), &(float){NAN}, 1);
        }
    for (int64_t sequence = 0; sequence < b->count && forward && t == V && !b->ends; sequence += 2)
        for (int64_t i = 0; i < b->heads_kv * b->length[1][sequence]; i++) {
            const int64_t key = i % b->length[1][sequence], row = b->at[1][sequence] + key;
            const float special = key % 3 == 1 ? NAN : key % 2 != 0 ? INFINITY : -INFINITY;
            unsigned char *const at = bytes + (size_t)((i / b->length[1][sequence] * b->rows[1] + row) * b->dim) * element(b);
            dtype_store_row(dtype, at + (size_t)(key % b->dim) * element(b), &special, 1);
        }
    return put(b, bytes, (size_t)count_of(b, t) * element(b));
}

static struct glint_problem problem_of(const struct batch *b, const struct shape *shape)
{
    const struct glint_strides q = {b->bound[0] * b->dim, b->rows[0] * b->dim, b->dim},
                               k = {b->bound[1] * b->dim, b->rows[1] * b->dim, b->dim};
    struct glint_problem p;
    glint_problem_bhsd(&p, (enum glint_dtype)b->subject->info.dtype, b->count, b->bound[0], b->bound[1], b->heads_q, b->heads_kv,
                       b->dim);
    p.q = p.o = p.dout = p.dq = q;
    p.k = p.v = p.dk = p.dv = k;
    p.mask = shape->mask;
    p.window_left = shape->window_left;
    p.window_right = shape->window_right;
    p.diagonal = shape->diagonal;
    p.softcap = shape->softcap;
    p.softmax_scale = shape->softmax_scale != 0 ? shape->softmax_scale : p.softmax_scale;
    p.sinks = shape->sinks;
    p.intervals = shape->intervals != NO_INTERVALS;
    p.tree = shape->tree != NO_TREE;
    p.alibi = shape->alibi != NO_ALIBI;
    p.max_logit = shape->max_logit;
    if (shape->bias != NO_BIAS) { /* each sequence has one of its own */
        p.bias_dtype = GLINT_F32;
        p.bias = (struct glint_bias_strides){b->heads_q * b->bound[0] * b->bound[1], b->bound[0] * b->bound[1], b->bound[1], 1};
        p.dbias = shape->dbias;
    }
    return p;
}

static void call(const struct batch *b, const struct glint_problem *p, struct glint_tensors *t)
{
    const struct backend *backend = b->subject->backend;
    const enum glint_pass pass = (enum glint_pass)b->subject->info.pass;
    const struct glint_plan plan = experiment_plan(b->subject, p, pass, b->subject->variant, LANES_SERIAL);
    void *const workspace = check_device_memory(backend, plan.workspace_bytes + 1, GLINT_WORKSPACE_ALIGNMENT, FENCE_NONE);
    const enum glint_status status =
        (pass == GLINT_FORWARD ? backend->forward : backend->backward)(&plan, t, workspace, plan.workspace_bytes, backend->stream);
    const char *const trouble = backend->finish();
    if (status != GLINT_OK || trouble != NULL)
        check_fail("the call of %s: %s %s", kind_names[b->kind], backend->status_name(status), trouble != NULL ? trouble : "");
}

/* Does some query of sequence i see a key of the page from `key` on? */
static bool reaches(const struct batch *b, const struct glint_problem *p, int64_t i, int64_t key)
{
    struct ref_shape own = {.seqlen_q = b->length[0][i], .seqlen_k = b->length[1][i]};
    ref_mask(&own, (enum glint_mask)p->mask, p->window_left, p->window_right, p->diagonal);
    if (p->intervals != 0) {
        own.begin = b->host[0] + b->at[0][i];
        own.end = b->host[1] + b->at[0][i];
    }
    own.tree_words = (b->bound[0] + 31) / 32;
    own.tree = p->tree != 0 ? b->tree_host + b->at[0][i] * own.tree_words : NULL;
    for (int64_t row = 0; row < own.seqlen_q; row++)
        for (int64_t j = key; j < key + PAGE_ROWS; j++)
            if (ref_sees(&own, row, j))
                return true;
    return false;
}

/* K and V in pages, each of which is in another place; what no query sees is in none. */
static void put_pages(struct batch *b, struct glint_problem *p)
{
    const struct backend *backend = b->subject->backend;
    const size_t row = (size_t)b->dim * element(b);
    p->page_rows = PAGE_ROWS;
    p->pages_per_sequence = (b->bound[1] + PAGE_ROWS - 1) / PAGE_ROWS;
    p->pages = b->count * p->pages_per_sequence;
    p->k = p->v = (struct glint_strides){b->heads_kv * PAGE_ROWS * b->dim, PAGE_ROWS * b->dim, b->dim};
    int32_t *const table = check_memory((size_t)p->pages * sizeof *table);
    for (int v = 0; v < 2; v++) {
        unsigned char *const linear = check_memory(bytes_of(b, K)), *const pool =
                                                                        check_memory((size_t)(p->pages * p->k.batch) * element(b));
        backend->copy_out(linear, b->tensor[v ? V : K], bytes_of(b, K) - 1);
        memset(pool, 0xff, (size_t)(p->pages * p->k.batch) * element(b));
        for (int64_t at = 0; at < p->pages; at++) {
            const int64_t i = at / p->pages_per_sequence, key = at % p->pages_per_sequence * PAGE_ROWS, page = p->pages - 1 - at;
            const bool reached = reaches(b, p, i, key);
            table[at] = reached && (i != b->spoilt || key < b->bound[1] / 2) ? (int32_t)page : at % 2 ? -1 : INT32_MAX;
            for (int64_t r = key; r < key + PAGE_ROWS && r < b->length[1][i] && table[at] == page; r++)
                for (int64_t h = 0; h < b->heads_kv; h++)
                    memcpy(pool + (size_t)(page * p->k.batch + h * p->k.head + (r - key) * p->k.row) * element(b),
                           linear + (size_t)(h * b->rows[1] + b->at[1][i] + r) * row, row);
        }
        b->pool[v] = put(b, pool, (size_t)(p->pages * p->k.batch) * element(b));
    }
    b->table = put(b, table, (size_t)p->pages * sizeof *table);
}

static void run_batch(struct batch *b, const struct shape *shape)
{
    const struct backend *backend = b->subject->backend;
    struct glint_problem p = problem_of(b, shape);
    struct glint_tensors t = GLINT_TENSORS_INIT;
    const bool ragged = is_ragged(b->kind), paged = b->kind >= PADDED_PAGES;
    for (enum tensor x = Q; x < TENSORS; x++)
        tensor_set(&t, x, b->tensor[x]);
    t.key_begin = p.intervals != 0 ? b->begin : NULL;
    t.key_end = p.intervals != 0 ? b->end : NULL;
    t.tree_bits = b->tree;
    t.alibi_slopes = b->slopes;
    t.bias = b->bias;
    t.dbias = b->dbias;
    t.sinks = b->sinks;
    t.dsinks = b->dsinks;
    t.dlse = b->dlse;
    t.max_logit = b->logit;
    if (b->kind != GIVEN) {
        p.lengths = ragged ? GLINT_LENGTHS_RAGGED : GLINT_LENGTHS_DEVICE;
        t.seqlens_q = b->lengths[0];
        t.seqlens_k = b->lengths[1];
        t.fault = b->fault;
    }
    if (ragged) {
        p.rows_q = b->rows[0];
        p.rows_k = paged ? 0 : b->rows[1];
        t.first_q = b->first[0];
        t.first_k = paged ? NULL : b->first[1];
    }
    if (paged) {
        put_pages(b, &p);
        t.k = b->pool[0];
        t.v = b->pool[1];
        t.page_table = b->table;
    }
    call(b, &p, &t);
    uint32_t word;
    backend->copy_out(&word, b->fault, sizeof word);
    const uint32_t expected = b->spoilt >= 0 ? (uint32_t)b->spoilt : b->count > WRONG ? WRONG : GLINT_NO_FAULT;
    if (!check_within("intervals: fault", word == expected ? 0 : 1, 0))
        check_fail("%s: the word for a fault says sequence %u, and should say %u", kind_names[b->kind], word, expected);
}

/* Place of LSE of a row in the batch. */
static int64_t lse_at(const struct batch *b, int64_t i, int64_t h, int64_t row)
{
    return is_ragged(b->kind) ? h * b->rows[0] + b->at[0][i] + row : (i * b->heads_q + h) * b->bound[0] + row;
}

/* dBias of sequence i, and zeros beyond its lengths. */
static void compare_dbias(const struct batch *b, const struct glint_problem *p, int64_t i)
{
    const struct backend *backend = b->subject->backend;
    if (b->dbias == NULL)
        return;
    const size_t bytes = (size_t)p->bias.batch * sizeof(float);
    float *const got = check_memory(bytes), *const alone = check_memory(bytes);
    backend->copy_out(got, b->dbias + i * p->bias.batch, bytes);
    backend->copy_out(alone, b->dbias_alone, bytes);
    for (int64_t pair = 0; pair < p->bias.batch; pair++) {
        const bool inside = pair / b->bound[1] % b->bound[0] < p->seqlen_q && pair % b->bound[1] < p->seqlen_k;
        const float want = inside ? alone[pair] : 0;
        if (!check_within("intervals", memcmp(&got[pair], &want, sizeof want) == 0 ? 0 : 1, 0))
            check_fail("%s: dBias[head %lld, query %lld, key %lld] of sequence %lld is %.9g, and alone %.9g", kind_names[b->kind],
                       (long long)(pair / b->bound[1] / b->bound[0]), (long long)(pair / b->bound[1] % b->bound[0]),
                       (long long)(pair % b->bound[1]), (long long)i, (double)got[pair], (double)want);
    }
}

/* The tree of a sequence alone, whose rows have as many words as its own length takes; NULL: there is none. */
static const uint32_t *tree_alone(const struct batch *b, int64_t i)
{
    const int64_t rows = b->length[0][i], words = (rows + 31) / 32, bound = (b->bound[0] + 31) / 32;
    if (b->tree == NULL)
        return NULL;
    uint32_t *const own = check_memory((size_t)(rows * words + 1) * sizeof *own);
    for (int64_t row = 0; row < rows; row++)
        memcpy(own + row * words, b->tree_host + (b->at[0][i] + row) * bound, (size_t)words * sizeof *own);
    return put(b, own, (size_t)(rows * words) * sizeof *own);
}

/* most: the largest logits of the sequences before, each alone, or NULL. */
static void compare_alone(struct batch *b, const struct shape *shape, int64_t i, float *most)
{
    const struct backend *backend = b->subject->backend;
    const enum glint_pass pass = (enum glint_pass)b->subject->info.pass;
    struct glint_problem p = problem_of(b, shape);
    struct glint_tensors t = GLINT_TENSORS_INIT;
    const int64_t rows = b->length[0][i];
    p.batch = 1;
    p.seqlen_q = rows;
    p.seqlen_k = b->length[1][i];
    for (enum tensor x = Q; x < TENSORS; x++) {
        const int64_t at = b->at[of_keys(x)][i];
        unsigned char *const base = pass_writes(pass, x) ? b->alone[x] : b->tensor[x];
        tensor_set(&t, x, base == NULL ? NULL : base + (size_t)(at * b->dim) * element(b));
    }
    float *const lse = check_memory((size_t)(b->heads_q * rows + 1) * sizeof *lse);
    for (int64_t h = 0; h < b->heads_q; h++)
        for (int64_t row = 0; row < rows; row++)
            lse[h * rows + row] = b->lse_host[lse_at(b, i, h, row)];
    backend->copy_in(b->lse_alone, lse, (size_t)(b->heads_q * rows) * sizeof *lse);
    t.lse = b->lse_alone;
    t.dlse = b->dlse != NULL ? b->lse_alone : NULL; /* any numbers */
    t.sinks = b->sinks;
    t.dsinks = b->dsinks;
    t.key_begin = p.intervals != 0 ? b->begin + b->at[0][i] : NULL;
    t.key_end = p.intervals != 0 ? b->end + b->at[0][i] : NULL;
    t.tree_bits = tree_alone(b, i);
    t.alibi_slopes = b->slopes;
    t.bias = b->bias != NULL ? b->bias + i * p.bias.batch : NULL;
    t.dbias = b->dbias_alone;
    float *const logit = most != NULL ? check_device_memory(backend, (size_t)b->heads_q * sizeof *logit, 256, FENCE_NONE) : NULL;
    t.max_logit = logit;
    call(b, &p, &t);
    compare_dbias(b, &p, i);
    float *const own = check_memory((size_t)b->heads_q * sizeof *own);
    if (most != NULL)
        backend->copy_out(own, logit, (size_t)b->heads_q * sizeof *own);
    for (int64_t h = 0; h < b->heads_q && most != NULL; h++)
        most[h] = own[h] > most[h] ? own[h] : most[h];
    for (const enum tensor *x = pass_outputs(pass); *x != TENSORS; x++) {
        const bool keys = of_keys(*x);
        unsigned char *const got = check_memory(bytes_of(b, *x)), *const want = check_memory(bytes_of(b, *x));
        backend->copy_out(got, b->tensor[*x], bytes_of(b, *x) - 1);
        backend->copy_out(want, *x == LSE ? (void *)b->lse_alone : b->alone[*x], bytes_of(b, *x) - 1);
        for (int64_t h = 0; h < (keys ? b->heads_kv : b->heads_q); h++)
            for (int64_t row = 0; row < b->length[keys][i]; row++) {
                const size_t unit = *x == LSE ? sizeof(float) : (size_t)b->dim * element(b);
                const int64_t in_batch = *x == LSE ? lse_at(b, i, h, row) : h * b->rows[keys] + b->at[keys][i] + row;
                const int64_t in_own = *x == LSE ? h * rows + row : in_batch;
                if (!check_within("intervals",
                                  memcmp(got + (size_t)in_batch * unit, want + (size_t)in_own * unit, unit) == 0 ? 0 : 1, 0))
                    check_fail("%s: %s[head %lld, row %lld] of sequence %lld is not what it is alone", kind_names[b->kind],
                               tensor_name[*x], (long long)h, (long long)row, (long long)i);
            }
    }
}

enum { SPOILT = 16, ENDS = 32 };

/* shape->detail: the kind, and with SPOILT whether a sequence has pages outside of the pool. With ENDS there are two
 * sequences, of which the last one has both bounds. */
static void sequences(struct subject *subject, const struct shape *shape)
{
    const struct backend *backend = subject->backend;
    const enum glint_pass pass = (enum glint_pass)subject->info.pass;
    struct batch b = {.subject = subject,
                      .kind = (enum kind)(shape->detail % SPOILT),
                      .heads_q = 4,
                      .heads_kv = 2,
                      .dim = subject->info.head_dim,
                      .ends = (shape->detail & ENDS) != 0,
                      .grown = (int64_t)shape->seed,
                      .spoilt = (shape->detail & SPOILT) != 0 ? 0 : -1};
    if (b.ends && subject->info.queries_up_to > 0) /* neighbouring rows are of different queries */
        b.heads_q = 3, b.heads_kv = 1;
    /* the last one has all queries, behind which is nothing */
    const int64_t some[2][FEW] = {{shape->seqlen_q, 3, shape->seqlen_q - 7, 0, 5, 0, shape->seqlen_q},
                                  {shape->seqlen_k, shape->seqlen_k - 3, 17, 5, 0, 0, 17}};
    b.bound[0] = shape->seqlen_q;
    b.bound[1] = shape->seqlen_k;
    b.rows[0] = is_ragged(b.kind) ? 2 : 0;
    b.rows[1] = is_ragged(b.kind) ? 1 : 0;
    /* dBias is as large as all bounds together */
    b.count = b.ends ? 2 : b.kind == GIVEN ? SOME : is_ragged(b.kind) && !shape->dbias ? MANY : FEW;
    int32_t first[2][MANY + 1], lengths[2][MANY];
    for (int64_t i = 0; i < b.count; i++)
        for (int keys = 0; keys < 2; keys++) {
            b.length[keys][i] = b.ends            ? (i == 1 ? b.bound[keys]
                                                     : keys ? b.bound[1] - 15
                                                            : 3)
                                : b.kind == GIVEN ? b.bound[keys]
                                : i < FEW         ? some[keys][i]
                                : keys            ? 5 * i % 7
                                                  : i % 3;
            b.at[keys][i] = b.rows[keys];
            first[keys][i] = (int32_t)b.rows[keys];
            lengths[keys][i] = (int32_t)b.length[keys][i] - (i == WRONG && keys == (int)b.kind % 2 ? 9 : 0);
            b.rows[keys] += is_ragged(b.kind) ? b.length[keys][i] : b.bound[keys];
            first[keys][i + 1] = (int32_t)b.rows[keys];
        }
    for (int keys = 0; keys < 2; keys++) {
        b.first[keys] = put(&b, first[keys], sizeof first[keys]);
        b.lengths[keys] = put(&b, lengths[keys], sizeof lengths[keys]);
        b.host[keys] = check_memory((size_t)b.rows[0] * sizeof(int32_t));
    }
    struct rand r = rand_stream(shape->seed, 104);
    for (int64_t i = 0; i < b.rows[0]; i++) { /* most keys in the middle are seen by few: in pages some are by nobody */
        const int64_t a = rand_below(&r, b.bound[1] / 3), length = rand_below(&r, 40), row = i - b.at[0][0];
        const bool any = rand_below(&r, 2) != 0, wide = rand_below(&r, 9) == 0;
        /* of the first sequence each warpgroup has the early keys or the late ones */
        const bool parted = b.spoilt < 0 && row >= 0 && row < b.length[0][0];
        const bool late = parted ? row / 64 % 2 == b.kind % 2 : any;
        b.host[0][i] = wide && !(parted && late) ? INT32_MIN : (int32_t)(late ? b.bound[1] - a : a);
        b.host[1][i] = (int32_t)(late && rand_below(&r, 3) == 0 ? INT32_MAX : (late ? b.bound[1] - a : a) + length);
    }
    b.begin = put(&b, b.host[0], (size_t)b.rows[0] * sizeof(int32_t));
    b.end = put(&b, b.host[1], (size_t)b.rows[0] * sizeof(int32_t));
    if (shape->tree != NO_TREE) { /* guesses of each sequence, some of which nobody sees, and bits at random beyond */
        const int64_t words = (b.bound[0] + 31) / 32;
        struct rand of_tree = rand_stream(shape->seed, 108);
        b.tree_host = check_memory((size_t)(b.rows[0] * words + 1) * sizeof *b.tree_host);
        for (int64_t row = 0; row < b.rows[0] * words; row++)
            b.tree_host[row] = (uint32_t)rand_below(&of_tree, INT64_C(1) << 32);
        for (int64_t i = 0; i < b.count; i++) {
            uint32_t *const rows = b.tree_host + b.at[0][i] * words;
            for (int64_t row = 0; row < b.length[0][i]; row++) {
                experiment_tree_row(rows + row * words, row, i == 2 ? TREE_OF_ANY : TREE_OF_GUESSES, rows, words, &of_tree);
                for (int64_t slot = 4; slot < 36 && i == 0; slot++)
                    rows[row * words + slot / 32] &= ~(UINT32_C(1) << slot % 32);
            }
        }
        b.tree = put(&b, b.tree_host, (size_t)(b.rows[0] * words) * sizeof *b.tree_host);
    }
    const uint32_t none = GLINT_NO_FAULT;
    b.fault = put(&b, &none, sizeof none);
    for (enum tensor t = Q; t < TENSORS; t++) {
        if (!pass_uses(pass, t))
            continue;
        b.tensor[t] = t != LSE && pass_reads(pass, t) ? put_normal(&b, t, shape)
                                                      : check_device_memory(backend, bytes_of(&b, t), 256, FENCE_NONE);
        b.alone[t] = pass_writes(pass, t) ? check_device_memory(backend, bytes_of(&b, t), 256, FENCE_NONE) : NULL;
    }
    b.lse_alone = check_device_memory(backend, bytes_of(&b, LSE), 256, FENCE_NONE);
    b.lse_host = check_memory(bytes_of(&b, LSE));
    for (int64_t i = 0; i < count_of(&b, LSE); i++)
        b.lse_host[i] = 3 + (float)(i % 5) / 4;
    backend->copy_in(b.tensor[LSE], b.lse_host, bytes_of(&b, LSE) - 1);
    if (shape->sinks) {
        const float sinks[4] = {0.5f, -1, 2, -INFINITY};
        b.sinks = put(&b, sinks, sizeof sinks);
        b.dsinks = pass == GLINT_BACKWARD ? put(&b, sinks, sizeof sinks) : NULL;
    }
    if (shape->alibi != NO_ALIBI) {
        float slopes[4];
        for (int h = 0; h < 4; h++)
            slopes[h] = experiment_slope(shape, h);
        b.slopes = put(&b, slopes, sizeof slopes);
    }
    if (shape->bias != NO_BIAS) {
        const int64_t one = b.heads_q * b.bound[0] * b.bound[1];
        struct rand of_bias = rand_stream(shape->seed, 105);
        float *const bias = check_memory((size_t)(b.count * one) * sizeof *bias);
        for (int64_t pair = 0; pair < b.count * one; pair++)
            bias[pair] = rand_normal(&of_bias);
        b.bias = put(&b, bias, (size_t)(b.count * one) * sizeof *bias);
        b.dbias = shape->dbias ? put(&b, bias, (size_t)(b.count * one) * sizeof *bias) : NULL;
        b.dbias_alone = shape->dbias ? put(&b, bias, (size_t)one * sizeof *bias) : NULL;
    }
    b.dlse = pass == GLINT_BACKWARD ? b.tensor[LSE] : NULL;
    float most[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, logit[4];
    b.logit = shape->max_logit ? put(&b, most, sizeof most) : NULL;
    run_batch(&b, shape);
    for (int64_t i = 0; i < b.count && b.spoilt < 0; i++)
        compare_alone(&b, shape, i, b.logit != NULL ? most : NULL);
    if (b.logit != NULL)
        backend->copy_out(logit, b.logit, sizeof logit);
    for (int h = 0; h < 4 && b.logit != NULL && b.spoilt < 0; h++)
        if (!check_within("intervals: largest logit", memcmp(&logit[h], &most[h], sizeof most[h]) == 0 ? 0 : 1, 0))
            check_fail("%s: the largest logit of head %d is %.9g, and of the sequences alone %.9g", kind_names[b.kind], h,
                       (double)logit[h], (double)most[h]);
    check_device_release_all();
}

/* The last sequence ends before each sixteenth row of a tile, where the tensors end. The first one ends behind such a
 * row. */
static void each_end(struct subject *subject, const struct shape *shape)
{
    const int64_t m = (int64_t)subject->info.tile_m, n = (int64_t)subject->info.tile_n;
    const bool decode = subject->info.queries_up_to > 0;
    for (int64_t turn = 0; 16 * turn < n || 16 * turn < m || turn < 4; turn++) {
        struct shape s = *shape;
        s.seqlen_q = decode ? 8 - turn / 2 % 2 : 31 + 16 * turn % m;
        s.seqlen_k = 15 + 16 * turn % n + (turn < 4 ? (3 + s.seqlen_q / n) * n : turn % 2 * n);
        s.seed = (uint64_t)(decode ? turn % 2 : turn);
        s.softcap = subject_caps(subject) && turn < 4 ? 0x1p50f : s.softcap;
        sequences(subject, &s);
    }
}

/* Whether the row takes sequences that lie so. */
static bool takes(struct subject *subject, enum kind kind)
{
    struct glint_problem p = subject_problem(subject);
    p.lengths = is_ragged(kind) ? GLINT_LENGTHS_RAGGED : kind == GIVEN ? GLINT_LENGTHS_HOST : GLINT_LENGTHS_DEVICE;
    p.page_rows = kind >= PADDED_PAGES ? PAGE_ROWS : 0;
    p.pages = p.pages_per_sequence = kind >= PADDED_PAGES;
    p.rows_q = is_ragged(kind);
    p.rows_k = is_ragged(kind) && kind < PADDED_PAGES;
    return subject_plans(subject, &p);
}

/* Some tiles of keys. Small tiles are so many that a warpgroup passes over several, whose keys another one has. */
static int64_t keys_of(int64_t tile_n)
{
    return (tile_n <= 32 ? 10 : 2) * tile_n + 29;
}

void intervals_checks(struct check_list *list, struct subject *subject)
{
    const bool decode = subject->info.queries_up_to > 0;
    const int64_t m = subject->info.tile_m, n = subject->info.tile_n;
    const bool intervals = subject_intervals(subject), right = (subject->info.features & GLINT_FEATURE_RIGHT_BOUND) != 0;
    const bool left = (subject->info.features & GLINT_FEATURE_LEFT_BOUND) != 0;
    if ((!intervals && !subject_alibi(subject) && !subject_bias(subject)) || subject->info.kv_dtype != 0)
        return;
    const bool logits = subject_takes_logit(subject);
    for (int kind = GIVEN; kind < (subject->info.pass == GLINT_FORWARD ? KINDS : PADDED_PAGES); kind++) {
        struct shape s = {.batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = decode ? 11 : m + 19, .seqlen_k = keys_of(n)};
        if (!takes(subject, (enum kind)kind))
            continue;
        s.intervals = intervals ? OWN_INTERVALS : NO_INTERVALS;
        s.alibi = subject_alibi(subject) ? SLOPES : NO_ALIBI;
        s.bias = subject_bias(subject) ? BIAS : NO_BIAS;
        s.dbias = subject_bias(subject) && subject->info.pass == GLINT_BACKWARD;
        s.detail = kind;
        const bool band = left && (kind % 2 != 0 || !intervals);
        s.mask = band ? GLINT_MASK_BAND_BOTTOM_RIGHT : right && !intervals ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
        s.window_left = band ? s.seqlen_k * 2 / 3 : 0;
        s.window_right = band ? 5 : 0;
        s.sinks = kind != GIVEN;
        s.softcap = kind % 2 != 0 && subject_caps(subject) ? 1.0f : 0.0f;
        s.softmax_scale = kind == GIVEN || kind == RAGGED ? 0 : -0.3f;
        s.max_logit = logits;
        checks_add(list, sequences, &s, "%s/%s",
                   intervals               ? "intervals"
                   : subject_bias(subject) ? "bias"
                                           : "alibi",
                   kind_names[kind]);
        if (s.alibi == SLOPES && right && !intervals) { /* where positions are not counted from the last key on */
            s.mask = band ? GLINT_MASK_BAND_TOP_LEFT : GLINT_MASK_CAUSAL_TOP_LEFT;
            checks_add(list, sequences, &s, "alibi/%s_top_left", kind_names[kind]);
        }
    }
}

void bad_pages_checks(struct check_list *list, struct subject *subject)
{
    const int64_t m = subject->info.tile_m, n = subject->info.tile_n;
    const bool decode = subject->info.queries_up_to > 0;
    if (!subject_intervals(subject) || subject->info.kv_dtype != 0 || subject->info.pass != GLINT_FORWARD)
        return;
    for (int kind = PADDED_PAGES; kind <= RAGGED_PAGES; kind++) {
        struct shape s = {.batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = decode ? 11 : m + 19, .seqlen_k = keys_of(n)};
        s.intervals = OWN_INTERVALS;
        s.detail = kind + SPOILT;
        s.mask = GLINT_MASK_NONE;
        if (takes(subject, (enum kind)kind))
            checks_add(list, sequences, &s, "intervals/bad_%s", kind_names[kind]);
    }
}

/* Trees: half of them beside intervals; windows reach back along paths. */
void tree_sequences_checks(struct check_list *list, struct subject *subject)
{
    const int64_t m = subject->info.tile_m, n = subject->info.tile_n;
    for (int kind = GIVEN; kind < KINDS && subject->info.kv_dtype == 0; kind++)
        for (int spoilt = 0; spoilt < (kind >= PADDED_PAGES ? 2 : 1); spoilt++) {
            struct shape s = {.batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = subject->info.queries_up_to > 0 ? 41 : m + 19};
            s.seqlen_k = keys_of(n);
            s.intervals = kind % 2 != 0 && spoilt == 0 ? OWN_INTERVALS : NO_INTERVALS;
            s.tree = OWN_TREE;
            s.bias = subject_bias(subject) ? BIAS : NO_BIAS;
            s.mask = spoilt != 0 ? GLINT_MASK_NONE : GLINT_MASK_BAND_BOTTOM_RIGHT;
            s.window_left = spoilt != 0 ? 0 : kind == GIVEN ? n + n / 2 : 3;
            s.sinks = kind != GIVEN;
            s.softcap = kind % 2 != 0 && subject_caps(subject) ? 1.0f : 0.0f;
            s.max_logit = subject_takes_logit(subject);
            s.detail = kind + (spoilt != 0 ? SPOILT : 0);
            if (takes(subject, (enum kind)kind))
                checks_add(list, sequences, &s, "tree/%s%s", spoilt != 0 ? "bad_" : "", kind_names[kind]);
        }
}

/* each_end for rows that read intervals or trees; ragged.c has it for all rows. */
void intervals_ends_checks(struct check_list *list, struct subject *subject)
{
    const int64_t n = (int64_t)subject->info.tile_n;
    const bool tree = subject_tree(subject), forward = subject->info.pass == GLINT_FORWARD;
    if ((!subject_intervals(subject) && !tree) || subject->info.kv_dtype != 0 || subject->info.sm == 0)
        return;
    for (int kind = PADDED; kind < (forward ? KINDS : PADDED_PAGES); kind++) {
        struct shape s = {.batch = 1, .heads_q = 4, .heads_kv = 2};
        s.intervals = subject_intervals(subject) ? OWN_INTERVALS : NO_INTERVALS;
        s.tree = tree ? OWN_TREE : NO_TREE;
        s.bias = subject_bias(subject) ? BIAS : NO_BIAS;
        s.dbias = subject_bias(subject) && !forward;
        s.mask = tree ? GLINT_MASK_BAND_BOTTOM_RIGHT : GLINT_MASK_NONE;
        s.window_left = tree ? n : 0;
        s.diagonal = tree ? -2 : 0; /* so that a band ends before a query's own slot */
        s.softcap = subject_caps(subject) ? 1.0f : 0.0f;
        s.detail = kind + ENDS;
        if (!takes(subject, (enum kind)kind))
            continue;
        checks_add(list, each_end, &s, "%s/%s_each_end", tree ? "tree" : "intervals", kind_names[kind]);
        if (!tree || kind < PADDED_PAGES)
            continue;
        s.detail = kind + SPOILT; /* windows of some tiles: a page that a later tile has is outside of the pool */
        s.intervals = NO_INTERVALS;
        s.diagonal = 0;
        s.window_left = 5 * n;
        s.seqlen_q = subject->info.queries_up_to > 0 ? 41 : (int64_t)subject->info.tile_m + 19;
        s.seqlen_k = 8 * n + 29;
        checks_add(list, sequences, &s, "tree/bad_%s_of_windows", kind_names[kind]);
    }
}
