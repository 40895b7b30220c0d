/* One block of memory for the whole program. A layout function runs twice over the same calls: first with base == NULL,
 * when arena_take only counts, then with the block in hand, when it places. So the count and the placement cannot
 * disagree, and after the second run nothing is ever allocated. */
#ifndef EXAMPLES_COMMON_ARENA_H
#define EXAMPLES_COMMON_ARENA_H

#include <stddef.h>

struct arena {
    unsigned char *base; /* NULL while counting; aligned to ARENA_ALIGNMENT otherwise */
    size_t used;         /* bytes */
};
#define ARENA_ALIGNMENT 256u /* GLINT_WORKSPACE_ALIGNMENT, so that any piece can be a workspace */

static inline void *arena_take(struct arena *arena, size_t bytes)
{
    unsigned char *piece = arena->base ? arena->base + arena->used : NULL;
    arena->used += (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    return piece;
}

static inline float *arena_floats(struct arena *arena, size_t count)
{
    return arena_take(arena, count * sizeof(float));
}

#endif
