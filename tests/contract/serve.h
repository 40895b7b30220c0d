/* Problems that a row of a table serves. */
#ifndef GLINT_TESTS_CONTRACT_SERVE_H
#define GLINT_TESTS_CONTRACT_SERVE_H

#include <stddef.h>

#include "lib/backend.h"

/* Sets what the row asks of a problem, the `number`-th of its kind, beside lengths. */
void serve(struct glint_problem *p, const struct glint_variant *v, size_t number);

#endif
