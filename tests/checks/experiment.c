#include "tests/checks/experiment.h"

#include <math.h>
#include <string.h>

#include "tests/oracle/half.h"
#include "tests/support/rand.h"

/* ---- extents ---- */

static bool by_query(enum tensor t)
{
    return t == Q || t == O || t == LSE || t == DOUT || t == DQ;
}

static bool is_cache(const struct experiment *e, enum tensor t)
{
    return (t == K || t == V) && e->cache[t - K].bits != NULL;
}

int64_t tensor_heads(const struct experiment *e, enum tensor t)
{
    return by_query(t) ? e->shape.heads_q : e->shape.heads_kv;
}

int64_t tensor_rows(const struct experiment *e, enum tensor t)
{
    return by_query(t) ? e->shape.seqlen_q : e->shape.seqlen_k;
}

int64_t tensor_dim(const struct experiment *e, enum tensor t)
{
    return t == LSE ? 1 : e->ref.head_dim;
}

int64_t tensor_count(const struct experiment *e, enum tensor t)
{
    return e->shape.batch * tensor_heads(e, t) * tensor_rows(e, t) * tensor_dim(e, t);
}

enum glint_dtype tensor_dtype(const struct experiment *e, enum tensor t)
{
    return t == LSE ? GLINT_F32 : is_cache(e, t) ? (enum glint_dtype)e->problem.kv_dtype : e->dtype;
}

float *tensor_row(const struct experiment *e, float *dense, enum tensor t, int64_t b, int64_t h, int64_t row)
{
    return dense + ((b * tensor_heads(e, t) + h) * tensor_rows(e, t) + row) * tensor_dim(e, t);
}

/* ---- layouts ---- */

static struct glint_strides strides_of(enum layout layout, int64_t batch, int64_t heads, int64_t rows, int64_t dim, int64_t pad)
{
    switch (layout) {
    case LAYOUT_BSHD: return (struct glint_strides){rows * heads * dim, dim, heads * dim};
    case LAYOUT_SBHD: return (struct glint_strides){heads * dim, dim, batch * heads * dim};
    case LAYOUT_PADDED: {
        const int64_t row = dim + pad, head = rows * row + 3 * pad;
        return (struct glint_strides){heads * head + 5 * pad, head, row};
    }
    default: return (struct glint_strides){heads * rows * dim, rows * dim, dim};
    }
}

/* Tensors that differ in layout, to find a kernel that uses the strides of one for another. */
static enum layout mixed(enum tensor t)
{
    static const enum layout layout[TENSORS] = {LAYOUT_BSHD,   LAYOUT_BHSD, LAYOUT_PADDED, LAYOUT_SBHD, LAYOUT_BHSD,
                                                LAYOUT_PADDED, LAYOUT_BHSD, LAYOUT_PADDED, LAYOUT_SBHD};
    return layout[t];
}

static void fuse(struct experiment *e, enum tensor first)
{
    const struct shape *s = &e->shape;
    const int64_t dim = e->ref.head_dim, row = (s->heads_q + 2 * s->heads_kv) * dim;
    int64_t offset = 0;
    for (enum tensor t = first; t < first + 3; t++) {
        e->view[t] = (struct view){(int)first, offset, {s->seqlen_q * row, dim, row}};
        offset += tensor_heads(e, t) * dim;
    }
}

static void share_inputs(struct experiment *e)
{
    if (e->shape.layout == LAYOUT_BROADCAST) {
        e->view[Q].strides.batch = 0;
        e->view[K].strides.batch = 0;
        e->view[V].strides.head = 0;
        e->view[DOUT].strides.head = 0;
    }
    if (e->shape.layout == LAYOUT_ONE_ROW) {
        e->view[Q].strides.row = 0;
        e->view[K].strides.row = 0;
        e->view[DOUT].strides.row = 0;
    }
}

static void lay_out(struct experiment *e)
{
    const struct shape *s = &e->shape;
    const int64_t smallest = e->subject->info.kv_dtype != 0 ? 1 : (int64_t)dtype_bytes(e->dtype); /* element */
    const int64_t alignment = (int64_t)e->subject->info.alignment_bytes / smallest;
    const int64_t pad = alignment > 8 ? alignment : 8;

    for (enum tensor t = Q; t < TENSORS; t++) {
        const enum layout layout = s->layout == LAYOUT_MIXED ? mixed(t) : s->layout;
        e->view[t] =
            (struct view){(int)t, 0, strides_of(layout, s->batch, tensor_heads(e, t), tensor_rows(e, t), tensor_dim(e, t), pad)};
    }
    e->view[LSE].strides = strides_of(LAYOUT_BHSD, s->batch, s->heads_q, s->seqlen_q, 1, 0);
    if (s->layout == LAYOUT_FUSED) {
        if (s->seqlen_q != s->seqlen_k)
            check_fail("a fused layout needs seqlen_q == seqlen_k");
        if (e->subject->info.kv_dtype == 0) /* elements of several sizes share no strides */
            fuse(e, Q);
        fuse(e, DQ);
    }
    share_inputs(e);

    for (enum tensor t = Q; t < TENSORS; t++) {
        const struct view *v = &e->view[t];
        const int64_t last = v->offset + (s->batch - 1) * v->strides.batch + (tensor_heads(e, t) - 1) * v->strides.head +
                             (tensor_rows(e, t) - 1) * v->strides.row + tensor_dim(e, t);
        if (tensor_count(e, t) > 0 && last > e->buffer_elements[v->buffer])
            e->buffer_elements[v->buffer] = last;
    }
}

static void fill_problem(struct experiment *e)
{
    const struct shape *s = &e->shape;
    e->problem = (struct glint_problem){
        .struct_size = sizeof e->problem,
        .dtype = e->dtype,
        .mask = s->mask,
        .softmax_scale = e->ref.softmax_scale,
        .batch = s->batch,
        .heads_q = s->heads_q,
        .heads_kv = s->heads_kv,
        .head_dim = e->ref.head_dim,
        .head_dim_v = e->ref.head_dim,
        .seqlen_q = s->seqlen_q,
        .seqlen_k = s->seqlen_k,
        .window_left = s->window_left,
        .window_right = s->window_right,
        .diagonal = s->diagonal,
        .softcap = s->softcap,
        .sinks = s->sinks,
        .q = e->view[Q].strides,
        .k = e->view[K].strides,
        .v = e->view[V].strides,
        .o = e->view[O].strides,
        .dout = e->view[DOUT].strides,
        .dq = e->view[DQ].strides,
        .dk = e->view[DK].strides,
        .dv = e->view[DV].strides,
    };
}

/* ---- ALiBi ---- */

float experiment_slope(const struct shape *shape, int64_t head)
{
    /* of the widest distance, so that the weights of no row are below the smallest number; or steep, beside near keys */
    static const float at_most[] = {10, 2, -5, 40, 0.5f};
    const float over = shape->seqlen_k > 5000 ? 80 : (float)(shape->seqlen_q + shape->seqlen_k + 1);
    return shape->alibi == SLOPES || shape->bias == ALIBI_AS_BIAS ? at_most[(shape->seed + (uint64_t)head) % 5] / over : 0;
}

