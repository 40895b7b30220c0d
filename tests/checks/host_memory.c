/* Host buffers, with an inaccessible page flush against one end when asked for. */
#include <stdlib.h>
#include <string.h>

#include "tests/checks/backend_host.h"
#include "tests/support/guard_pages.h"

/* What host_release must undo. */
struct buffer {
    void *memory;
    struct guarded guarded; /* no mapping: memory came from aligned_alloc */
};
enum { BUFFERS = 256 };
static struct buffer buffers[BUFFERS];

void *host_alloc(size_t bytes, size_t alignment, enum fence fence)
{
    if (bytes == 0)
        bytes = 1;
    struct buffer *free_one = buffers;
    while (free_one < buffers + BUFFERS && free_one->memory != NULL)
        free_one++;
    if (free_one == buffers + BUFFERS)
        return NULL;
    struct buffer made = {0};
    if (fence == FENCE_NONE) {
        made.memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    } else {
        made.guarded = guarded_make(bytes, alignment, fence == FENCE_AFTER);
        made.memory = made.guarded.at;
    }
    *free_one = made;
    return made.memory;
}

void host_release(void *memory)
{
    for (size_t i = 0; i < BUFFERS && memory != NULL; i++)
        if (buffers[i].memory == memory) {
            if (buffers[i].guarded.mapping == NULL)
                free(memory);
            else
                guarded_free(&buffers[i].guarded);
            buffers[i].memory = NULL;
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
