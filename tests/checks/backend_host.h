/* The memory half of the host backend: for backends that compute on the host but call something else than the
 * library. */
#ifndef GLINT_TESTS_BACKEND_HOST_H
#define GLINT_TESTS_BACKEND_HOST_H

#include "tests/checks/backend.h"

void *host_alloc(size_t bytes, size_t alignment, enum fence fence);
void host_release(void *memory);
void host_copy(void *to, const void *from, size_t bytes);
const char *host_finish(void);

#endif
