/* What libFuzzer calls, and replay.c in its place. */
#ifndef GLINT_TESTS_FUZZ_FUZZ_H
#define GLINT_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
