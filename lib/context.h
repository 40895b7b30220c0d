/* The context, and the seam between the core and the families of kernels. Internal: not installed.
 *
 * Nothing here may name a kernel or a variant: the core knows rows of the table and the functions of lib/families.c only. */
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

struct glint_cuda;
struct glint_cuda_driver;

struct glint_context {
    uint64_t magic;
    uint32_t device; /* GLINT_DEVICE_CPU or GLINT_DEVICE_CUDA */
    uint32_t isas;   /* CPU: bit mask of 1 << enum glint_isa that may be used */
    uint32_t isa;    /* CPU: the best of them */
    uint32_t variants_loaded;
    int32_t driver_error;           /* of a failed glint_context_init */
    struct glint_executor executor; /* CPU: as given; GPU: its concurrency is the number of multiprocessors */
    struct glint_cuda *cuda;        /* NULL on the CPU; lives behind the context in the same storage */
};

static inline const struct glint_executor *glint_context_executor(const struct glint_context *context)
{
    return &context->executor;
}

/* How many bodies run at a time on the context's device: sizes the workspace and the launch. */
static inline uint32_t glint_context_concurrency(const struct glint_context *context)
{
    return context->executor.concurrency;
}

/* glint_context_init with the driver's entries given (copied) instead of looked up: a simulator's, or a test's that fails on purpose. */
enum glint_status glint_context_init_with_driver(void *storage, size_t storage_bytes, const struct glint_options *options,
                                                 const struct glint_cuda_driver *driver, struct glint_context **context);

struct glint_family_ops {
    const char *name;
    glint_family_plan_fn *plan;
    glint_family_run_fn *run;
    /* Can this context's device run the row? */
    bool (*available)(const struct glint_context *context, uint32_t index);
    /* Copies between host memory and the memory that the device computes on; returns when done. For the self test. */
    enum glint_status (*copy_in)(const struct glint_context *context, void *device, const void *host, size_t bytes, void *stream);
    enum glint_status (*copy_out)(const struct glint_context *context, void *host, const void *device, size_t bytes, void *stream);
};

/* Indexed by enum glint_family; a family that this build lacks has no functions. */
extern const struct glint_family_ops glint_families[GLINT_FAMILY_COUNT];

#endif
