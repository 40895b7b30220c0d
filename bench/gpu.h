/* The GPU side of the benchmark: memory of a device, and a stopwatch of the device's own events. */
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include "bench/cells.h"

/* A machine that is the first GPU (CUDA_VISIBLE_DEVICES chooses another), opened when first asked for; NULL with a
 * sentence. */
struct machine *gpu_machine(char *reason, size_t reason_bytes);

void *gpu_memory(struct machine *machine, size_t bytes);
void gpu_release(struct machine *machine, void *memory);
void gpu_put(struct machine *machine, void *to, const void *from, size_t bytes);

/* Milliseconds of one of the calls that `again` makes, each of which must be enqueued on machine->stream: between two
 * events on the stream, around as many calls as last `least_ms`. Negative when `again` does not return GLINT_OK. */
double gpu_time(struct machine *machine, double least_ms, enum glint_status (*again)(void *what), void *what);

#endif
