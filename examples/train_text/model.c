#include "examples/train_text/model.h"

#include <math.h>
#include <string.h>

#include "examples/common/matmul.h"
#include "examples/train_text/text.h"

/* ---- parameters ---- */

struct placer {
    struct model *model;
    size_t offset;
};

static size_t place(struct placer *p, const char *name, size_t layer, size_t count, int is_matrix)
{
    struct parameter *entry = &p->model->parameter[p->model->parameter_count++];
    *entry = (struct parameter){name, layer, p->offset, count, is_matrix};
    p->offset += count;
    return entry->offset;
}

static void list_parameters(struct model *m)
{
    size_t d = m->config.width;
    struct placer p = {m, 0};
    m->parameter_count = 0;
    place(&p, "embed", 0, VOCABULARY * d, 1);
    for (size_t l = 0; l < m->config.layers; l++) {
        place(&p, "norm1", l, d, 0);
        place(&p, "qkv", l, d * 3 * d, 1);
        place(&p, "proj", l, d * d, 1);
        place(&p, "norm2", l, d, 0);
        place(&p, "up", l, d * 4 * d, 1);
        place(&p, "down", l, 4 * d * d, 1);
    }
    place(&p, "norm", 0, d, 0);
    place(&p, "head", 0, d * VOCABULARY, 1);
    m->parameter_floats = p.offset;
}

/* Reads the same list in the same order as list_parameters writes it. */
static void point(struct weights *w, const struct model *m, float *flat)
{
    const struct parameter *p = m->parameter;
    w->embed = flat + (p++)->offset;
    for (size_t l = 0; l < m->config.layers; l++) {
        struct layer_weights *layer = &w->layer[l];
        layer->norm1 = flat + (p++)->offset;
        layer->qkv = flat + (p++)->offset;
        layer->proj = flat + (p++)->offset;
        layer->norm2 = flat + (p++)->offset;
        layer->up = flat + (p++)->offset;
        layer->down = flat + (p++)->offset;
    }
    w->norm = flat + (p++)->offset;
    w->head = flat + p->offset;
}

void model_layout_weights(struct model *m, const struct config *config, const struct glint_executor *executor, struct arena *arena)
{
    m->config = *config;
    m->executor = executor;
    list_parameters(m);
    m->flat = arena_floats(arena, m->parameter_floats);
    if (arena->base)
        point(&m->w, m, m->flat);
    m->scratch = arena_take(arena, matmul_scratch_bytes(executor->concurrency));
}

void model_layout(struct model *m, const struct config *config, struct attention *attention, struct arena *arena)
{
    size_t n = config->batch * config->context, d = config->width;
    model_layout_weights(m, config, &attention->executor, arena);
    m->attention = attention;
    m->flat_gradient = arena_floats(arena, m->parameter_floats);
    if (arena->base)
        point(&m->g, m, m->flat_gradient);
    m->rotation = arena_floats(arena, config->context * HEAD_DIM);
    m->x0 = arena_floats(arena, n * d);
    for (size_t l = 0; l < config->layers; l++) {
        struct layer_activations *a = &m->a[l];
        a->normed1 = arena_floats(arena, n * d);
        a->inverse1 = arena_floats(arena, n);
        a->qkv = arena_floats(arena, n * 3 * d);
        a->o = arena_floats(arena, n * d);
        a->lse = arena_floats(arena, n * config->heads);
        a->x_mid = arena_floats(arena, n * d);
        a->normed2 = arena_floats(arena, n * d);
        a->inverse2 = arena_floats(arena, n);
        a->up = arena_floats(arena, n * 4 * d);
        a->active = arena_floats(arena, n * 4 * d);
        a->x_out = arena_floats(arena, n * d);
    }
    m->normed = arena_floats(arena, n * d);
    m->inverse = arena_floats(arena, n);
    m->logits = arena_floats(arena, n * VOCABULARY);
    m->row_loss = arena_floats(arena, n);
    m->dx = arena_floats(arena, n * d);
    m->dbranch = arena_floats(arena, n * d);
    m->dwide = arena_floats(arena, n * 4 * d);
}

