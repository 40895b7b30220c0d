/* What a trial kernel is given: memory of the launch, and where the next line matters. */
#ifndef GLINT_TESTS_HOSTSIM_TRIALS_H
#define GLINT_TESTS_HOSTSIM_TRIALS_H

#include <stdint.h>

enum { TRIAL_WORDS = 256 };

struct trial_params {
    uint32_t *in;    /* TRIAL_WORDS words, written by the host */
    uint32_t *out;   /* TRIAL_WORDS words that nobody has written */
    uint32_t *flags; /* TRIAL_WORDS words, zero */
};

#endif
