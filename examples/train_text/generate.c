#include "examples/train_text/generate.h"

#include <stdio.h>

#include "examples/train_text/text.h"

int generate(struct model *model, struct decoder *decoder, const char *prompt, size_t length, double temperature, uint64_t seed)
{
    uint64_t random = seed;
    decoder->position = 0;
    for (size_t i = 0; prompt[i]; i++) {
        text_show((unsigned char)prompt[i]);
        if (decoder_step(decoder, model, (unsigned char)prompt[i]) != 0)
            return -1;
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = text_draw(decoder->logits, temperature, &random);
        text_show(byte);
        if (decoder_step(decoder, model, byte) != 0)
            return -1;
    }
    putchar('\n');
    return 0;
}
