/* Put in front of tests that open contexts with the default options: those of a process that may use AMX. */
#ifndef GLINT_TESTS_AMX_PERMITTED_H
#define GLINT_TESTS_AMX_PERMITTED_H

#define _GNU_SOURCE /* as the tests themselves do, which come after */
#include "lib/glint.h"

#undef GLINT_OPTIONS_INIT
#define GLINT_OPTIONS_INIT                                                                           \
    {                                                                                                \
        sizeof(struct glint_options), GLINT_DEVICE_AUTO, 0, GLINT_ISA_ANY, {0, 0, NULL, NULL}, 1, 0, \
    }

#endif
