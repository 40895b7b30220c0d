/* Executors that differ in everything that the library may not depend on: number, order and threads. */
#ifndef GLINT_TESTS_EXECUTORS_H
#define GLINT_TESTS_EXECUTORS_H

#include "lib/glint.h"
#include "tests/checks/check.h"

/* NULL for LANES_SERIAL: the library's default. */
const struct glint_executor *test_executor(enum lanes lanes);

#endif