static float normal(uint64_t *random)
{
    double u = 1 - random_unit(random), v = random_unit(random);
    return (float)(sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v));
}

/* Angle of pair i at a position: position * 10000^(-2 i / HEAD_DIM). One row: HEAD_DIM / 2 cosines, then as many
 * sines. */
static void rotation_row(float *row, size_t position)
{
    for (int i = 0; i < HEAD_DIM / 2; i++) {
        double angle = (double)position * pow(10000, -2.0 * i / HEAD_DIM);
        row[i] = (float)cos(angle);
        row[HEAD_DIM / 2 + i] = (float)sin(angle);
    }
}

void model_initialise(struct model *m, uint64_t seed)
{
    uint64_t random = seed;
    for (size_t i = 0; i < m->parameter_count; i++) {
        const struct parameter *p = &m->parameter[i];
        /* What adds to the residual stream starts smaller, so that its variance does not grow with depth. */
        int adds = strcmp(p->name, "proj") == 0 || strcmp(p->name, "down") == 0;
        float deviation = adds ? 0.02F / sqrtf(2.0F * (float)m->config.layers) : 0.02F;
        for (size_t j = 0; j < p->count; j++)
            m->flat[p->offset + j] = p->is_matrix ? deviation * normal(&random) : 1.0F;
    }
    for (size_t t = 0; t < m->config.context; t++)
        rotation_row(m->rotation + t * HEAD_DIM, t);
}

/* ---- work on rows, shared out over the threads ---- */

struct rows {
    void (*body)(const struct rows *rows, size_t begin, size_t end);
    const struct model *model;
    size_t count, width, parts;
    const float *in, *in2, *in3;
    float *out, *out2;
    const unsigned char *bytes;
};

static void rows_part(void *argument, uint32_t index)
{
    const struct rows *r = argument;
    r->body(r, r->count * index / r->parts, r->count * (index + 1) / r->parts);
}

static void run_rows(const struct model *m, struct rows rows)
{
    rows.model = m;
    rows.parts = m->executor->concurrency;
    m->executor->parallel_for(m->executor->user, m->executor->concurrency, rows_part, &rows);
}

/* out = gain * x / rms(x), out2 = 1 / rms(x);  in = x, in2 = gain */
static void norm_body(const struct rows *r, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        const float *x = r->in + i * r->width;
        float *y = r->out + i * r->width, sum = 0;
        for (size_t j = 0; j < r->width; j++)
            sum += x[j] * x[j];
        float inverse = 1 / sqrtf(sum / (float)r->width + 1e-5F);
        for (size_t j = 0; j < r->width; j++)
            y[j] = r->in2[j] * x[j] * inverse;
        r->out2[i] = inverse;
    }
}

static void norm(const struct model *m, float *y, float *inverse, const float *x, const float *gain, size_t count)
{
    run_rows(m, (struct rows){
                    .body = norm_body, .count = count, .width = m->config.width, .in = x, .in2 = gain, .out = y, .out2 = inverse});
}

/* out += inverse * (gain * dy - x * inverse^2 * mean(gain * dy * x)); in = dy, in2 = x, in3 = gain, out2 = inverse
 * (read) */
static void norm_gradient_body(const struct rows *r, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        const float *dy = r->in + i * r->width, *x = r->in2 + i * r->width, *gain = r->in3;
        float *dx = r->out + i * r->width, inverse = r->out2[i], sum = 0;
        for (size_t j = 0; j < r->width; j++)
            sum += gain[j] * dy[j] * x[j];
        float along_x = sum / (float)r->width * inverse * inverse;
        for (size_t j = 0; j < r->width; j++)
            dx[j] += inverse * (gain[j] * dy[j] - x[j] * along_x);
    }
}

/* dx += gradient through the norm; dgain = sum over rows of dy * x * inverse, in a fixed order. */
static void norm_gradient(const struct model *m, float *dx, float *dgain, const float *dy, const float *x, float *inverse,
                          const float *gain, size_t count)
{
    size_t d = m->config.width;
    memset(dgain, 0, d * sizeof *dgain);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < d; j++)
            dgain[j] += dy[i * d + j] * x[i * d + j] * inverse[i];
    run_rows(
        m,
        (struct rows){
            .body = norm_gradient_body, .count = count, .width = d, .in = dy, .in2 = x, .in3 = gain, .out = dx, .out2 = inverse});
}

