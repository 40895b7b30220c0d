/* Where the arrays of a workspace lie: the one place where their sizes are multiplied and summed. Internal. */
#ifndef GLINT_LAYOUT_H
#define GLINT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* An array that is placed: `count` x `each` words of 4 bytes. */
struct glint_array {
    uint64_t count, each;
};

/* Places arrays one after another, each in whole lines of `line` words, from at[0] on, which is given and begins one.
 * at[i] gets where array i begins, in words, and at[arrays] where the last one ends. False when that is beyond
 * 2^63 - 1 bytes; then entries of at have changed. */
static inline bool glint_place_arrays(const struct glint_array *array, int arrays, uint64_t line, uint64_t *at)
{
    const uint64_t most = INT64_MAX / 4 / line * line;
    for (int i = 0; i < arrays; i++) { /* at[i] <= most, and both are whole lines */
        uint64_t words;
        if (__builtin_mul_overflow(array[i].count, array[i].each, &words) || words > most - at[i])
            return false;
        const uint64_t end = at[i] + (words + line - 1) / line * line;
        at[i + 1] = end;
    }
    return true;
}

#endif
