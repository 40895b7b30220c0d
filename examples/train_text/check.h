/* The gradient of the whole model against finite differences, and generation against the whole model. */
#ifndef EXAMPLES_TRAIN_TEXT_CHECK_H
#define EXAMPLES_TRAIN_TEXT_CHECK_H

#include "examples/train_text/model.h"

/* For every parameter tensor, walks a small step both ways along (gradient + as much of a random direction), and
 * compares the change of the loss with what the gradient says. `saved` has room for all parameters. Prints a line a
 * tensor; returns how many differ. */
int check_gradient(struct model *model, const unsigned char *inputs, const unsigned char *targets, float *saved, float *direction);

/* Generates from the first window's bytes, one at a time, and compares each step's logits with those of one forward
 * over the whole window:
 * the number of steps that differ by more than rounding, or -1 when attention failed. */
int check_decode(struct model *model, struct decoder *decoder, const unsigned char *inputs, const unsigned char *targets);

#endif
