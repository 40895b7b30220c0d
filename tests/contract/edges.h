/* What edges.c is linked with beside a table. */
#ifndef GLINT_TESTS_CONTRACT_EDGES_H
#define GLINT_TESTS_CONTRACT_EDGES_H

#include "lib/glint.h"

/* A context of the table's device. */
struct glint_context *edges_context(void);

#endif
