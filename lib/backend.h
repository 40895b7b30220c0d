/* The two seams under the core. A backend opens a device and plans, runs and copies on it; a family is a way to
 * write kernels for a backend. The core knows a backend and a family through these structs only, and reaches both
 * through the rows of the table: what no row names is not in the program. The CPU's backend alone is always there.
 * Internal: not installed. */
#ifndef GLINT_BACKEND_H
#define GLINT_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/glint.h"
#include "lib/variant.h"

struct glint_fault;
struct glint_gpu_tuning;
struct glint_text;

/* What a backend makes of a checked problem: the bytes are exact, the words are its own and go into
 * glint_plan.internal. */
#define GLINT_FAMILY_WORDS 30
struct glint_family_plan {
    size_t workspace_bytes;
    uint64_t word[GLINT_FAMILY_WORDS];
};

struct glint_backend {
    uint32_t device; /* GLINT_DEVICE_CPU or GLINT_DEVICE_CUDA */

    /* Bytes of its state behind the context, a constant of the table; context->state is aligned to
     * GLINT_CONTEXT_ALIGNMENT. */
    size_t (*size)(void);

    /* Opens the device that the checked options ask for, with context->state all zero. `driver`: the backend's own
     * table of its driver's entries in place of those that it would look up, or NULL. On failure nothing is held,
     * and context->driver_error is set. */
    enum glint_status (*open)(struct glint_context *context, const struct glint_options *options, const void *driver);

    /* Gives back everything in any case; the status tells the first failure. */
    enum glint_status (*close)(struct glint_context *context);

    /* Fills in the fields of *info that it knows better than the core. */
    void (*describe)(const struct glint_context *context, struct glint_device_info *info);

    /* Says what in a spec would make rows for this device, as words after "add": `"x86_64_v3" to isas of the family
     * cpu`. */
    void (*put_target)(const struct glint_context *context, struct glint_text *text);

    /* Can the device run this row, which is of one of the backend's families? */
    bool (*runs)(const struct glint_context *context, uint32_t index);

    /* Does the device run this row no faster than those of a lower instruction set? NULL: none. */
    bool (*slow)(const struct glint_context *context, uint32_t index);

    /* Lays out workspace and launches for a problem that the row fits. false: a count does not fit. Pure. */
    bool (*plan)(const struct glint_variant *row, const struct glint_problem *problem, uint32_t concurrency,
                 struct glint_family_plan *plan);

    /* Plans with the caller's numbers in place of the numbers that the family's rules give, for measuring the rules.
     * NULL: the family has no such rules. */
    bool (*plan_tuned)(const struct glint_variant *row, const struct glint_problem *problem, uint32_t concurrency,
                       const struct glint_gpu_tuning *tuning, struct glint_family_plan *plan);

    /* Everything is checked already: pointers, alignment, overlap, workspace. */
    enum glint_status (*run)(const struct glint_context *context, const struct glint_variant *row, const struct glint_plan *plan,
                             const struct glint_tensors *tensors, void *workspace, void *stream);

    /* What addresses and strides of the rows of glint_append and glint_merge are multiples of, in bytes; 0: of an
     * element. */
    int64_t row_bytes;

    /* The most elements of K that glint_append makes of a token, of all its heads; 0: any number. */
    int64_t token_elements;

    /* glint_append, checked. */
    enum glint_status (*append)(const struct glint_context *context, const struct glint_plan *plan,
                                const struct glint_append *append, const struct glint_tensors *tensors, void *stream);

    /* glint_merge, checked. */
    enum glint_status (*merge)(const struct glint_context *context, const struct glint_merge *merge, void *stream);

    /* Copies between host memory and the memory that the device computes on; returns when done. For the self test. */
    enum glint_status (*copy_in)(const struct glint_context *context, void *device, const void *host, size_t bytes, void *stream);
    enum glint_status (*copy_out)(const struct glint_context *context, void *host, const void *device, size_t bytes, void *stream);
};

struct glint_family {
    const char *name;
    uint32_t rank; /* of two families of a backend, the one whose rows are taken first has the higher */
    const struct glint_backend *backend;

    /* Does the row take this problem, which has its key and needs nothing that the row's column `takes` lacks? If
     * not, the status of a refusal and the field at fault. Pure. */
    enum glint_status (*fits)(const struct glint_variant *row, const struct glint_problem *problem,
                              const struct glint_context *context, struct glint_fault *fault);

    /* Adds lines to glint_explain's text about a plan of one of its rows, each begun with a newline; NULL: none. */
    void (*explain)(const struct glint_plan *plan, struct glint_text *text);
};

/* What every family asks of strides: multiples of the row's alignment, where an extent is above 1. */
enum glint_status glint_strides_fit(const struct glint_variant *row, const struct glint_problem *problem,
                                    struct glint_fault *fault);

extern const struct glint_backend glint_cpu_backend;

#endif
