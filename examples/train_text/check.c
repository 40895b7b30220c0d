#include "examples/train_text/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "examples/train_text/text.h"

/* Central differences of a float32 loss. Their error falls as h^2, so those of h and h / 2 give one without that term
 * (Richardson); what is left is rounding, below 1e-3 at this step, which is a fraction of the tensor's size. */
static const double STEP = 0x1p-10, GAIN_STEP = 0x1p-7, TOLERANCE = 0.002;
static const float SHARPEN = 6;
/* Of the largest logit. Both sides round at 2^-24 in each layer, in another order; a key too many or too few changes
 * the first digits. */
static const double DECODE_TOLERANCE = 1e-4;

int check_gradient(struct model *m, const unsigned char *inputs, const unsigned char *targets, float *saved, float *direction)
{
    int failures = 0;
    uint64_t random = 7;
    /* At the start values attention is nearly uniform, and a wrong gradient of Q or K would hardly show. */
    for (size_t p = 0; p < m->parameter_count; p++)
        for (size_t i = 0; i < m->parameter[p].count && strcmp(m->parameter[p].name, "qkv") == 0; i++)
            m->flat[m->parameter[p].offset + i] *= SHARPEN;
    memcpy(saved, m->flat, m->parameter_floats * sizeof *saved);
    printf("%-9s%-7s%14s%14s%12s\n", "tensor", "layer", "gradient", "differences", "error");
    for (size_t p = 0; p < m->parameter_count; p++) {
        const struct parameter *tensor = &m->parameter[p];
        float *values = m->flat + tensor->offset, *start = saved + tensor->offset;
        const float *gradient = m->flat_gradient + tensor->offset;

        if (isnan(model_forward(m, inputs, targets)) || model_backward(m, inputs, targets) != 0)
            return -1;
        double gradient_square = 0, size_square = 0, noise_square = 0, slope = 0;
        for (size_t i = 0; i < tensor->count; i++) {
            direction[i] = (float)(random_unit(&random) - 0.5);
            gradient_square += (double)gradient[i] * (double)gradient[i];
            size_square += (double)start[i] * (double)start[i];
            noise_square += (double)direction[i] * (double)direction[i];
        }
        double gradient_size = sqrt(gradient_square), noise_size = sqrt(noise_square);
        for (size_t i = 0; i < tensor->count; i++) {
            direction[i] = (float)((double)gradient[i] / gradient_size + (double)direction[i] / noise_size);
            slope += (double)direction[i] * (double)gradient[i];
        }
        double quotient[2]; /* with step h and with h / 2 */
        for (int half = 0; half < 2; half++) {
            double h = (tensor->is_matrix ? STEP : GAIN_STEP) * sqrt(size_square) / (1 + half), loss[2];
            for (int side = 0; side < 2; side++) {
                for (size_t i = 0; i < tensor->count; i++)
                    values[i] = start[i] + (float)(side ? h : -h) * direction[i];
                loss[side] = model_forward(m, inputs, targets);
            }
            quotient[half] = (loss[1] - loss[0]) / (2 * h);
        }
        memcpy(values, start, tensor->count * sizeof *values);
        double difference = (4 * quotient[1] - quotient[0]) / 3, error = fabs(difference - slope) / fabs(slope);
        int good = error <= TOLERANCE; /* false for NaN too */
        failures += !good;
        printf("%-9s%-7zu%14.6e%14.6e%12.1e%s\n", tensor->name, tensor->layer, slope, difference, error, good ? "" : "  DIFFERS");
    }
    printf("%zu tensors, %d differ by more than %g\n", m->parameter_count, failures, TOLERANCE);
    return failures;
}

int check_decode(struct model *m, struct decoder *decoder, const unsigned char *inputs, const unsigned char *targets)
{
    int failures = 0;
    double worst = 0;
    if (isnan(model_forward(m, inputs, targets)))
        return -1;
    decoder->position = 0;
    for (size_t t = 0; t < m->config.context; t++) {
        if (decoder_step(decoder, m, inputs[t]) != 0)
            return -1;
        const float *whole = m->logits + t * VOCABULARY;
        double largest = 0, difference = 0;
        for (size_t i = 0; i < VOCABULARY; i++) {
            largest = fmax(largest, fabs((double)whole[i]));
            difference = fmax(difference, fabs((double)decoder->logits[i] - (double)whole[i]));
        }
        failures += !(difference <= DECODE_TOLERANCE * largest);
        worst = fmax(worst, difference / largest);
    }
    printf("%zu steps of decode, at most %.1e off the whole forward, %d differ by more than %g\n", m->config.context, worst,
           failures, DECODE_TOLERANCE);
    return failures;
}
