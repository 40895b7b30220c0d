/* Text from the model, one byte at a time. */
#ifndef EXAMPLES_TRAIN_TEXT_GENERATE_H
#define EXAMPLES_TRAIN_TEXT_GENERATE_H

#include "examples/train_text/model.h"

/* Prints the prompt and `length` bytes after it. 0, or -1 when attention failed. */
int generate(struct model *model, struct decoder *decoder, const char *prompt, size_t length, double temperature, uint64_t seed);

#endif
