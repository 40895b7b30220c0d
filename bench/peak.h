/* How many floating-point operations a second this machine does at most, with one instruction set's vectors, and how
 * many bytes a second it reads. */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

#include <stddef.h>
#include <stdint.h>

#include "lib/glint.h"

/* Runs independent chains of multiply-adds (separate multiplies and adds where the instruction set has no FMA) in
 * registers on all the executor's threads for about `seconds`, and returns FLOP/s; 0 for an instruction set that this
 * build or CPU does not have. */
double peak_flops(enum glint_isa isa, const struct glint_executor *executor, double seconds);

/* Reads `bytes` bytes of `a` and as many of `b`, a contiguous share of each for every one of the executor's threads,
 * again and again for about `seconds`, and returns milliseconds for all of them once; 0 as above. */
double read_ms(enum glint_isa isa, const struct glint_executor *executor, const void *a, const void *b, size_t bytes,
               double seconds);

#endif
