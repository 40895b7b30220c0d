#include "examples/train_text/generate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "examples/train_text/text.h"

/* A byte drawn with probability proportional to exp(logit / temperature); the likeliest one at temperature 0. */
static unsigned char draw(const float *logits, double temperature, uint64_t *random)
{
    size_t best = 0;
    for (size_t i = 1; i < VOCABULARY; i++)
        if (logits[i] > logits[best])
            best = i;
    if (temperature <= 0)
        return (unsigned char)best;
    double weight[VOCABULARY], sum = 0;
    for (size_t i = 0; i < VOCABULARY; i++)
        sum += weight[i] = exp(((double)logits[i] - (double)logits[best]) / temperature);
    double left = random_unit(random) * sum;
    for (size_t i = 0; i < VOCABULARY; i++)
        if ((left -= weight[i]) < 0)
            return (unsigned char)i;
    return (unsigned char)best;
}

/* Bytes that would move a terminal's cursor or colours are shown as dots. */
static void show(unsigned char byte)
{
    putchar((byte < 32 && byte != '\n' && byte != '\t') || byte == 127 ? '.' : byte);
}

int generate(struct model *model, struct decoder *decoder, const char *prompt, size_t length, double temperature, uint64_t seed)
{
    uint64_t random = seed;
    decoder->position = 0;
    for (size_t i = 0; prompt[i]; i++) {
        show((unsigned char)prompt[i]);
        if (decoder_step(decoder, model, (unsigned char)prompt[i]) != 0)
            return -1;
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = draw(decoder->logits, temperature, &random);
        show(byte);
        if (decoder_step(decoder, model, byte) != 0)
            return -1;
    }
    putchar('\n');
    return 0;
}
