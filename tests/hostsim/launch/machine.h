/* What tiles.c runs on: the simulator (machine_hostsim.c), or a GPU (machine_device.c). */
#ifndef GLINT_TESTS_LAUNCH_MACHINE_H
#define GLINT_TESTS_LAUNCH_MACHINE_H

#include <stddef.h>

#include "lib/glint.h"

enum { MACHINE_WAYS = 3 };

/* A context on it, in `storage`. Ends the program with status 77 where there is none that runs sm_90a. */
struct glint_context *machine_open(void *storage, size_t storage_bytes);

void *machine_alloc(size_t bytes);
void machine_free(void *memory);
void machine_put(void *to, const void *from, size_t bytes);
void machine_get(void *to, const void *from, size_t bytes);

/* The call, in one of several ways that must give the same: other seeds in the simulator; on a GPU in a stream,
 * replayed from a graph, and in the default stream. */
enum glint_status machine_forward(int way, const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                  size_t workspace_bytes);

/* What the machine found fault with in the last call; NULL: nothing. */
const char *machine_fault(void);

#endif
