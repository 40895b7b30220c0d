/* The context. Internal: not installed.
 *
 * Nothing here may name a kernel, a family or a variant: the core knows rows of the table and what lib/backend.h
 * says of them. */
#ifndef GLINT_CONTEXT_H
#define GLINT_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/glint.h"
#include "lib/variant.h"

#define GLINT_CONTEXT_OPEN UINT64_C(0x676c696e746f706e)
#define GLINT_CONTEXT_SHUT UINT64_C(0x676c696e74736874)
#define GLINT_CONTEXT_FAILED UINT64_C(0x676c696e74666c64) /* glint_context_init refused; keeps the driver's code */

struct glint_backend;

struct glint_context {
    uint64_t magic;
    uint64_t fingerprint; /* differs between contexts that would not choose the same rows: a plan keeps it */
    const struct glint_backend *backend;
    void *state; /* the backend's own, behind the context in the same storage */
    uint32_t variants_loaded;
    int32_t driver_error;           /* of a failed glint_context_init */
    struct glint_executor executor; /* CPU: as given; GPU: its concurrency is the number of multiprocessors */
};

/* How many bodies run at a time on the context's device: sizes the workspace and the launch. */
static inline uint32_t glint_context_concurrency(const struct glint_context *context)
{
    return context->executor.concurrency;
}

/* glint_context_init with the driver's entries given (struct glint_cuda_driver, copied) instead of looked up: a
 * simulator's, or a test's that fails on purpose. */
enum glint_status glint_context_init_with_driver(void *storage, size_t storage_bytes, const struct glint_options *options,
                                                 const void *driver, struct glint_context **context);

#endif
