/* Memory that ends, or begins, where a page begins that nobody may touch. */
#ifndef GLINT_TESTS_GUARD_PAGES_H
#define GLINT_TESTS_GUARD_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#define CANARY 0xC5

struct guarded { /* `bytes` at `at`, flush with an inaccessible page at one end; the slack at the other end is canaries */
    unsigned char *mapping, *at;
    size_t mapped, bytes;
};

/* All bytes are canaries at first. at_end: the last byte is the last accessible one, as far as `alignment` lets it be.
 * Ends the process when there is no memory. */
struct guarded guarded_make(size_t bytes, size_t alignment, bool at_end);
void guarded_read_only(const struct guarded *g);
bool guarded_canaries_hold(const struct guarded *g);
void guarded_free(struct guarded *g);

/* Whether that many bytes are canaries still. */
bool all_canaries(const unsigned char *at, size_t bytes);

#endif
