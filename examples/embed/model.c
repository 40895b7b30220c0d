#include "examples/embed/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "examples/common/matmul.h"
#include "examples/embed/json.h"

/* ---- the files ---- */

static int json_next_is(struct json *json, const char *word)
{
    const char *text;
    const ptrdiff_t length = json_string(json, &text);
    return json_is(text, length, word);
}

static int read_config(struct model *model, const char *path)
{
    size_t bytes;
    const unsigned char *file = file_open(path, &bytes, model->reason, sizeof model->reason);
    if (!file)
        return -1;
    struct json json = json_open((const char *)file, bytes);
    int gelu = 0, absolute = 1;
    const char *key;
    model->epsilon = 0;
    json_enter(&json, '{');
    for (int first = 1; json_more(&json, '{', first); first = 0) {
        const ptrdiff_t length = json_key(&json, &key);
        if (json_is(key, length, "num_attention_heads"))
            model->heads = (size_t)json_count(&json);
        else if (json_is(key, length, "num_hidden_layers"))
            model->layers = (size_t)json_count(&json);
        else if (json_is(key, length, "layer_norm_eps"))
            model->epsilon = (float)json_number(&json);
        else if (json_is(key, length, "hidden_act"))
            gelu = json_next_is(&json, "gelu");
        else if (json_is(key, length, "position_embedding_type"))
            absolute = json_next_is(&json, "absolute");
        else
            json_skip(&json);
    }
    const char *wrong = json.wrong                                          ? "JSON with an object at its top"
                        : model->layers < 1 || model->layers > MODEL_LAYERS ? "num_hidden_layers from 1 to 64"
                        : model->heads < 1                                  ? "num_attention_heads of 1 or more"
                        : !(model->epsilon > 0 && isfinite(model->epsilon)) ? "a layer_norm_eps above 0"
                        : !gelu                                             ? "hidden_act \"gelu\""
                        : !absolute                                         ? "position_embedding_type \"absolute\""
                                                                            : NULL;
    if (wrong)
        snprintf(model->reason, sizeof model->reason, "'%s' should have %s", path, wrong);
    file_close(file, bytes);
    return wrong ? -1 : 0;
}

static const float *get(struct model *model, struct weights *weights, const char *name, size_t rows, size_t columns)
{
    const float *data = model->reason[0] ? NULL : weights_get(weights, name, rows, columns);
    if (!data && !model->reason[0])
        memcpy(model->reason, weights->reason, sizeof model->reason);
    return data;
}

static struct projection get_projection(struct model *model, struct weights *weights, const char *name, size_t outputs,
                                        size_t inputs)
{
    char full[128];
    struct projection p;
    snprintf(full, sizeof full, "%s.weight", name);
    p.weight = get(model, weights, full, outputs, inputs);
    snprintf(full, sizeof full, "%s.bias", name);
    p.bias = get(model, weights, full, 1, outputs);
    return p;
}

static struct norm get_norm(struct model *model, struct weights *weights, const char *name)
{
    char full[128];
    struct norm n;
    snprintf(full, sizeof full, "%s.weight", name);
    n.gain = get(model, weights, full, 1, model->width);
    snprintf(full, sizeof full, "%s.bias", name);
    n.bias = get(model, weights, full, 1, model->width);
    return n;
}

