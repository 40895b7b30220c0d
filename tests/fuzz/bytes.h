/* Bytes that a fuzzer made become numbers and problems, the same for every target. */
#ifndef GLINT_TESTS_FUZZ_BYTES_H
#define GLINT_TESTS_FUZZ_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "lib/glint.h"

struct bytes {
    const uint8_t *at;
    size_t left;
};

/* The next `count` bytes, little-endian; zeros when there are no more. */
uint64_t take(struct bytes *b, size_t count);

/* An edit of a struct of `count` words of 8 bytes: one of them anew, or one from `first` on a little more or less. */
void edit_words(struct bytes *b, void *words, size_t count, size_t first, uint64_t field);

/* A correct small problem of any row of the table, then at most so many edits: a field by its offset, or the pass. */
void read_problem(struct bytes *b, struct glint_problem *p, uint32_t *pass, int edits);

#endif
