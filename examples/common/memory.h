/* All memory of a program, taken at its start: one array of the host's and, for a GPU, a block of the same size there,
 * laid out alike, so that every tensor has a twin. Without a GPU both are the same and nothing is copied. */
#ifndef EXAMPLES_COMMON_MEMORY_H
#define EXAMPLES_COMMON_MEMORY_H

#include <stddef.h>

#include "examples/common/gpu.h"

struct memory {
    unsigned char *host, *device; /* aligned to 256 */
    size_t bytes, used;           /* of each; set `used` back to give memory back */
    struct gpu gpu;               /* not open: device is host */
};

/* Opens the first GPU and takes the block there. 0, or -1 with the reason in memory->gpu.reason; gpu_close gives it
 * back. */
int memory_open_gpu(struct memory *memory);

/* The next `bytes`, aligned to 256, as an address for Glint; NULL when they are not there. */
void *memory_take(struct memory *memory, size_t bytes);

/* The twin of an address, which the host may read and write. */
void *memory_host(const struct memory *memory, const void *address);

/* Copies from the host's twin to `address`, and back. 0, or -1 when the driver refused: the GPU's reason says why. */
int memory_put(struct memory *memory, void *address, size_t bytes);
int memory_get(struct memory *memory, const void *address, size_t bytes);

#endif