int model_open(struct model *model, struct weights *weights, const char *config_path)
{
    memset(model, 0, sizeof *model);
    if (read_config(model, config_path) != 0)
        return -1;
    size_t unused;
    if (weights_shape(weights, "embeddings.word_embeddings.weight", &model->pieces, &model->width) != 0 ||
        weights_shape(weights, "embeddings.position_embeddings.weight", &model->places, &unused) != 0 ||
        weights_shape(weights, "encoder.layer.0.intermediate.dense.weight", &model->inner, &unused) != 0) {
        memcpy(model->reason, weights->reason, sizeof model->reason);
        return -1;
    }
    if (model->width % model->heads != 0 || model->width / model->heads % 8 != 0) {
        snprintf(model->reason, sizeof model->reason, "a head has %zu / %zu elements, and Glint's head dims are multiples of 8",
                 model->width, model->heads);
        return -1;
    }
    model->word = get(model, weights, "embeddings.word_embeddings.weight", model->pieces, model->width);
    model->position = get(model, weights, "embeddings.position_embeddings.weight", model->places, model->width);
    model->segment = get(model, weights, "embeddings.token_type_embeddings.weight", 2, model->width);
    model->first = get_norm(model, weights, "embeddings.LayerNorm");
    for (size_t l = 0; l < model->layers; l++) {
        struct layer *layer = &model->layer[l];
        struct {
            struct projection *to;
            const char *name;
            size_t outputs, inputs;
        } projections[] = {{&layer->q, "attention.self.query", model->width, model->width},
                           {&layer->k, "attention.self.key", model->width, model->width},
                           {&layer->v, "attention.self.value", model->width, model->width},
                           {&layer->out, "attention.output.dense", model->width, model->width},
                           {&layer->up, "intermediate.dense", model->inner, model->width},
                           {&layer->down, "output.dense", model->width, model->inner}};
        char name[96];
        for (size_t i = 0; i < sizeof projections / sizeof projections[0]; i++) {
            snprintf(name, sizeof name, "encoder.layer.%zu.%s", l, projections[i].name);
            *projections[i].to = get_projection(model, weights, name, projections[i].outputs, projections[i].inputs);
        }
        snprintf(name, sizeof name, "encoder.layer.%zu.attention.output.LayerNorm", l);
        layer->after_attention = get_norm(model, weights, name);
        snprintf(name, sizeof name, "encoder.layer.%zu.output.LayerNorm", l);
        layer->after_mlp = get_norm(model, weights, name);
    }
    return model->reason[0] ? -1 : 0;
}

/* ---- attention ---- */

int model_plan(struct model *model, const struct glint_context *context, const struct glint_executor *executor, size_t sentences,
               size_t rows, size_t longest)
{
    model->context = context;
    model->executor = executor;
    model->sentences = sentences;
    model->rows = rows;
    struct glint_problem problem;
    glint_problem_bshd(&problem, GLINT_F32, (int64_t)sentences, (int64_t)longest, (int64_t)longest, (int64_t)model->heads,
                       (int64_t)model->heads, (int64_t)(model->width / model->heads));
    problem.lengths = GLINT_LENGTHS_RAGGED;
    problem.rows_q = problem.rows_k = (int64_t)rows;
    const enum glint_status status = glint_plan(context, &problem, GLINT_FORWARD, &model->plan);
    if (status != GLINT_OK)
        glint_explain(context, &problem, GLINT_FORWARD, model->reason, sizeof model->reason, NULL);
    model->workspace_bytes = model->plan.workspace_bytes;
    return status == GLINT_OK ? 0 : -1;
}

void model_layout(struct model *model, struct arena *arena)
{
    const size_t elements = model->rows * model->width;
    model->x = arena_floats(arena, elements);
    model->q = arena_floats(arena, elements);
    model->k = arena_floats(arena, elements);
    model->v = arena_floats(arena, elements);
    model->attention = arena_floats(arena, elements);
    model->projected = arena_floats(arena, elements);
    model->up = arena_floats(arena, model->rows * model->inner);
    model->lse = arena_floats(arena, model->rows * model->heads);
    model->scratch = arena_take(arena, matmul_scratch_bytes(model->executor->concurrency));
    model->first_row = arena_take(arena, (model->sentences + 1) * sizeof *model->first_row);
    model->workspace = arena_take(arena, model->workspace_bytes);
}

