/* The CUDA driver as a backend. Internal: not installed.
 *
 * open.c chooses a device and loads every kernel; launch.c plans and launches, rows.c for glint_merge and glint_append;
 * decode.c fills in what decode's kernels are given; backend.c is the seam to the core; each family of kernels is a
 * file of its own. All of it lives in the caller's storage, behind the context: nothing is allocated here, and nothing
 * that the driver would do lazily is left for after glint_cuda_open. */
#ifndef GLINT_CUDA_H
#define GLINT_CUDA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/backend.h"
#include "lib/context.h"
#include "lib/cuda/driver.h"
#include "lib/cuda/kernel.h"
#include "lib/cuda/policy.h"
#include "lib/cuda/table.h"
#include "lib/device/hopper_call.h"

/* What is loaded for one row of the table; module is NULL for a row that this device does not run. Rows whose image is
 * the same share its module. */
struct glint_cuda_row {
    glint_cu_module module;
    glint_cu_module held;      /* the module, if this row loaded it; NULL if not */
    const unsigned char *data; /* the image of what is held */
    glint_cu_function functions[GLINT_GPU_MAX_LAUNCHES];
};

/* The kernels that no variant has: rows.c. */
enum { GLINT_CUDA_MERGE, GLINT_CUDA_APPEND, GLINT_CUDA_APPEND_NARROW, GLINT_CUDA_ROWS_LAUNCHES };
extern const struct glint_gpu_launch glint_cuda_rows_launch[GLINT_CUDA_ROWS_LAUNCHES];

struct glint_cuda {
    struct glint_cuda_driver driver;
    void *library; /* of the driver; NULL when the table was handed in */
    glint_cu_context context;
    glint_cu_device device;
    int32_t ordinal;
    uint32_t retained; /* 1: the device's primary context, which close releases; 0: the caller's */
    uint32_t sm;       /* 10 * major + minor, of compute capability major.minor */
    uint32_t multiprocessors;
    uint32_t shared_bytes;               /* the most that a block may ask for */
    uint32_t has_rows;                   /* 1: some row is loaded */
    _Atomic uint32_t error;              /* the driver's last result that was not success */
    _Atomic uint32_t lost;               /* 1 after a sticky result: the driver is not called again but for closing */
    struct glint_cuda_row rows_of_calls; /* of glint_merge and glint_append */
    struct glint_cuda_row rows[];        /* by index of glint_variants */
};

/* Bytes of a struct glint_cuda for this table. */
size_t glint_cuda_size(void);

/* Opens `cuda` (glint_cuda_size() bytes, any content) on a device: finds the driver unless a table is given (it is
 * copied), chooses the device by enum glint_device_kind, and loads every kernel that it runs. On failure nothing is
 * held, and glint_cuda_error tells the driver's code. GLINT_DEVICE_AUTO here means a GPU or a refusal; turning to the
 * CPU is the core's part. */
enum glint_status glint_cuda_open(struct glint_cuda *cuda, uint32_t device_kind, int32_t ordinal,
                                  const struct glint_cuda_driver *driver);

/* Gives back everything in any case; the status tells the first failure. */
enum glint_status glint_cuda_close(struct glint_cuda *cuda);

int32_t glint_cuda_error(const struct glint_cuda *cuda);

/* Fills in the fields of *info that a GPU has. */
void glint_cuda_describe(const struct glint_cuda *cuda, struct glint_device_info *info);

extern const struct glint_backend glint_cuda_backend;

/* Members of glint_cuda_backend: launch.c. */
bool glint_cuda_plan(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                     struct glint_family_plan *plan);
bool glint_cuda_plan_tuned(const struct glint_variant *variant, const struct glint_problem *problem, uint32_t concurrency,
                           const struct glint_gpu_tuning *tuning, struct glint_family_plan *plan);
enum glint_status glint_cuda_run(const struct glint_context *context, const struct glint_variant *variant,
                                 const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace, void *stream);
enum glint_status glint_cuda_copy_in(const struct glint_context *context, void *device, const void *host, size_t bytes,
                                     void *stream);
enum glint_status glint_cuda_copy_out(const struct glint_context *context, void *host, const void *device, size_t bytes,
                                      void *stream);

/* Members of glint_cuda_backend: rows.c. */
enum glint_status glint_cuda_merge(const struct glint_context *context, const struct glint_merge *merge, void *stream);
enum glint_status glint_cuda_append(const struct glint_context *context, const struct glint_plan *plan,
                                    const struct glint_append *append, const struct glint_tensors *tensors, void *stream);

/* What a plan's words hold, for a row of a GPU family: all that follows from the problem. A run copies it and adds
 * addresses. */