static void add_body(const struct rows *r, size_t begin, size_t end)
{
    for (size_t i = begin * r->width; i < end * r->width; i++)
        r->out[i] = r->in[i] + r->in2[i];
}

static void square_relu_body(const struct rows *r, size_t begin, size_t end)
{
    for (size_t i = begin * r->width; i < end * r->width; i++) {
        float u = r->in[i] > 0 ? r->in[i] : 0;
        r->out[i] = u * u;
    }
}

/* d relu(u)^2 / du = 2 relu(u); out is the gradient, in place */
static void square_relu_gradient_body(const struct rows *r, size_t begin, size_t end)
{
    for (size_t i = begin * r->width; i < end * r->width; i++)
        r->out[i] *= r->in[i] > 0 ? 2 * r->in[i] : 0;
}

/* Turns each pair (x[i], x[i + HEAD_DIM / 2]) of every head of one row; sign -1 turns back, which is also the
 * gradient. */
static void rotate_heads(float *x, size_t heads, const float *rotation, float sign)
{
    enum { HALF = HEAD_DIM / 2 };
    for (size_t h = 0; h < heads; h++, x += HEAD_DIM)
        for (int i = 0; i < HALF; i++) {
            float c = rotation[i], s = sign * rotation[HALF + i], a = x[i], b = x[i + HALF];
            x[i] = c * a - s * b;
            x[i + HALF] = s * a + c * b;
        }
}

/* Rotates the heads of rows at positions of their own: in = their rotations */
static void rotate_rows_body(const struct rows *r, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        rotate_heads(r->out + i * r->width, 2 * r->model->config.heads, r->in + i * HEAD_DIM, 1);
}

/* Q and K of every row of qkv, in place; in2 = the sign */
static void rotate_body(const struct rows *r, size_t begin, size_t end)
{
    const struct config *c = &r->model->config;
    for (size_t i = begin; i < end; i++)
        rotate_heads(r->out + i * r->width, 2 * c->heads, r->model->rotation + i % c->context * HEAD_DIM, r->in2[0]);
}

static void rotate(const struct model *m, float *qkv, float sign)
{
    run_rows(m, (struct rows){.body = rotate_body,
                              .count = m->config.batch * m->config.context,
                              .width = 3 * m->config.width,
                              .in2 = &sign,
                              .out = qkv});
}

/* out = -log softmax(in)[target] */
static void loss_body(const struct rows *r, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        const float *logits = r->in + i * VOCABULARY;
        float max = logits[0], sum = 0;
        for (size_t j = 1; j < VOCABULARY; j++)
            max = logits[j] > max ? logits[j] : max;
        for (size_t j = 0; j < VOCABULARY; j++)
            sum += expf(logits[j] - max);
        r->out[i] = max + logf(sum) - logits[r->bytes[i]];
    }
}

/* out (logits, in place) = (softmax(out) - one_hot(target)) / rows; in = row_loss, from which log sum exp follows */
static void loss_gradient_body(const struct rows *r, size_t begin, size_t end)
{
    float scale = 1 / (float)r->count;
    for (size_t i = begin; i < end; i++) {
        float *logits = r->out + i * VOCABULARY, log_sum = r->in[i] + logits[r->bytes[i]];
        for (size_t j = 0; j < VOCABULARY; j++)
            logits[j] = scale * expf(logits[j] - log_sum);
        logits[r->bytes[i]] -= scale;
    }
}

/* ---- matrix products: y = x W, dx = dy W^T, dW = x^T dy ---- */

static void linear(const struct model *m, float *y, const float *x, const float *w, size_t rows, size_t in, size_t out, int add)
{
    matmul(m->executor, y, (struct matrix){x, in, 1}, (struct matrix){w, out, 1}, rows, out, in, add, m->scratch);
}

