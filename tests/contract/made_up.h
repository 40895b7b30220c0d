/* The table of made_up.c. */
#ifndef GLINT_TESTS_CONTRACT_MADE_UP_H
#define GLINT_TESTS_CONTRACT_MADE_UP_H

#include <stddef.h>

#include "lib/backend.h"

extern uint32_t made_up_slow; /* what glint_cpu_slow answers */
/* Called in place of a kernel for each of its tasks, where it is not NULL. */
struct glint_cpu_call;
extern void (*made_up_task)(uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task);
/* The executor of contexts; one body after another where a test sets no other. */
extern void (*made_up_executor)(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument);
extern uint32_t made_up_rows __asm__("glint_variants_count"); /* to the library a constant: lib/variant.h */

/* One at a time: each is opened where the one before it was. */
struct glint_context *made_up_context(uint32_t concurrency, uint32_t max_isa, uint32_t amx);

#endif
