/* Adam with decoupled weight decay (Loshchilov and Hutter, arXiv:1711.05101), after clipping the gradient's norm. */
#ifndef EXAMPLES_TRAIN_TEXT_ADAM_H
#define EXAMPLES_TRAIN_TEXT_ADAM_H

#include "examples/train_text/model.h"

struct adam {
    float *mean, *square; /* [parameter_floats]: running means of the gradient and of its square */
    uint64_t step;        /* updates done */
};

void adam_layout(struct adam *adam, const struct model *model, struct arena *arena);
void adam_reset(struct adam *adam, const struct model *model);

/* One update of model->flat from model->flat_gradient. */
void adam_update(struct adam *adam, struct model *model, double learning_rate);

#endif