static void linear_gradient(const struct model *m, float *dx, float *dw, const float *dy, const float *x, const float *w,
                            size_t rows, size_t in, size_t out)
{
    matmul(m->executor, dw, (struct matrix){x, 1, in}, (struct matrix){dy, out, 1}, in, out, rows, 0, m->scratch);
    matmul(m->executor, dx, (struct matrix){dy, out, 1}, (struct matrix){w, 1, out}, rows, in, out, 0, m->scratch);
}

/* ---- the model ---- */

double model_forward(struct model *m, const unsigned char *inputs, const unsigned char *targets)
{
    size_t n = m->config.batch * m->config.context, d = m->config.width;
    for (size_t i = 0; i < n; i++)
        memcpy(m->x0 + i * d, m->w.embed + inputs[i] * d, d * sizeof(float));
    const float *x = m->x0;
    for (size_t l = 0; l < m->config.layers; l++) {
        const struct layer_weights *w = &m->w.layer[l];
        struct layer_activations *a = &m->a[l];
        norm(m, a->normed1, a->inverse1, x, w->norm1, n);
        linear(m, a->qkv, a->normed1, w->qkv, n, d, 3 * d, 0);
        rotate(m, a->qkv, 1);
        if (attention_forward(m->attention, a->qkv, a->o, a->lse) != 0)
            return NAN;
        linear(m, a->x_mid, a->o, w->proj, n, d, d, 0);
        run_rows(m, (struct rows){.body = add_body, .count = n, .width = d, .in = x, .in2 = a->x_mid, .out = a->x_mid});

        norm(m, a->normed2, a->inverse2, a->x_mid, w->norm2, n);
        linear(m, a->up, a->normed2, w->up, n, d, 4 * d, 0);
        run_rows(m, (struct rows){.body = square_relu_body, .count = n, .width = 4 * d, .in = a->up, .out = a->active});
        linear(m, a->x_out, a->active, w->down, n, 4 * d, d, 0);
        run_rows(m, (struct rows){.body = add_body, .count = n, .width = d, .in = a->x_mid, .in2 = a->x_out, .out = a->x_out});
        x = a->x_out;
    }
    norm(m, m->normed, m->inverse, x, m->w.norm, n);
    linear(m, m->logits, m->normed, m->w.head, n, d, VOCABULARY, 0);
    run_rows(m, (struct rows){.body = loss_body, .count = n, .in = m->logits, .out = m->row_loss, .bytes = targets});
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)m->row_loss[i];
    return sum / (double)n;
}

int model_backward(struct model *m, const unsigned char *inputs, const unsigned char *targets)
{
    size_t n = m->config.batch * m->config.context, d = m->config.width;
    const float *last = m->a[m->config.layers - 1].x_out;
    run_rows(m, (struct rows){.body = loss_gradient_body, .count = n, .in = m->row_loss, .out = m->logits, .bytes = targets});
    linear_gradient(m, m->dbranch, m->g.head, m->logits, m->normed, m->w.head, n, d, VOCABULARY);
    memset(m->dx, 0, n * d * sizeof *m->dx);
    norm_gradient(m, m->dx, m->g.norm, m->dbranch, last, m->inverse, m->w.norm, n);

    for (size_t l = m->config.layers; l-- > 0;) {
        const struct layer_weights *w = &m->w.layer[l], *g = &m->g.layer[l];
        struct layer_activations *a = &m->a[l];
        const float *x_in = l ? m->a[l - 1].x_out : m->x0;

        linear_gradient(m, m->dwide, g->down, m->dx, a->active, w->down, n, 4 * d, d);
        run_rows(m, (struct rows){.body = square_relu_gradient_body, .count = n, .width = 4 * d, .in = a->up, .out = m->dwide});
        linear_gradient(m, m->dbranch, g->up, m->dwide, a->normed2, w->up, n, d, 4 * d);
        norm_gradient(m, m->dx, g->norm2, m->dbranch, a->x_mid, a->inverse2, w->norm2, n);

        linear_gradient(m, m->dbranch, g->proj, m->dx, a->o, w->proj, n, d, d);
        if (attention_backward(m->attention, a->qkv, a->o, a->lse, m->dbranch, m->dwide) != 0)
            return -1;
        rotate(m, m->dwide, -1);
        linear_gradient(m, m->dbranch, g->qkv, m->dwide, a->normed1, w->qkv, n, d, 3 * d);
        norm_gradient(m, m->dx, g->norm1, m->dbranch, x_in, a->inverse1, w->norm1, n);
    }
    memset(m->g.embed, 0, VOCABULARY * d * sizeof(float));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < d; j++)
            m->g.embed[inputs[i] * d + j] += m->dx[i * d + j];
    return 0;
}