static void make_slopes(struct experiment *e)
{
    e->problem.alibi = e->shape.alibi != NO_ALIBI;
    if (e->shape.alibi == NO_ALIBI)
        return;
    e->ref.slopes = e->slopes = check_memory((size_t)e->shape.heads_q * sizeof(float));
    for (int64_t h = 0; h < e->shape.heads_q; h++)
        e->slopes[h] = experiment_slope(&e->shape, h);
}

/* ---- a bias ---- */

int64_t pair_count(const struct experiment *e)
{
    return e->shape.batch * e->shape.heads_q * e->shape.seqlen_q * e->shape.seqlen_k;
}

int64_t pair_of_bias(const struct experiment *e, int64_t pair)
{
    const struct shape *s = &e->shape;
    const int64_t j = pair % s->seqlen_k, i = pair / s->seqlen_k % s->seqlen_q;
    const int64_t h = pair / s->seqlen_k / s->seqlen_q % s->heads_q, b = pair / s->seqlen_k / s->seqlen_q / s->heads_q;
    const unsigned shared = s->bias_shared;
    const int64_t bh = (shared & SHARED_BATCH ? 0 : b) * s->heads_q + (shared & SHARED_HEAD ? 0 : h);
    return (bh * s->seqlen_q + (shared & SHARED_QUERY ? 0 : i)) * s->seqlen_k + (shared & SHARED_KEY ? 0 : j);
}

void experiment_sum_pairs(const struct experiment *e, double *pairs)
{
    for (int64_t pair = 0; pair < pair_count(e); pair++)
        if (pair_of_bias(e, pair) != pair)
            pairs[pair_of_bias(e, pair)] += pairs[pair];
    for (int64_t pair = 0; pair < pair_count(e); pair++)
        pairs[pair] = pairs[pair_of_bias(e, pair)];
}

/* Where memory has the element of a pair. */
static int64_t place_of_bias(const struct experiment *e, int64_t pair)
{
    const struct shape *s = &e->shape;
    const struct glint_bias_strides *st = &e->problem.bias;
    return pair / s->seqlen_k / s->seqlen_q / s->heads_q * st->batch + pair / s->seqlen_k / s->seqlen_q % s->heads_q * st->head +
           pair / s->seqlen_k % s->seqlen_q * st->query + pair % s->seqlen_k * st->key;
}

/* Elements, with gaps between rows, heads and batches, from the first to the last. Gaps of 8 keep rows of whole eights
 * aligned. */
static int64_t lay_out_bias(struct experiment *e)
{
    const struct shape *s = &e->shape;
    struct glint_bias_strides *st = &e->problem.bias;
    const unsigned shared = s->bias_shared;
    const int64_t gap = shared & BIAS_OF_LINES ? 8 : 3, more = shared & BIAS_OF_LINES ? 0 : 2;
    int64_t next = 1;
    for (int turn = 0; turn < 2; turn++) {
        const bool keys = (turn == 0) != s->bias_turned;
        if (shared & (keys ? SHARED_KEY : SHARED_QUERY))
            continue;
        *(keys ? &st->key : &st->query) = next;
        next = next * (keys ? s->seqlen_k : s->seqlen_q) + gap;
    }
    if (!(shared & SHARED_HEAD)) {
        st->head = next;
        next = next * s->heads_q + gap + more;
    }
    if (!(shared & SHARED_BATCH))
        st->batch = next;
    return pair_count(e) > 0 ? place_of_bias(e, pair_count(e) - 1) + 1 : 0;
}

static void make_bias(struct experiment *e)
{
    const struct shape *s = &e->shape;
    if (s->bias == NO_BIAS)
        return;
    const enum glint_dtype dtype = s->bias_narrow ? e->dtype : GLINT_F32;
    struct rand r = rand_stream(s->seed, 104);
    e->problem.bias_dtype = dtype;
    e->problem.dbias = s->dbias;
    (void)lay_out_bias(e);
    e->bias = check_memory((size_t)pair_count(e) * sizeof(float));
    for (int64_t pair = 0; pair < pair_count(e); pair++) {
        const int64_t first = pair_of_bias(e, pair), i = pair / s->seqlen_k % s->seqlen_q, j = pair % s->seqlen_k;
        const double slope = (double)experiment_slope(s, pair / s->seqlen_k / s->seqlen_q % s->heads_q);
        if (first != pair)
            e->bias[pair] = e->bias[first];
        else if (s->bias == ALIBI_AS_BIAS)
            e->bias[pair] = (float)(-slope * fabs((double)(i + e->ref.offset - j)));
        else
            e->bias[pair] = s->bias == BIAS ? dtype_round(dtype, 2 * rand_normal(&r)) : 0;
    }
    e->ref.bias = e->bias;
}

/* ---- intervals ---- */

/* Begin and end of a query's interval that is not the mask's: some are empty, and some reach beyond the keys. */
static void own_interval(const struct shape *s, int64_t i, struct rand *r, int64_t bounds[2])
{
    const int64_t n = s->seqlen_k, at = i + n - s->seqlen_q, a = rand_below(r, n + 9) - 4, b = rand_below(r, n + 9) - 4;
    bounds[0] = 0;
    bounds[1] = INT32_MAX;
    switch (s->pattern) {
    case PATTERN_PREFIX: bounds[1] = at + 1 > n / 3 ? at + 1 : n / 3; break;
    case PATTERN_BLOCKS: bounds[1] = at < 0 ? 0 : at % 23 < 9 ? at - at % 23 + 9 : at + 1; break;
    case PATTERN_CHUNKS: bounds[0] = at < 0 ? 0 : at - at % 37, bounds[1] = at + 1; break;
    case PATTERN_PADDING: bounds[0] = n / 4; break;
    case PATTERN_APART:
    case PATTERN_FAR: { /* at either end of the keys, in the middle, nowhere; far: some that see all of the first keys see others */
        static const int64_t sixths[2][5][2] = {{{0, 1}, {1, 6}, {4, 5}, {1, 0}, {0, 1}}, {{0, 1}, {1, 6}, {0, 2}, {1, 0}, {0, 3}}};
        const int64_t *const own = sixths[s->pattern == PATTERN_FAR][i / s->detail % 5];
        bounds[0] = own[0] * n / 6, bounds[1] = own[1] * n / 6;
        break;
    }
    case PATTERN_MIDDLE: bounds[0] = n * 5 / 8 + i, bounds[1] = i % 5 == 3 ? 0 : n * 7 / 8 - i; break;
    default:
        bounds[0] = rand_below(r, 8) == 0 ? INT32_MIN : a < b || rand_below(r, 6) == 0 ? a : b;
        bounds[1] = rand_below(r, 8) == 0 ? INT32_MAX : rand_below(r, 12) == 0 ? INT32_MIN : a < b ? b : a;
    }
}