static int attend(struct model *model)
{
    struct glint_tensors tensors = GLINT_TENSORS_INIT;
    tensors.q = model->q;
    tensors.k = model->k;
    tensors.v = model->v;
    tensors.o = model->attention;
    tensors.lse = model->lse;
    tensors.first_q = tensors.first_k = model->first_row;
    const enum glint_status status = glint_forward(&model->plan, &tensors, model->workspace, model->workspace_bytes, NULL);
    if (status != GLINT_OK)
        snprintf(model->reason, sizeof model->reason, "attention: %s", glint_status_sentence(status));
    return status == GLINT_OK ? 0 : -1;
}

/* ---- rows ---- */

/* What is done to each row by itself, on all threads: `each(model, argument, row)`. */
struct by_row {
    void (*each)(const struct by_row *work, size_t row);
    const struct model *model;
    const void *what;
    size_t rows, a_part;
};

static void rows_part(void *argument, uint32_t part)
{
    const struct by_row *work = argument;
    const size_t end = (part + 1) * work->a_part < work->rows ? (part + 1) * work->a_part : work->rows;
    for (size_t row = part * work->a_part; row < end; row++)
        work->each(work, row);
}

static void by_rows(const struct model *model, size_t rows, void (*each)(const struct by_row *work, size_t row), const void *what)
{
    const uint32_t threads = model->executor->concurrency;
    struct by_row work = {each, model, what, rows, (rows + threads - 1) / threads};
    model->executor->parallel_for(model->executor->user, threads, rows_part, &work);
}

static void norm_row(const struct norm *norm, float *x, size_t width, float epsilon)
{
    float mean = 0, variance = 0;
    for (size_t i = 0; i < width; i++)
        mean += x[i];
    mean /= (float)width;
    for (size_t i = 0; i < width; i++)
        variance += (x[i] - mean) * (x[i] - mean);
    const float inverse = 1 / sqrtf(variance / (float)width + epsilon);
    for (size_t i = 0; i < width; i++)
        x[i] = (x[i] - mean) * inverse * norm->gain[i] + norm->bias[i];
}

struct embedding {
    const int32_t *tokens, *places;
};

static void embed_row(const struct by_row *work, size_t row)
{
    const struct model *m = work->model;
    const struct embedding *e = work->what;
    float *x = m->x + row * m->width;
    const float *word = m->word + (size_t)e->tokens[row] * m->width, *position = m->position + (size_t)e->places[row] * m->width;
    for (size_t i = 0; i < m->width; i++)
        x[i] = word[i] + position[i] + m->segment[i];
    norm_row(&m->first, x, m->width, m->epsilon);
}

/* x = norm(x + projected + bias) */
struct addition {
    const float *bias;
    const struct norm *norm;
};

static void add_row(const struct by_row *work, size_t row)
{
    const struct model *m = work->model;
    const struct addition *a = work->what;
    float *x = m->x + row * m->width;
    const float *projected = m->projected + row * m->width;
    for (size_t i = 0; i < m->width; i++)
        x[i] += projected[i] + a->bias[i];
    norm_row(a->norm, x, m->width, m->epsilon);
}

static void add_biases(const struct by_row *work, size_t row)
{
    const struct model *m = work->model;
    const struct layer *layer = work->what;
    float *q = m->q + row * m->width, *k = m->k + row * m->width, *v = m->v + row * m->width;
    for (size_t i = 0; i < m->width; i++) {
        q[i] += layer->q.bias[i];
        k[i] += layer->k.bias[i];
        v[i] += layer->v.bias[i];
    }
}

/* e^-y for 0 <= y < 87: 2^n p(f) with y = -(n + f) ln 2 and |f| <= 1/2; p is the Taylor series of 2^f, off by 2e-7 of itself. A compiler
 * makes vectors of it. */
