/* How many floating-point operations a second this machine does at most, with one instruction set's vectors. */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

#include <stdint.h>

#include "lib/glint.h"

/* Runs independent chains of multiply-adds (separate multiplies and adds where the instruction set has no FMA) in registers on all the
 * executor's threads for about `seconds`, and returns FLOP/s; 0 for an instruction set that this build or CPU does not have. */
double peak_flops(enum glint_isa isa, const struct glint_executor *executor, double seconds);

#endif
