/* What the user asked for. */
#ifndef EXAMPLES_TRAIN_TEXT_OPTIONS_H
#define EXAMPLES_TRAIN_TEXT_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

struct options {
    const char *text, *save, *load, *out, *prompt, *device;
    size_t steps, threads, length, layers, heads, context, batch;
    uint64_t seed;
    double seconds, temperature, rate;
    int check;
};

/* 0: run. 1: help was printed, stop with success. -1: a sentence about the mistake was printed. */
int options_read(struct options *options, int count, char **arguments);

#endif