static inline float exp_of_minus(float y)
{
    const float t = -1.44269504f * y, n = (t + 0x1.8p23f) - 0x1.8p23f, f = t - n;
    const float p =
        1 + f * (0.693147181f +
                 f * (0.240226507f + f * (0.0555041087f + f * (0.00961812911f + f * (0.00133335581f + f * 0.000154035304f)))));
    union {
        int32_t bits;
        float power;
    } scale = {.bits = ((int32_t)n + 127) << 23};
    return p * scale.power;
}

/* gelu(x) = x Phi(x) = x (1 + erf(x / sqrt 2)) / 2, with erf by Abramowitz and Stegun, 7.1.26: off by 1.5e-7 at
 * most. */
static void gelu_row(const struct by_row *work, size_t row)
{
    const struct model *m = work->model;
    const struct layer *layer = work->what;
    float *up = m->up + row * m->inner;
    for (size_t i = 0; i < m->inner; i++) {
        const float x = up[i] + layer->up.bias[i], z = fabsf(x) * 0.707106781f, y = z * z < 86.0f ? z * z : 86.0f;
        const float t = 1 / (1 + 0.3275911f * z);
        const float tail = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f)))) *
                           exp_of_minus(y); /* 1 - erf(z) */
        up[i] = 0.5f * x * (x < 0 ? tail : 2 - tail);
    }
}

/* ---- the whole ---- */

static void project(struct model *model, float *to, const float *from, struct projection p, size_t rows, size_t outputs,
                    size_t inputs)
{
    matmul(model->executor, to, (struct matrix){from, inputs, 1}, (struct matrix){p.weight, 1, inputs}, rows, outputs, inputs, 0,
           model->scratch);
}

static void mean_of(const struct model *model, size_t first, size_t end, float *embedding)
{
    double length = 0;
    for (size_t i = 0; i < model->width; i++) {
        double sum = 0;
        for (size_t row = first; row < end; row++)
            sum += (double)model->x[row * model->width + i];
        embedding[i] = (float)(sum / (double)(end - first));
        length += (double)embedding[i] * (double)embedding[i];
    }
    length = sqrt(length);
    for (size_t i = 0; i < model->width; i++)
        embedding[i] = (float)((double)embedding[i] / (length > 1e-12 ? length : 1e-12));
}

int model_embed(struct model *model, const int32_t *tokens, size_t count, float *embeddings)
{
    const size_t rows = (size_t)model->first_row[count], width = model->width;
    int32_t *places = (int32_t *)(void *)model->up; /* free until the first layer's MLP */
    for (size_t s = 0; s < count; s++)
        for (int32_t row = model->first_row[s]; row < model->first_row[s + 1]; row++)
            places[row] = row - model->first_row[s];
    for (size_t s = count; s < model->sentences; s++) /* sentences of no tokens fill up the batch that was planned */
        model->first_row[s + 1] = model->first_row[count];

    by_rows(model, rows, embed_row, &(struct embedding){tokens, places});
    for (size_t l = 0; l < model->layers; l++) {
        const struct layer *layer = &model->layer[l];
        project(model, model->q, model->x, layer->q, rows, width, width);
        project(model, model->k, model->x, layer->k, rows, width, width);
        project(model, model->v, model->x, layer->v, rows, width, width);
        by_rows(model, rows, add_biases, layer);
        if (attend(model) != 0)
            return -1;
        project(model, model->projected, model->attention, layer->out, rows, width, width);
        by_rows(model, rows, add_row, &(struct addition){layer->out.bias, &layer->after_attention});
        project(model, model->up, model->x, layer->up, rows, model->inner, width);
        by_rows(model, rows, gelu_row, layer);
        project(model, model->projected, model->up, layer->down, rows, width, model->inner);
        by_rows(model, rows, add_row, &(struct addition){layer->down.bias, &layer->after_mlp});
    }
    for (size_t s = 0; s < count; s++)
        mean_of(model, (size_t)model->first_row[s], (size_t)model->first_row[s + 1], embeddings + s * width);
    return 0;
}