static void make_intervals(struct experiment *e)
{
    const struct shape *s = &e->shape;
    struct rand r = rand_stream(s->seed, 103);
    if (s->intervals == NO_INTERVALS)
        return;
    for (int side = 0; side < 2; side++)
        e->interval[side] = check_memory((size_t)(s->batch * s->seqlen_q + 1) * sizeof(int32_t));
    for (int64_t i = 0; i < s->seqlen_q; i++) {
        int64_t bounds[2] = {ref_first(&e->ref, i), ref_end(&e->ref, i)};
        if (s->intervals == WIDE_INTERVALS)
            bounds[0] = i % 3 == 0 ? INT32_MIN : -(i % 5), bounds[1] = i % 4 == 0 ? INT32_MAX : s->seqlen_k + i % 2;
        if (s->intervals == OWN_INTERVALS)
            own_interval(s, i, &r, bounds);
        for (int64_t b = 0; b < s->batch; b++)
            for (int side = 0; side < 2; side++)
                e->interval[side][b * s->seqlen_q + i] = (int32_t)bounds[side];
    }
    e->problem.intervals = 1;
    if (s->intervals == MASK_AS_INTERVALS) {
        e->problem.mask = GLINT_MASK_NONE;
        e->problem.window_left = e->problem.window_right = e->problem.diagonal = 0;
        e->ref.offset = s->seqlen_k - s->seqlen_q; /* the position of a query, too, is that of no mask */
    } else if (s->intervals == OWN_INTERVALS) {
        e->ref.begin = e->interval[0];
        e->ref.end = e->interval[1];
    }
}

/* ---- trees ---- */

/* The mask and the intervals as intervals alone, which a tree leaves as they are; in_bits: what they say of the new
 * keys is not said there. */
static void fold_mask(struct experiment *e, bool in_bits)
{
    const struct shape *s = &e->shape;
    const int64_t before = s->seqlen_k - s->seqlen_q;
    int32_t *bounds[2];
    for (int side = 0; side < 2; side++)
        bounds[side] = check_memory((size_t)(s->batch * s->seqlen_q + 1) * sizeof(int32_t));
    for (int64_t row = 0; row < s->batch * s->seqlen_q; row++) {
        const int64_t i = row % s->seqlen_q;
        int64_t first = ref_first(&e->ref, i), end = ref_end(&e->ref, i);
        if (in_bits && first < end) {
            first = first > before ? before : first;
            end = end > before ? INT32_MAX : end;
        }
        bounds[0][row] = (int32_t)first;
        bounds[1][row] = (int32_t)end;
    }
    for (int side = 0; side < 2; side++)
        e->interval[side] = bounds[side];
    e->problem.intervals = 1;
    e->problem.mask = GLINT_MASK_NONE;
    e->problem.window_left = e->problem.window_right = e->problem.diagonal = 0;
}

void experiment_tree_row(uint32_t *row, int64_t i, enum tree_kind kind, const uint32_t *rows, int64_t words, struct rand *r)
{
    const bool follows = i > 0 && rand_below(r, 9) > 0, none = rand_below(r, 7) == 0;
    const int64_t parent = i - 1 - (i > 0 ? rand_below(r, i < 5 ? i : 5) : 0);
    for (int64_t word = 0; word < words; word++) {
        const uint32_t any = (uint32_t)rand_below(r, INT64_C(1) << 32);
        if (kind == TREE_OF_ANY)
            row[word] = none ? 0 : any;
        else
            row[word] = (follows ? rows[parent * words + word] : 0) | (word == i / 32 ? UINT32_C(1) << i % 32 : 0);
    }
}

static void make_tree(struct experiment *e)
{
    const struct shape *s = &e->shape;
    const int64_t words = (s->seqlen_q + 31) / 32, before = s->seqlen_k - s->seqlen_q;
    struct rand r = rand_stream(s->seed, 107);
    if (s->tree == NO_TREE)
        return;
    e->problem.tree = 1;
    e->tree = check_memory((size_t)(s->batch * s->seqlen_q * words + 1) * sizeof *e->tree);
    const bool masked = s->tree == WIDE_TREE || s->tree == MASK_AS_TREE;
    for (int64_t i = 0; i < s->seqlen_q; i++) {
        uint32_t *const row = e->tree + i * words;
        if (s->tree == OWN_TREE || s->tree == ANY_TREE)
            experiment_tree_row(row, i, s->tree == OWN_TREE ? TREE_OF_GUESSES : TREE_OF_ANY, e->tree, words, &r);
        const int64_t first = masked ? ref_first(&e->ref, i) : 0, end = masked ? ref_end(&e->ref, i) : 0;
        for (int64_t slot = 0; slot < s->seqlen_q; slot++) {
            const bool last = slot == s->seqlen_q - 1, said = first <= before + slot && before + slot < end;
            const bool set = s->tree == CHAIN_TREE   ? slot <= i
                             : s->tree == HOLES_TREE ? last || (slot + i) % 3 != 0
                                                     : s->tree == WIDE_TREE || said;
            row[slot / 32] |= (uint32_t)set << slot % 32;
        }
    }
    for (int64_t i = 0; i < s->seqlen_q; i++) /* bits beyond the tree count for nothing */
        for (int64_t slot = s->seqlen_q; slot < words * 32; slot++)
            e->tree[i * words + slot / 32] |= (uint32_t)(slot % 3 != 0) << slot % 32;
    for (int64_t b = 1; b < s->batch; b++)
        memcpy(e->tree + b * s->seqlen_q * words, e->tree, (size_t)(s->seqlen_q * words) * sizeof *e->tree);
    if (masked) {
        fold_mask(e, s->tree == MASK_AS_TREE);
    } else {
        e->ref.tree = e->tree;
        e->ref.tree_words = words;
    }
}

/* ---- data ---- */

static void draw(struct experiment *e, enum tensor t)
{
    struct rand r = rand_stream(e->shape.seed, (uint64_t)t);
    const float step = e->shape.step;
    for (int64_t i = 0, count = tensor_count(e, t); i < count; i++) {
        float x = rand_normal(&r);
        if (e->shape.data == DATA_GRID)
            x = (float)rint((double)(x / step)) * step;
        e->in[t][i] = dtype_round(e->dtype, x);
    }
}

/* Element 0 of every query and key carries a logit: q_0 = 16 and k_0 = logit / (16 softmax_scale), the rest adds noise
 * to it. */
static void tilt(struct experiment *e)
{
    const struct shape *s = &e->shape;
    const float from_logit = 1.0f / (16.0f * e->ref.softmax_scale);
    const int64_t dim = e->ref.head_dim, keys = s->batch * s->heads_kv * s->seqlen_k;

    for (int64_t row = 0; row < s->batch * s->heads_q * s->seqlen_q; row++)
        e->in[Q][row * dim] = 16.0f;
    for (int64_t row = 0; row < keys; row++) {
        const float j = (float)(row % s->seqlen_k), last = (float)(s->seqlen_k - 1);
        const float logit = s->data == DATA_LOW       ? -100.0f
                            : s->data == DATA_HIGH    ? 100.0f
                            : s->data == DATA_RISING  ? 3.0f * (j - last)
                            : s->data == DATA_FALLING ? -3.0f * j
                                                      : 0.0f;
        e->in[K][row * dim] = dtype_round(e->dtype, logit * from_logit);
    }
}

