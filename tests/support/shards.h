/* The part of a test that this process has, where Bazel shares the test out. */
#ifndef GLINT_TESTS_SHARDS_H
#define GLINT_TESTS_SHARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct shard {
    size_t index, count;
};

static inline size_t shard_number(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

/* Tells Bazel, too, that the program shards. */
static inline struct shard shard_of_process(void)
{
    const char *path = getenv("TEST_SHARD_STATUS_FILE");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file != NULL)
        fclose(file);
    return (struct shard){shard_number("TEST_SHARD_INDEX", 0), shard_number("TEST_TOTAL_SHARDS", 1)};
}

static inline bool shard_has(const struct shard *shard, size_t number)
{
    return shard->count <= 1 || number % shard->count == shard->index;
}

#endif
