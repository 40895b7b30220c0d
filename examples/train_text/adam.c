#include "examples/train_text/adam.h"

#include <math.h>
#include <string.h>

static const double CLIP_NORM = 1.0, DECAY = 0.1;
static const float BETA_MEAN = 0.9F, BETA_SQUARE = 0.98F, EPSILON = 1e-8F;

void adam_layout(struct adam *adam, const struct model *model, struct arena *arena)
{
    adam->mean = arena_floats(arena, model->parameter_floats);
    adam->square = arena_floats(arena, model->parameter_floats);
}

void adam_reset(struct adam *adam, const struct model *model)
{
    memset(adam->mean, 0, model->parameter_floats * sizeof(float));
    memset(adam->square, 0, model->parameter_floats * sizeof(float));
    adam->step = 0;
}

static double gradient_norm(const struct model *model)
{
    double sum = 0;
    for (size_t i = 0; i < model->parameter_floats; i++)
        sum += (double)model->flat_gradient[i] * (double)model->flat_gradient[i];
    return sqrt(sum);
}

void adam_update(struct adam *adam, struct model *model, double learning_rate)
{
    double norm = gradient_norm(model), step = (double)++adam->step;
    float clip = norm > CLIP_NORM ? (float)(CLIP_NORM / norm) : 1;
    /* Both means start at zero; these factors take that bias away. */
    float rate = (float)(learning_rate / (1 - pow((double)BETA_MEAN, step)));
    float unbias = (float)(1 / (1 - pow((double)BETA_SQUARE, step)));
    for (size_t p = 0; p < model->parameter_count; p++) {
        const struct parameter *tensor = &model->parameter[p];
        float keep = tensor->is_matrix ? (float)(1 - learning_rate * DECAY) : 1;
        for (size_t i = tensor->offset; i < tensor->offset + tensor->count; i++) {
            float g = clip * model->flat_gradient[i];
            adam->mean[i] = BETA_MEAN * adam->mean[i] + (1 - BETA_MEAN) * g;
            adam->square[i] = BETA_SQUARE * adam->square[i] + (1 - BETA_SQUARE) * g * g;
            model->flat[i] = keep * model->flat[i] - rate * adam->mean[i] / (sqrtf(unbias * adam->square[i]) + EPSILON);
        }
    }
}