/* Integers whose products are exact in float whatever the order: logits -61440 + {-2 ... 2}, softmax_scale 1. */
static void sink(struct experiment *e)
{
    const struct shape *s = &e->shape;
    const int64_t dim = e->ref.head_dim;
    struct rand r = rand_stream(s->seed, 100);
    memset(e->in[Q], 0, (size_t)tensor_count(e, Q) * sizeof(float));
    memset(e->in[K], 0, (size_t)tensor_count(e, K) * sizeof(float));
    for (int64_t row = 0; row < s->batch * s->heads_q * s->seqlen_q; row++) {
        e->in[Q][row * dim] = 256.0f;
        e->in[Q][row * dim + 1 + row % 7] = rand_sign(&r);
    }
    for (int64_t row = 0; row < s->batch * s->heads_kv * s->seqlen_k; row++) {
        e->in[K][row * dim] = -240.0f;
        for (int64_t d = 1; d < 8; d++)
            e->in[K][row * dim + d] = (float)(rand_below(&r, 5) - 2);
    }
}

void experiment_share(struct experiment *e)
{
    for (enum tensor t = Q; t < TENSORS; t++) {
        const struct glint_strides *st = &e->view[t].strides;
        if (e->in[t] == NULL || t == LSE)
            continue;
        for (int64_t b = 0; b < e->shape.batch; b++)
            for (int64_t h = 0; h < tensor_heads(e, t); h++)
                for (int64_t i = 0; i < tensor_rows(e, t); i++) {
                    const float *source =
                        tensor_row(e, e->in[t], t, st->batch != 0 ? b : 0, st->head != 0 ? h : 0, st->row != 0 ? i : 0);
                    float *row = tensor_row(e, e->in[t], t, b, h, i);
                    if (row != source)
                        memcpy(row, source, (size_t)tensor_dim(e, t) * sizeof *row);
                }
    }
}

/* A number with the upper 16 bits of a mantissa: its product with 7 bits is exact. */
static float short_number(float x)
{
    const int exponent = ilogb((double)x) - 15;
    return (float)ldexp(rint(ldexp((double)x, -exponent)), exponent);
}

/* The scale of a row of int8: a power of two where that holds all of it exactly, else its largest element over 127. */
static float scale_of_row(const float *row, int64_t dim)
{
    double most = 0;
    for (int64_t d = 0; d < dim; d++) {
        if (!isfinite(row[d]))
            return NAN;
        most = fmax(most, fabs((double)row[d]));
    }
    if (most == 0)
        return 1;
    double unit = ldexp(1, ilogb(most) - 6);
    unit = most > 127 * unit ? 2 * unit : unit;
    bool exact = unit >= 0x1p-126;
    for (int64_t d = 0; d < dim && exact; d++)
        exact = rint((double)row[d] / unit) == (double)row[d] / unit;
    return exact ? (float)unit : most < 0x1p-100 ? 0x1p-100f : short_number((float)(most / 127));
}

static void store_element(const struct experiment *e, float scale, float *x, uint8_t *bits)
{
    const double number = (double)*x / (double)scale;
    if (e->problem.kv_dtype == GLINT_E4M3) {
        *bits = e4m3_from_float((float)number);
        *x = float_from_e4m3(*bits) * scale;
    } else {
        const double whole = isnan(number) ? 1 : fmin(fmax(rint(number), -127), 127);
        *bits = (uint8_t)(int8_t)whole;
        *x = (float)whole * scale;
    }
}

void experiment_store(struct experiment *e)
{
    const int64_t dim = e->ref.head_dim;
    for (enum tensor t = K; t <= V && is_cache(e, t); t++)
        for (int64_t row = 0; row < tensor_count(e, t) / dim; row++) {
            const struct scaled *c = &e->cache[t - K];
            float *x = e->in[t] + row * dim;
            if (!c->given && e->problem.kv_scales == GLINT_SCALES_ROW)
                c->scale[row] = scale_of_row(x, dim);
            if (c->given && (!isfinite(c->scale[row]) || c->scale[row] == 0))
                continue; /* bits and in[] are the check's, too */
            for (int64_t d = 0; d < dim; d++)
                store_element(e, c->scale[row], &x[d], &c->bits[row * dim + d]);
        }
}

static float *floats(const struct experiment *e, enum tensor t)
{
    return check_memory((size_t)tensor_count(e, t) * sizeof(float));
}

static double *doubles(const struct experiment *e, enum tensor t)
{
    return check_memory((size_t)tensor_count(e, t) * sizeof(double));
}

/* int8 has a scale a row. Of e4m3 the scales are powers of two, K's and V's not the same, so that what one has is what
 * every other has. */
static void make_cache(struct experiment *e)
{
    e->problem.kv_dtype = e->subject->info.kv_dtype;
    if (e->problem.kv_dtype == 0)
        return;
    e->problem.kv_scales = e->problem.kv_dtype == GLINT_I8 ? GLINT_SCALES_ROW
                           : e->shape.seed % 2 == 0        ? GLINT_SCALES_HEAD
                                                           : GLINT_SCALES_TENSOR;
    for (enum tensor t = K; t <= V; t++) {
        const int64_t count = tensor_count(e, t), rows = count / e->ref.head_dim;
        e->cache[t - K] = (struct scaled){.bits = check_memory((size_t)count), .scale = check_memory((size_t)rows * sizeof(float))};
        for (int64_t row = 0; row < rows; row++)
            e->cache[t - K].scale[row] = t == K ? 0.5f : 4.0f;
    }
}

void experiment_put_minus_infinity(struct experiment *e, int64_t nth)
{
    const int64_t dim = e->ref.head_dim;
    for (int64_t i = nth - 1; i < tensor_count(e, Q) / dim; i += nth)
        for (int64_t d = i / nth % 8; d < dim; d += 8)
            e->in[Q][i * dim + d] = e->ref.softmax_scale < 0 ? -INFINITY : INFINITY;
    for (int64_t j = 0, count = tensor_count(e, K); j < count; j++)
        e->in[K][j] = -fmaxf(fabsf(e->in[K][j]), 0.125f);
}