/* ---- rows at positions of their own ---- */

void model_rows_layout(struct model_rows *r, const struct config *config, size_t most, struct arena *arena)
{
    size_t d = config->width;
    r->x = arena_floats(arena, most * d);
    r->normed = arena_floats(arena, most * d);
    r->branch = arena_floats(arena, most * d);
    r->wide = arena_floats(arena, most * 4 * d);
    r->inverse = arena_floats(arena, most);
    r->rotation = arena_floats(arena, most * HEAD_DIM);
    r->logits = arena_floats(arena, most * VOCABULARY);
}

int model_rows_forward(struct model *m, struct model_rows *r)
{
    size_t n = r->count, d = m->config.width;
    for (size_t i = 0; i < n; i++) {
        rotation_row(r->rotation + i * HEAD_DIM, r->positions[i]);
        memcpy(r->x + i * d, m->w.embed + r->bytes[i] * d, d * sizeof(float));
    }
    for (size_t l = 0; l < m->config.layers; l++) {
        const struct layer_weights *w = &m->w.layer[l];
        norm(m, r->normed, r->inverse, r->x, w->norm1, n);
        linear(m, r->wide, r->normed, w->qkv, n, d, 3 * d, 0);
        run_rows(m, (struct rows){.body = rotate_rows_body, .count = n, .width = 3 * d, .in = r->rotation, .out = r->wide});
        if (r->attend(r->user, l, r->wide, r->branch) != 0)
            return -1;
        linear(m, r->x, r->branch, w->proj, n, d, d, 1);

        norm(m, r->normed, r->inverse, r->x, w->norm2, n);
        linear(m, r->wide, r->normed, w->up, n, d, 4 * d, 0);
        run_rows(m, (struct rows){.body = square_relu_body, .count = n, .width = 4 * d, .in = r->wide, .out = r->wide});
        linear(m, r->x, r->wide, w->down, n, 4 * d, d, 1);
    }
    norm(m, r->normed, r->inverse, r->x, m->w.norm, n);
    linear(m, r->logits, r->normed, m->w.head, n, d, VOCABULARY, 0);
    return 0;
}

/* ---- generation ---- */

void decoder_layout(struct decoder *decoder, const struct config *config, struct arena *arena)
{
    size_t d = config->width;
    for (size_t l = 0; l < config->layers; l++) {
        decoder->keys[l] = arena_floats(arena, config->context * d);
        decoder->values[l] = arena_floats(arena, config->context * d);
    }
    decoder->lse = arena_floats(arena, config->heads);
    model_rows_layout(&decoder->row, config, 1, arena);
    decoder->logits = decoder->row.logits;
    decoder->position = 0;
}

struct decoding {
    struct decoder *decoder;
    struct model *model;
};

static int attend_ring(void *user, size_t layer, const float *qkv, float *o)
{
    const struct decoding *of = user;
    struct decoder *s = of->decoder;
    struct model *m = of->model;
    size_t d = m->config.width, slot = s->position % m->config.context;
    size_t keys = s->position < m->config.context ? s->position + 1 : m->config.context;
    memcpy(s->keys[layer] + slot * d, qkv + d, d * sizeof(float));
    memcpy(s->values[layer] + slot * d, qkv + 2 * d, d * sizeof(float));
    return attention_decode(m->attention, m->config.heads, keys, qkv, s->keys[layer], s->values[layer], o, s->lse);
}

int decoder_step(struct decoder *s, struct model *m, unsigned char byte)
{
    struct decoding user = {s, m};
    s->row.count = 1;
    s->row.bytes = &byte;
    s->row.positions = &s->position;
    s->row.attend = attend_ring;
    s->row.user = &user;
    if (model_rows_forward(m, &s->row) != 0)
        return -1;
    s->position++;
    return 0;
}
