/* The rules of lib/cuda/policy.c beside other numbers: cells that differ in nothing else. */
#ifndef BENCH_POLICIES_H
#define BENCH_POLICIES_H

#include "bench/cells.h"

/* Says in cell->policy what the rules gave a planned cell of a GPU, and makes up to `most` cells that take other
 * numbers: heads of a part, sections, steps of a decode item. Returns how many; none where no rule has a say. */
size_t policies_of(struct cell *cell, struct cell *others, size_t most);

#endif