struct glint_cuda_plan {
    uint32_t blocks[GLINT_GPU_MAX_LAUNCHES]; /* of each launch; 0: it is left out */
    struct glint_gpu_shape shape;
    uint32_t words;       /* of the workspace, 0 when the first kernel begins */
    int32_t page_shift;   /* log2 of the rows of a page */
    int32_t section_keys; /* of struct glint_gpu_sequences */
    union {
        struct glint_backward_layout backward; /* of a backward row */
        struct glint_decode_layout decode;     /* of a decode row */
        struct glint_step_layout step;         /* of a step's row */
    };
};
_Static_assert(sizeof(struct glint_cuda_plan) <= GLINT_FAMILY_WORDS * sizeof(uint64_t), "it fits into a plan");

static inline struct glint_cuda_plan glint_cuda_plan_of(const struct glint_plan *plan)
{
    struct glint_cuda_plan own;
    memcpy(&own, plan->internal, sizeof own);
    return own;
}

/* Where the sequences and the pages of a call lie; what is added to its scores. */
struct glint_gpu_sequences glint_cuda_sequences_of(const struct glint_problem *problem, const struct glint_cuda_plan *own,
                                                   const struct glint_tensors *tensors);
struct glint_gpu_pages glint_cuda_pages_of(const struct glint_problem *problem, const struct glint_cuda_plan *own,
                                           const struct glint_tensors *tensors);

struct glint_gpu_bias glint_cuda_bias_of(const struct glint_problem *problem, const struct glint_tensors *tensors);
struct glint_gpu_bias_tensor glint_cuda_tensor_of(const struct glint_problem *problem, const struct glint_tensors *tensors);

/* Scales of units of as many rows each: sequences, pages, or all ragged sequences. Steps are 0 where one scale serves
 * all. */
struct glint_decode_scales glint_cuda_scales_of(const struct glint_problem *problem, const struct glint_tensors *tensors);

/* decode.c */
void glint_cuda_fill_decode(const struct glint_problem *problem, const struct glint_cuda_plan *own,
                            const struct glint_tensors *tensors, void *workspace, struct glint_decode_params *params);

/* A tensor; the kernel knows whether it only reads it. An array of a layout; NULL where it has no words. */
struct glint_gpu_view glint_cuda_view(const void *address, const struct glint_strides *strides);
void *glint_cuda_array(void *workspace, const uint64_t *at, int array);

/* step.c. Query heads of a key head that a step packs into rows together: the most that are at most 16 and divide the
 * group. */
int32_t glint_step_group(const struct glint_problem *problem);

/* Lays a step out; false where numbers of units do not fit. Then what its kernels are given behind
 * the maps, and what it adds to an explanation. */
bool glint_step_lay_out(struct glint_step_layout *layout, const struct glint_variant *row, const struct glint_problem *problem,
                        uint32_t multiprocessors);
void glint_step_fill(const struct glint_problem *problem, const struct glint_step_layout *layout, void *workspace,
                     struct glint_gpu_step *step);
struct glint_text;
void glint_step_explain(const struct glint_plan *plan, struct glint_text *text);

/* Is what the kernels make of a softcap finite? */
enum glint_status glint_cuda_softcap_fits(const struct glint_problem *problem, struct glint_fault *fault);

/* Whether a row is a fused backward of persistent blocks. */
bool glint_cuda_persists(const struct glint_gpu_kernel *kernel);

/* Of a backward row: by how many blocks the query heads of a key head are walked over, and in which order blocks go. */
void glint_cuda_explain_order(const struct glint_plan *plan, struct glint_text *text);

/* |softmax_scale| / softcap, score_ratio of the parameters; 0 without a softcap. score_limit is 9.02 / that, inf where
 * it is 0. */
float glint_cuda_score_ratio(const struct glint_problem *problem);

/* tensor_map.c. The first: can the row's maps hold the strides of this problem? If not, *fault says which; without maps
 * they can. The second makes the maps of a call, on the host, when some kernel of the row has something to do. */
enum glint_status glint_cuda_maps_fit(const struct glint_variant *row, const struct glint_problem *problem,
                                      struct glint_fault *fault);
enum glint_status glint_cuda_encode_maps(struct glint_cuda *cuda, const struct glint_variant *row,
                                         const struct glint_problem *problem, const struct glint_tensors *tensors,
                                         struct tensor_map *maps);

/* Between open.c and launch.c: keeps a driver's result and turns it into a status. Any thread. */
enum glint_status glint_cuda_note(struct glint_cuda *cuda, glint_cu_result result);

/* Makes the context current for the driver calls that follow; *pushed says whether glint_cuda_leave has to undo it.
 * That takes the status of those calls and returns it, or its own failure if they succeeded: the code that is kept is
 * that of the first failure. */
enum glint_status glint_cuda_enter(struct glint_cuda *cuda, bool *pushed);
enum glint_status glint_cuda_leave(struct glint_cuda *cuda, bool pushed, enum glint_status status);

/* glint_cuda_enter for a call; a lost device is not touched again. */
enum glint_status glint_cuda_begin(struct glint_cuda *cuda, bool *pushed);

#endif