struct experiment *experiment_new(struct subject *subject, const struct shape *shape)
{
    struct experiment *e = check_memory(sizeof *e);
    const int64_t dim = (int64_t)subject->info.head_dim;
    e->subject = subject;
    e->shape = *shape;
    e->dtype = (enum glint_dtype)subject->info.dtype;
    e->math = (enum glint_math)subject->info.math;
    e->ref = (struct ref_shape){
        .batch = shape->batch,
        .heads_q = shape->heads_q,
        .heads_kv = shape->heads_kv,
        .seqlen_q = shape->seqlen_q,
        .seqlen_k = shape->seqlen_k,
        .head_dim = dim,
        .softmax_scale = shape->zero_scale                    ? 0.0f
                         : shape->softmax_scale != 0          ? shape->softmax_scale
                         : shape->data == DATA_BELOW_SENTINEL ? 1.0f
                         : shape->data == DATA_ONE_HOT        ? 10.0f / (float)sqrt((double)dim)
                                                              : 1.0f / (float)sqrt((double)dim),
    };
    ref_mask(&e->ref, shape->mask, shape->window_left, shape->window_right, shape->diagonal);
    e->ref.softcap = shape->softcap;
    if (shape->sinks) { /* as large as the scores, so that they take a share of every row */
        const float about = shape->data == DATA_LOW              ? -98.0f
                            : shape->data == DATA_HIGH           ? 102.0f
                            : shape->data == DATA_BELOW_SENTINEL ? -61438.0f
                                                                 : 1.0f;
        struct rand r = rand_stream(shape->seed, 101);
        e->ref.sinks = e->sinks = check_memory((size_t)shape->heads_q * sizeof(float));
        for (int64_t h = 0; h < shape->heads_q; h++)
            e->sinks[h] = (shape->softcap == 0 ? about : 1.0f) + rand_normal(&r);
    }
    lay_out(e);
    fill_problem(e);
    make_cache(e);
    make_intervals(e);
    make_tree(e);
    make_slopes(e);
    e->problem.max_logit = shape->max_logit;
    make_bias(e);
    for (enum tensor t = Q; t <= DOUT; t++)
        e->in[t] = floats(e, t);
    if (shape->dlse) {
        struct rand r = rand_stream(shape->seed, 102);
        e->dlse = floats(e, LSE);
        for (int64_t i = 0, count = tensor_count(e, LSE); i < count; i++)
            e->dlse[i] = rand_normal(&r);
    }
    draw(e, Q);
    draw(e, K);
    draw(e, V);
    draw(e, DOUT);
    if (shape->data == DATA_BELOW_SENTINEL)
        sink(e);
    else if (shape->data != DATA_NORMAL && shape->data != DATA_GRID && shape->data != DATA_ONE_HOT)
        tilt(e);
    experiment_share(e);
    experiment_store(e);
    return e;
}

struct experiment *experiment_copy(const struct experiment *from)
{
    struct experiment *e = check_memory(sizeof *e);
    *e = *from;
    for (enum tensor t = Q; t <= DOUT; t++) {
        e->in[t] = floats(e, t);
        memcpy(e->in[t], from->in[t], (size_t)tensor_count(e, t) * sizeof(float));
    }
    if (from->sinks != NULL) {
        e->ref.sinks = e->sinks = check_memory((size_t)e->shape.heads_q * sizeof(float));
        memcpy(e->sinks, from->sinks, (size_t)e->shape.heads_q * sizeof(float));
    }
    if (from->slopes != NULL) {
        e->ref.slopes = e->slopes = check_memory((size_t)e->shape.heads_q * sizeof(float));
        memcpy(e->slopes, from->slopes, (size_t)e->shape.heads_q * sizeof(float));
    }
    if (from->bias != NULL) {
        e->ref.bias = e->bias = check_memory((size_t)pair_count(e) * sizeof(float));
        memcpy(e->bias, from->bias, (size_t)pair_count(e) * sizeof(float));
    }
    if (from->dlse != NULL)
        e->dlse = memcpy(floats(e, LSE), from->dlse, (size_t)tensor_count(e, LSE) * sizeof(float));
    for (enum tensor t = K; t <= V && is_cache(from, t); t++) {
        const int64_t count = tensor_count(e, t), rows = count / e->ref.head_dim;
        e->cache[t - K].bits = memcpy(check_memory((size_t)count), from->cache[t - K].bits, (size_t)count);
        e->cache[t - K].scale =
            memcpy(check_memory((size_t)rows * sizeof(float)), from->cache[t - K].scale, (size_t)rows * sizeof(float));
    }
    memset(e->exact, 0, sizeof e->exact);
    e->exact_dsinks = NULL;
    e->exact_dbias = NULL;
    return e;
}

void experiment_reference(struct experiment *e, bool gradients)
{
    double *exact[TENSORS];
    experiment_store(e);
    for (enum tensor t = Q; t < TENSORS; t++) {
        exact[t] = doubles(e, t);
        if (t == Q || t == K || t == V || t == DOUT)
            for (int64_t i = 0, count = tensor_count(e, t); i < count; i++)
                exact[t][i] = (double)e->in[t][i];
    }
    struct ref_shape stored = e->ref; /* 8-bit K and V are multiplied by their scales in the order that glint.h says */
    double *number[TENSORS] = {[K] = exact[K], [V] = exact[V]};
    for (enum tensor t = K; t <= V && is_cache(e, t); t++) {
        const int64_t rows = tensor_count(e, t) / e->ref.head_dim;
        double *scale = check_memory((size_t)rows * sizeof *scale);
        number[t] = doubles(e, t);
        for (int64_t row = 0; row < rows; row++)
            scale[row] = (double)e->cache[t - K].scale[row];
        for (int64_t i = 0, count = tensor_count(e, t); i < count; i++)
            number[t][i] = e->problem.kv_dtype == GLINT_I8 ? (double)(int8_t)e->cache[t - K].bits[i]
                                                           : (double)float_from_e4m3(e->cache[t - K].bits[i]);
        *(t == K ? &stored.k_scale : &stored.v_scale) = scale;
    }
    if (e->shape.max_logit)
        stored.max_logit = e->exact_logit = check_memory((size_t)e->shape.heads_q * sizeof(double));
    reference_forward(&stored, exact[Q], number[K], number[V], exact[O], exact[LSE]);
    for (int64_t i = 0, count = tensor_count(e, O); i < count; i++)
        e->in[O][i] = dtype_round(e->dtype, (float)exact[O][i]);
    for (int64_t i = 0, count = tensor_count(e, LSE); i < count; i++)
        e->in[LSE][i] = (float)exact[LSE][i];
    if (gradients) {
        e->exact_dsinks = e->sinks != NULL ? check_memory((size_t)e->shape.heads_q * sizeof(double)) : NULL;
        e->exact_dbias = e->problem.dbias != 0 ? check_memory((size_t)pair_count(e) * sizeof(double)) : NULL;
        reference_backward(&e->ref, exact[Q], exact[K], exact[V], exact[O], exact[LSE], exact[DOUT], e->dlse, exact[DQ], exact[DK],
                           exact[DV], e->exact_dsinks, e->exact_dbias);
        if (e->exact_dbias != NULL)
            experiment_sum_pairs(e, e->exact_dbias);
    }
    memcpy(e->exact, exact, sizeof exact);
}

/* ---- running ---- */

enum { MARGIN = 64 }; /* bytes watched on both sides of a buffer, at least */

