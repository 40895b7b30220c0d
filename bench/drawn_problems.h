/* Problems drawn from a seed, all of which a context accepts. */
#ifndef GLINT_BENCH_DRAWN_PROBLEMS_H
#define GLINT_BENCH_DRAWN_PROBLEMS_H

#include <stdint.h>

#include "glint.h"

struct drawn_problem {
    struct glint_problem problem;
    enum glint_pass pass;
};

/* Problem number `index` of a seed: for a row of the table that the context's device runs, with lengths from 1 to 2^15,
 * either order of dimensions, heads in groups, some in a canonical order, with sinks, with lengths in the call, ragged,
 * or with K and V in pages. The same at every call. Nothing is drawn of a context without such rows: 0. */
int draw_problem(const struct glint_context *context, uint64_t seed, uint64_t index, struct drawn_problem *drawn);

#endif
