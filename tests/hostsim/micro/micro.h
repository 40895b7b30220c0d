/* What every micro-kernel is given: words to read, words to write, small numbers, and at most one tensor map. */
#ifndef GLINT_HOSTSIM_MICRO_H
#define GLINT_HOSTSIM_MICRO_H

#include <stdint.h>

#include "lib/device/tensor_map.h"

struct micro_params {
    struct tensor_map map;
    const uint32_t *in;
    uint32_t *out;
    uint32_t arg[12];
};

#endif
