/* What the tests of the CUDA backend share: contexts on the driver that owns no GPU, and calls with tensors. */
#ifndef GLINT_TESTS_LAUNCH_WORLD_H
#define GLINT_TESTS_LAUNCH_WORLD_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/context.h"
#include "lib/cuda/cuda.h"
#include "tests/cuda/fake_driver.h"
#include "tests/cuda/fake_table.h"

enum { STORAGE = 16384, CONTEXTS = 3, MEMORY = 16 << 20 };
extern unsigned char storage[CONTEXTS][STORAGE];
extern unsigned char memory[MEMORY];

/* Opens a context in storage[place]. The second must not fail; the third closes, and the driver saw no misuse. */
enum glint_status open_at(int place, uint32_t kind, int32_t ordinal, struct glint_context **context);
struct glint_context *must_open(int place, uint32_t kind, int32_t ordinal);
void close_clean(struct glint_context *context);

struct call {
    struct glint_problem problem;
    struct glint_plan plan;
    struct glint_tensors tensors;
    unsigned char *workspace;
};

/* Plans a problem whose strides all differ, and gives it tensors at distinct addresses in `memory`; the second in f16
 * with head_dim 64. */
void prepare_as(struct call *c, const struct glint_context *context, enum glint_pass pass, enum glint_dtype dtype, int64_t head_dim,
                int64_t batch, int64_t seqlen_q, int64_t seqlen_k, int64_t heads_q, int64_t heads_kv, enum glint_mask mask);
void prepare(struct call *c, const struct glint_context *context, enum glint_pass pass, int64_t batch, int64_t seqlen_q,
             int64_t seqlen_k, int64_t heads_q, int64_t heads_kv, enum glint_mask mask);

void check_launch(unsigned number, const char *entry, unsigned blocks, unsigned threads, unsigned shared_bytes, void *stream);

void check_view(const struct glint_gpu_view *view, const void *address, const struct glint_strides *strides);
void check_shape(const struct glint_gpu_shape *s, const struct glint_problem *p, int64_t offset);
void check_region(const void *at, size_t bytes, const struct call *c, size_t *end);

/* A test of every row of a table, whatever rows are added. */
#define ADD_TABLE(tcase, test, table) tcase_add_loop_test(tcase, test, 0, (int)(sizeof(table) / sizeof(table)[0]))

/* Runs the tests that `add` adds, in this process; the exit status of main. */
int run_suite(const char *name, void (*add)(TCase *tcase));

#endif
