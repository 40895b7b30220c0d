/* The nine tensors of a call, by number. */
#ifndef GLINT_TESTS_TENSOR_H
#define GLINT_TESTS_TENSOR_H

#include <stdbool.h>

#include "lib/glint.h"

enum tensor { Q, K, V, O, LSE, DOUT, DQ, DK, DV, TENSORS };

extern const char *const tensor_name[TENSORS];  /* "Q", ..., "dV" */
extern const char *const tensor_field[TENSORS]; /* "q", ..., "dv": the fields of glint_problem and glint_tensors */

bool pass_reads(enum glint_pass pass, enum tensor t);
bool pass_writes(enum glint_pass pass, enum tensor t);
bool pass_uses(enum glint_pass pass, enum tensor t); /* reads or writes */

/* The tensors that a pass writes, ended by TENSORS. */
const enum tensor *pass_outputs(enum glint_pass pass);

void *tensor_get(const struct glint_tensors *tensors, enum tensor t);
void tensor_set(struct glint_tensors *tensors, enum tensor t, void *address);

#endif