struct buffer {
    size_t bytes;                  /* of the payload */
    size_t margin;                 /* before and after it; 0 inside a fence */
    unsigned char *before, *after; /* host images, margins included */
    unsigned char *device;
};

/* A NaN in all three dtypes, that no arithmetic makes: gaps that are read show, elements that are not written too. */
static void fill(unsigned char *image, size_t bytes)
{
    static const unsigned char nan[2] = {0xf7, 0xff};
    for (size_t done = 0; done < bytes;) { /* 2, 2, 4, 8 ... */
        const size_t have = done == 0 ? sizeof nan : done, piece = have < bytes - done ? have : bytes - done;
        memcpy(image + done, done == 0 ? nan : image, piece);
        done += piece;
    }
}

static unsigned char *element(const struct experiment *e, const struct buffer *buffer, unsigned char *image, enum tensor t,
                              int64_t b, int64_t h, int64_t row)
{
    const struct view *v = &e->view[t];
    const int64_t at = v->offset + b * v->strides.batch + h * v->strides.head + row * v->strides.row;
    return image + buffer->margin + (size_t)at * dtype_bytes(tensor_dtype(e, t));
}

static void scatter(const struct experiment *e, const struct buffer *buffer, enum tensor t)
{
    for (int64_t b = 0; b < e->shape.batch; b++)
        for (int64_t h = 0; h < tensor_heads(e, t); h++)
            for (int64_t i = 0; i < tensor_rows(e, t); i++) {
                unsigned char *to = element(e, buffer, buffer->before, t, b, h, i);
                const float *from = tensor_row(e, e->in[t], t, b, h, i);
                if (is_cache(e, t))
                    memcpy(to, e->cache[t - K].bits + (from - e->in[t]), (size_t)tensor_dim(e, t));
                else
                    dtype_store_row(tensor_dtype(e, t), to, from, tensor_dim(e, t));
            }
}

/* Reads the tensor out of the image after the call, and makes the image before the call agree with it there. */
static float *gather(const struct experiment *e, const struct buffer *buffer, enum tensor t)
{
    const size_t size = dtype_bytes(tensor_dtype(e, t));
    float *dense = floats(e, t);
    for (int64_t b = 0; b < e->shape.batch; b++)
        for (int64_t h = 0; h < tensor_heads(e, t); h++)
            for (int64_t i = 0; i < tensor_rows(e, t); i++) {
                const unsigned char *from = element(e, buffer, buffer->after, t, b, h, i);
                float *to = tensor_row(e, dense, t, b, h, i);
                dtype_load_row(tensor_dtype(e, t), to, from, tensor_dim(e, t));
                memcpy(element(e, buffer, buffer->before, t, b, h, i), from, (size_t)tensor_dim(e, t) * size);
            }
    return dense;
}

/* As little as the contract asks for. */
static size_t alignment_of(const struct experiment *e, enum tensor t)
{
    const size_t variant = e->subject->info.alignment_bytes, element_bytes = dtype_bytes(tensor_dtype(e, t));
    return variant > dtype_bytes(e->dtype) ? variant : element_bytes; /* of an element, unless the variant asks for more */
}

static void buffer_make(const struct experiment *e, struct buffer *buffer, size_t bytes, size_t alignment, struct how how)
{
    buffer->bytes = bytes;
    /* alignment + 64 below 64: the address is then as aligned as it must be, and no more */
    const bool watched = how.fence == FENCE_NONE && !e->subject->backend->exact;
    buffer->margin = !watched ? 0 : alignment < MARGIN ? alignment + MARGIN : alignment;
    const size_t total = bytes + 2 * buffer->margin;
    buffer->before = check_memory(total);
    buffer->after = check_memory(total);
    fill(buffer->before, total);
    buffer->device = check_device_memory(e->subject->backend, total, alignment, how.fence);
}

static void expect_untouched(const struct buffer *buffer, const char *what)
{
    const size_t total = buffer->bytes + 2 * buffer->margin;
    if (memcmp(buffer->before, buffer->after, total) == 0)
        return;
    size_t at = 0;
    while (buffer->before[at] == buffer->after[at])
        at++;
    check_fail("bytes changed that are no element of an output: buffer of %s, byte %lld of %zu", what,
               (long long)at - (long long)buffer->margin, buffer->bytes);
}

/* Only the margins: a workspace may hold anything afterwards. */
static void expect_margins(const struct buffer *buffer)
{
    if (memcmp(buffer->before, buffer->after, buffer->margin) != 0 ||
        memcmp(buffer->before + buffer->margin + buffer->bytes, buffer->after + buffer->margin + buffer->bytes, buffer->margin) !=
            0)
        check_fail("bytes changed outside of the workspace of %zu bytes", buffer->bytes);
}

static void poison_workspace(struct buffer *workspace, enum poison poison)
{
    static const unsigned char signalling_nan[4] = {0xa0, 0x7f, 0xa0, 0x7f}; /* as float and as bfloat16; as float16 a quiet one */
    for (size_t i = 0; i < workspace->bytes; i++)
        workspace->before[workspace->margin + i] = poison == POISON_AA ? 0xaa : signalling_nan[i % 4];
}

static void *address(const struct experiment *e, struct buffer *buffers, enum glint_pass pass, enum tensor t)
{
    if (!pass_uses(pass, t))
        return NULL;
    return element(e, &buffers[e->view[t].buffer], buffers[e->view[t].buffer].device, t, 0, 0, 0);
}

/* Leaves only the inputs' elements defined: a kernel that reads a gap between rows, or an output or the workspace
 * before it has written there, is found out. */
static void forget_all_but_inputs(const struct experiment *e, struct buffer *buffers, enum glint_pass pass)
{
    const struct backend *backend = e->subject->backend;
    for (enum tensor t = Q; t < TENSORS; t++)
        if (buffers[t].before != NULL)
            backend->forget(buffers[t].device, buffers[t].bytes + 2 * buffers[t].margin);
    for (enum tensor t = Q; t < TENSORS; t++)
        for (int64_t b = 0; b < e->shape.batch && pass_reads(pass, t); b++)
            for (int64_t h = 0; h < tensor_heads(e, t); h++)
                for (int64_t i = 0; i < tensor_rows(e, t); i++) {
                    struct buffer *buffer = &buffers[e->view[t].buffer];
                    backend->copy_in(element(e, buffer, buffer->device, t, b, h, i), element(e, buffer, buffer->before, t, b, h, i),
                                     (size_t)tensor_dim(e, t) * dtype_bytes(tensor_dtype(e, t)));
                }
}

struct glint_plan experiment_plan(struct subject *subject, const struct glint_problem *problem, enum glint_pass pass,
                                  uint32_t variant, enum lanes lanes)
{
    struct glint_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.struct_size = sizeof plan;
    const enum glint_status status = subject->backend->plan(subject_context(subject, lanes), problem, pass, variant, &plan);
    if (status != GLINT_OK)
        check_fail("the plan was refused: %s", subject->backend->status_name(status));
    return plan;
}

