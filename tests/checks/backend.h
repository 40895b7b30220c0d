/* Where a variant under test runs: memory, a context, and the calls. The checks reach a device through this table
 * alone. A GPU, a simulator or a stand-in plugs in without touching a check: write one `struct backend`, return it from
 * test_backend(), and link that file in place of tests/checks/backend_host.c. */
#ifndef GLINT_TESTS_BACKEND_H
#define GLINT_TESTS_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/glint.h"

/* What lies beyond a buffer. Fences are for backends with `fences`; others are only asked for FENCE_NONE. */
enum fence { FENCE_NONE, FENCE_BEFORE, FENCE_AFTER };

struct backend {
    const char *name;
    bool executors; /* runs on a glint_executor: the same bits are required for any number of lanes */
    bool fences;    /* can put an inaccessible page flush against a buffer's start or end */
    bool exact;     /* reports every access outside of an allocation itself: buffers need no margins to watch */
    bool sparse;    /* memory costs nothing until it is used, so tensors may be spread over many GiB */
    void *stream;   /* given to every call */

    /* A context on the device with this executor (NULL: the default). Closed by close, which also frees its storage. */
    enum glint_status (*open)(const struct glint_executor *executor, struct glint_context **context);
    void (*close)(struct glint_context *context);
    /* Plans made from now on are those of a device with so many multiprocessors; 0: with as many as there are. NULL: a
     * CPU. */
    void (*plan_for)(struct glint_context *context, uint32_t multiprocessors);

    /* Device memory aligned to 256 bytes (FENCE_AFTER: to `alignment`), contents undefined; NULL when there is none. */
    void *(*alloc)(size_t bytes, size_t alignment, enum fence fence);
    void (*release)(void *memory);
    void (*copy_in)(void *device, const void *host, size_t bytes);
    void (*copy_out)(void *host, const void *device, size_t bytes);
    /* Declares the bytes uninitialised: reading one before it is written is a fault from now on. NULL for devices that
     * cannot tell. */
    void (*forget)(void *device, size_t bytes);
    /* Waits for the stream. NULL when all went well, else a sentence. */
    const char *(*finish)(void);

    uint32_t (*variant_count)(void);
    enum glint_status (*variant_at)(uint32_t index, struct glint_variant_info *info);
    enum glint_status (*variant_available)(const struct glint_context *context, uint32_t index);
    enum glint_status (*plan)(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                              uint32_t index, struct glint_plan *plan);
    enum glint_status (*forward)(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                 size_t workspace_bytes, void *stream);
    enum glint_status (*backward)(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                  size_t workspace_bytes, void *stream);
    const char *(*status_name)(enum glint_status status);
};

/* The backend that this test was linked with. */
const struct backend *test_backend(void);

#endif
