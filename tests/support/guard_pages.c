#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "tests/support/guard_pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool all_canaries(const unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != CANARY)
            return false;
    }
    return true;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

struct guarded guarded_make(size_t bytes, size_t alignment, bool at_end)
{
    const size_t page = page_bytes(), inside = ((bytes > 0 ? bytes : 1) + page - 1) / page * page;
    struct guarded g = {NULL, NULL, inside + 2 * page, bytes};
    void *const mapping = mmap(NULL, g.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED || mprotect((unsigned char *)mapping + page, inside, PROT_READ | PROT_WRITE) != 0) {
        perror("guarded memory");
        abort();
    }
    g.mapping = mapping;
    memset(g.mapping + page, CANARY, inside);
    g.at = g.mapping + page + (at_end ? (inside - bytes) / alignment * alignment : 0);
    return g;
}

void guarded_read_only(const struct guarded *g)
{
    const size_t page = page_bytes();
    if (mprotect(g->mapping + page, g->mapped - 2 * page, PROT_READ) != 0)
        abort();
}

bool guarded_canaries_hold(const struct guarded *g)
{
    const size_t page = page_bytes();
    const unsigned char *const first = g->mapping + page, *const last = g->mapping + g->mapped - page;
    return all_canaries(first, (size_t)(g->at - first)) && all_canaries(g->at + g->bytes, (size_t)(last - (g->at + g->bytes)));
}

void guarded_free(struct guarded *g)
{
    munmap(g->mapping, g->mapped);
    memset(g, 0, sizeof *g);
}