struct ways experiment_ways(struct subject *subject, const struct glint_problem *problem)
{
    const uint32_t before = subject->multiprocessors;
    struct ways ways = {0};
    size_t left[MOST_WAYS];
    for (uint32_t device = 1; device <= 1024; device++) {
        subject->multiprocessors = device;
        const size_t bytes = experiment_plan(subject, problem, GLINT_FORWARD, subject->variant, LANES_SERIAL).workspace_bytes;
        int at = 0;
        while (at < ways.count && left[at] < bytes)
            at++;
        if (at == ways.count || left[at] != bytes) {
            if (ways.count == MOST_WAYS)
                check_fail("there are more than %d ways to share keys out", MOST_WAYS);
            for (int i = ways.count++; i > at; i--)
                left[i] = left[i - 1], ways.smallest[i] = ways.smallest[i - 1], ways.largest[i] = ways.largest[i - 1];
            left[at] = bytes;
            ways.smallest[at] = device;
        }
        ways.largest[at] = device;
    }
    subject->multiprocessors = before;
    return ways;
}

int64_t experiment_divisible_keys(struct subject *subject, int ways)
{
    static const int64_t steps[] = {10, 18, 34, 66};
    struct glint_problem problem = subject_problem(subject);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        problem.seqlen_k = steps[i] * (int64_t)subject->info.tile_n - 7;
        if (experiment_ways(subject, &problem).count >= ways)
            break;
    }
    return problem.seqlen_k;
}

void experiment_share_out(struct subject *subject, const struct glint_problem *problem, int way)
{
    if (way == 0)
        return;
    const struct ways ways = experiment_ways(subject, problem);
    if (way > ways.count || -way > ways.count)
        check_fail("the keys are shared out in %d ways, so there is none of number %d", ways.count, way);
    subject->multiprocessors = way > 0 ? ways.smallest[way - 1] : ways.largest[-way - 1];
}

void experiment_call(const struct subject *subject, enum glint_pass pass, const struct glint_plan *plan, void *const at[TENSORS],
                     const struct glint_tensors *others, void *workspace)
{
    const struct backend *backend = subject->backend;
    struct glint_tensors tensors = *others;
    for (enum tensor t = Q; t < TENSORS; t++)
        tensor_set(&tensors, t, at[t]);
    const enum glint_status status = (pass == GLINT_FORWARD ? backend->forward : backend->backward)(
        plan, &tensors, workspace, plan->workspace_bytes, backend->stream);
    if (status != GLINT_OK)
        check_fail("the call was refused: %s", backend->status_name(status));
    const char *trouble = backend->finish();
    if (trouble != NULL)
        check_fail("the device failed: %s", trouble);
}

/* Numbers that are no tensor, or room for them: NaN that nobody makes. */
static float *array_make(const struct experiment *e, struct buffer *buffer, const float *values, int64_t count, struct how how)
{
    const size_t bytes = (size_t)count * sizeof(float);
    buffer_make(e, buffer, bytes, sizeof(float), how);
    if (values != NULL)
        memcpy(buffer->before + buffer->margin, values, bytes);
    e->subject->backend->copy_in(buffer->device, buffer->before, bytes + 2 * buffer->margin);
    if (values == NULL && e->subject->backend->forget != NULL)
        e->subject->backend->forget(buffer->device + buffer->margin, bytes);
    return (float *)(void *)(buffer->device + buffer->margin);
}

/* What is there after the call; nothing around it has changed. */
static float *array_after(const struct experiment *e, struct buffer *buffer, bool written, const char *what)
{
    const size_t bytes = buffer->bytes;
    float *values = check_memory(bytes);
    e->subject->backend->copy_out(buffer->after, buffer->device, bytes + 2 * buffer->margin);
    memcpy(values, buffer->after + buffer->margin, bytes);
    if (written)
        memcpy(buffer->before + buffer->margin, values, bytes);
    expect_untouched(buffer, what);
    return values;
}

/* Scales as the call reads them: of each row, each head, or one. */
static void put_scales(const struct experiment *e, struct buffer *buffer, enum tensor t, struct how how)
{
    const int64_t per_head = e->shape.seqlen_k, rows = e->shape.batch * e->shape.heads_kv * per_head;
    const uint32_t kind = e->problem.kv_scales;
    const int64_t count = kind == GLINT_SCALES_ROW ? rows : kind == GLINT_SCALES_HEAD ? e->shape.heads_kv : 1;
    buffer_make(e, buffer, (size_t)count * sizeof(float), sizeof(float), how);
    for (int64_t i = 0; i < count && rows > 0; i++)
        memcpy(buffer->before + buffer->margin + (size_t)i * sizeof(float),
               &e->cache[t - K].scale[kind == GLINT_SCALES_HEAD ? i * per_head : i], sizeof(float));
    e->subject->backend->copy_in(buffer->device, buffer->before, buffer->bytes + 2 * buffer->margin);
}

/* A bias as the call reads it, or room for its gradient: gaps hold NaN that nobody makes. */
static void *bias_make(const struct experiment *e, struct buffer *buffer, const float *values, struct how how)
{
    const enum glint_dtype dtype = (enum glint_dtype)e->problem.bias_dtype;
    const int64_t count = pair_count(e), elements = count > 0 ? place_of_bias(e, count - 1) + 1 : 0;
    const size_t size = dtype_bytes(dtype);
    buffer_make(e, buffer, (size_t)elements * size, size, how);
    for (int64_t pair = 0; pair < count && values != NULL; pair++)
        dtype_store_row(dtype, buffer->before + buffer->margin + (size_t)place_of_bias(e, pair) * size, &values[pair], 1);
    e->subject->backend->copy_in(buffer->device, buffer->before, buffer->bytes + 2 * buffer->margin);
    if (values == NULL && e->subject->backend->forget != NULL)
        e->subject->backend->forget(buffer->device + buffer->margin, buffer->bytes);
    return buffer->device + buffer->margin;
}

static float *dbias_after(const struct experiment *e, struct buffer *buffer)
{
    const enum glint_dtype dtype = (enum glint_dtype)e->problem.bias_dtype;
    const size_t size = dtype_bytes(dtype);
    float *values = check_memory((size_t)pair_count(e) * sizeof(float));
    e->subject->backend->copy_out(buffer->after, buffer->device, buffer->bytes + 2 * buffer->margin);
    for (int64_t pair = 0; pair < pair_count(e); pair++) {
        const size_t at = buffer->margin + (size_t)place_of_bias(e, pair) * size;
        dtype_load_row(dtype, &values[pair], buffer->after + at, 1);
        memcpy(buffer->before + at, buffer->after + at, size);
    }
    expect_untouched(buffer, "the gradient of the bias");
    return values;
}

