/* Host buffers, with an inaccessible page flush against one end when asked for. */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/checks/backend_host.h"

/* What host_release must undo. Few buffers live at a time. */
struct mapping {
    void *memory, *base;
    size_t bytes; /* of the mapping; 0: base came from aligned_alloc */
};
enum { MAPPINGS = 64 };
static struct mapping mappings[MAPPINGS];

static void *remember(void *memory, void *base, size_t bytes)
{
    for (size_t i = 0; i < MAPPINGS; i++)
        if (mappings[i].memory == NULL) {
            mappings[i] = (struct mapping){memory, base, bytes};
            return memory;
        }
    return NULL;
}

static void *alloc_fenced(size_t bytes, size_t alignment, enum fence fence)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t body = (bytes + page - 1) / page * page;
    unsigned char *base = mmap(NULL, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + page, body, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    const size_t slack = fence == FENCE_AFTER ? (body - bytes) / alignment * alignment : 0;
    return remember(base + page + slack, base, body + 2 * page);
}

void *host_alloc(size_t bytes, size_t alignment, enum fence fence)
{
    if (bytes == 0)
        bytes = 1;
    if (fence != FENCE_NONE)
        return alloc_fenced(bytes, alignment, fence);
    void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    return memory == NULL ? NULL : remember(memory, memory, 0);
}

void host_release(void *memory)
{
    for (size_t i = 0; i < MAPPINGS && memory != NULL; i++)
        if (mappings[i].memory == memory) {
            if (mappings[i].bytes == 0)
                free(mappings[i].base);
            else
                munmap(mappings[i].base, mappings[i].bytes);
            mappings[i].memory = NULL;
            return;
        }
}

void host_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

const char *host_finish(void)
{
    return NULL;
}
