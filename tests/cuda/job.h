/* One variant with a problem, tensors and workspace on a GPU, ready to be run again and again. Every array is
 * exactly as long as the library asks for and lies between guards, so that a write outside it is seen. */
#ifndef GLINT_TESTS_CUDA_JOB_H
#define GLINT_TESTS_CUDA_JOB_H

#include "lib/glint.h"
#include "tests/cuda/device.h"
#include "tests/support/tensor.h"

struct job_shape {
    int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
    int device_lengths; /* 1: seqlen_q and seqlen_k are bounds, and an array of the job has the lengths; at most JOB_BATCH sequences */
};

/* Nine tensors, the workspace, the lengths, scales of K and V, intervals, a tree. */
enum { JOB_ARRAYS = TENSORS + 6, JOB_BATCH = 8 };

struct job_array {
    size_t at, bytes; /* in the arena */
    unsigned char *address;
    int written;
};

struct job {
    struct glint_variant_info info;
    struct glint_problem problem;
    struct glint_plan plan;
    struct glint_tensors tensors;
    struct job_array array[JOB_ARRAYS];
    unsigned char *arena; /* on the device; NULL after job_spread */
    size_t bytes;         /* of the arena */
    void *workspace;
};

/* Fills the inputs from `seed`. Ends the program when the plan is refused. */
void job_make(struct job *job, struct device *device, const struct glint_context *context, uint32_t variant, struct job_shape shape,
              enum glint_mask causal, uint64_t seed);
/* 1 when the plan of such a job is not refused. */
int job_possible(const struct glint_context *context, uint32_t variant, struct job_shape shape, enum glint_mask causal);
void job_free(struct job *job, struct device *device);

/* Moves every array to an allocation of its own that is exactly as long, where only the inputs are initialised: for
 * tools that watch allocations. */
void job_spread(struct job *job, struct device *device);

/* New inputs of the same shape. */
void job_inputs(struct job *job, struct device *device, uint64_t seed);

/* Lengths of the sequences, int32 [2][batch]: of queries, then of keys. */
void job_lengths(const struct job *job, struct device *device, const int32_t *lengths);

enum glint_status job_run(const struct job *job, void *stream);

/* Fills what the pass writes, and the workspace, with a byte. */
void job_poison(const struct job *job, struct device *device, unsigned char outputs, unsigned char workspace, void *stream);

/* Bytes of everything the pass writes, and a copy of it to `to` in host memory (after the default stream). */
size_t job_output_bytes(const struct job *job);
void job_outputs(const struct job *job, struct device *device, unsigned char *to);

/* 1 when no byte between the arrays has changed since job_make. */
int job_guards_hold(const struct job *job, struct device *device);

#endif