struct results experiment_run(struct experiment *e, enum glint_pass pass, struct how how)
{
    experiment_store(e);
    struct subject *subject = e->subject;
    const struct backend *backend = subject->backend;
    uint32_t variant = subject->variant;
    if (pass != (enum glint_pass)subject->info.pass && !subject_forward(subject, &variant))
        check_fail("no forward variant of the same kind runs on this device");
    if (!backend->fences)
        how.fence = FENCE_NONE;

    const struct glint_plan plan = experiment_plan(subject, &e->problem, pass, variant, how.lanes);
    struct buffer buffers[TENSORS] = {0}, workspace = {0}, sinks = {0}, dsinks = {0}, dlse = {0}, slopes = {0}, logit = {0};
    struct buffer bias = {0}, dbias = {0};
    struct buffer interval[2] = {{0}}, tree = {0};
    struct glint_tensors others = GLINT_TENSORS_INIT;
    for (enum tensor t = Q; t < TENSORS; t++) {
        struct buffer *buffer = &buffers[e->view[t].buffer];
        if (!pass_uses(pass, t))
            continue;
        if (buffer->before == NULL)
            buffer_make(e, buffer, (size_t)e->buffer_elements[e->view[t].buffer] * dtype_bytes(tensor_dtype(e, t)),
                        alignment_of(e, t), how);
        if (pass_reads(pass, t))
            scatter(e, buffer, t);
    }
    buffer_make(e, &workspace, plan.workspace_bytes, GLINT_WORKSPACE_ALIGNMENT, how);
    poison_workspace(&workspace, how.poison);
    for (enum tensor t = Q; t < TENSORS; t++)
        if (buffers[t].before != NULL)
            backend->copy_in(buffers[t].device, buffers[t].before, buffers[t].bytes + 2 * buffers[t].margin);
    backend->copy_in(workspace.device, workspace.before, workspace.bytes + 2 * workspace.margin);
    if (backend->forget != NULL) {
        forget_all_but_inputs(e, buffers, pass);
        backend->forget(workspace.device + workspace.margin, workspace.bytes);
    }

    const bool gradient = e->sinks != NULL && pass == GLINT_BACKWARD, of_lse = e->dlse != NULL && pass == GLINT_BACKWARD;
    if (e->sinks != NULL)
        others.sinks = array_make(e, &sinks, e->sinks, e->shape.heads_q, how);
    if (gradient)
        others.dsinks = array_make(e, &dsinks, NULL, e->shape.heads_q, how);
    if (e->slopes != NULL)
        others.alibi_slopes = array_make(e, &slopes, e->slopes, e->shape.heads_q, how);
    if (e->bias != NULL)
        others.bias = bias_make(e, &bias, e->bias, how);
    const bool of_bias = e->problem.dbias != 0 && pass == GLINT_BACKWARD;
    if (of_bias)
        others.dbias = bias_make(e, &dbias, NULL, how);
    if (of_lse)
        others.dlse = array_make(e, &dlse, e->dlse, tensor_count(e, LSE), how);
    if (e->problem.max_logit != 0)
        others.max_logit = array_make(e, &logit, NULL, e->shape.heads_q, how);
    for (int side = 0; side < 2 && e->problem.intervals != 0; side++) {
        const float *const words = (const float *)(const void *)e->interval[side]; /* of as many bytes, which are copied */
        *(side == 0 ? &others.key_begin : &others.key_end) =
            (const int32_t *)(const void *)array_make(e, &interval[side], words, e->shape.batch * e->shape.seqlen_q, how);
    }

    const int64_t tree_words = e->shape.batch * e->shape.seqlen_q * ((e->shape.seqlen_q + 31) / 32);
    if (e->problem.tree != 0)
        others.tree_bits =
            (const uint32_t *)(const void *)array_make(e, &tree, (const float *)(const void *)e->tree, tree_words, how);

    void *at[TENSORS];
    for (enum tensor t = Q; t < TENSORS; t++)
        at[t] = address(e, buffers, pass, t);
    struct buffer scale_buffers[2] = {{0}};
    for (enum tensor t = K; t <= V && is_cache(e, t); t++) {
        put_scales(e, &scale_buffers[t - K], t, how);
        *(t == K ? &others.k_scale : &others.v_scale) =
            (const float *)(void *)(scale_buffers[t - K].device + scale_buffers[t - K].margin);
    }
    experiment_call(subject, pass, &plan, at, &others, workspace.device + workspace.margin);
    for (enum tensor t = K; t <= V && is_cache(e, t); t++) {
        struct buffer *buffer = &scale_buffers[t - K];
        backend->copy_out(buffer->after, buffer->device, buffer->bytes + 2 * buffer->margin);
        expect_untouched(buffer, t == K ? "k_scale" : "v_scale");
    }

    struct results results = {.at = {NULL}};
    if (e->sinks != NULL)
        array_after(e, &sinks, false, "the sinks");
    if (gradient)
        results.dsinks = array_after(e, &dsinks, true, "the sinks' gradient");
    if (e->slopes != NULL)
        array_after(e, &slopes, false, "the slopes");
    if (e->bias != NULL) {
        backend->copy_out(bias.after, bias.device, bias.bytes + 2 * bias.margin);
        expect_untouched(&bias, "the bias");
    }
    if (of_bias)
        results.dbias = dbias_after(e, &dbias);
    if (of_lse)
        array_after(e, &dlse, false, "the gradient of LSE");
    if (e->problem.max_logit != 0)
        results.max_logit = array_after(e, &logit, true, "the largest logits");
    for (int side = 0; side < 2 && e->problem.intervals != 0; side++)
        array_after(e, &interval[side], false, side == 0 ? "key_begin" : "key_end");
    if (e->problem.tree != 0)
        array_after(e, &tree, false, "tree_bits");
    for (enum tensor t = Q; t < TENSORS; t++)
        if (buffers[t].before != NULL)
            backend->copy_out(buffers[t].after, buffers[t].device, buffers[t].bytes + 2 * buffers[t].margin);
    backend->copy_out(workspace.after, workspace.device, workspace.bytes + 2 * workspace.margin);
    for (const enum tensor *t = pass_outputs(pass); *t != TENSORS; t++)
        results.at[*t] = gather(e, &buffers[e->view[*t].buffer], *t);
    for (enum tensor t = Q; t < TENSORS; t++)
        if (buffers[t].before != NULL)
            expect_untouched(&buffers[t], tensor_name[t]);
    expect_margins(&workspace);
    check_device_release_all();
    return results;
}

struct results experiment_run_plainly(struct experiment *e)
{
    return experiment_run(e, (enum glint_pass)e->subject->info.pass, (struct how){LANES_SERIAL, POISON_AA, FENCE_NONE});
}

struct results experiment_forward(struct experiment *e)
{
    uint32_t ignored;
    if (subject_forward(e->subject, &ignored))
        return experiment_run(e, GLINT_FORWARD, (struct how){LANES_SERIAL, POISON_AA, FENCE_NONE});
    struct experiment *copy = experiment_copy(e);
    experiment_reference(copy, false);
    return (struct results){.at = {[O] = copy->in[O], [LSE] = copy->in[LSE]}};
}
