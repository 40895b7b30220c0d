/* What the promise tests share: problems taken from whatever table is linked (no test names a head dim of the spec),
 * tensors as (base, shape, strides), memory with canaries or guard pages around it, and a context whose executor
 * counts its calls. Nothing here may call into the library to learn what the library should answer. */
#ifndef GLINT_TESTS_CONTRACT_WORLD_H
#define GLINT_TESTS_CONTRACT_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/glint.h"
#include "tests/support/guard_pages.h"
#include "tests/support/rand.h"
#include "tests/support/tensor.h"

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

struct tensor_layout { /* [batch or pages, heads, rows, columns] with element strides; LSE has one column */
    int64_t batch, heads, rows, columns;
    struct glint_strides strides;
    int64_t element_bytes;
};

struct tensor_layout tensor_layout(const struct glint_problem *p, enum tensor t);

/* Bytes from the first to past the last element; 0 for an empty tensor. For problems small enough to allocate. */
size_t tensor_bytes(const struct glint_problem *p, enum tensor t);

int64_t element_bytes(uint32_t dtype);

/* The dtype of a tensor's elements. */
uint32_t tensor_dtype(const struct glint_problem *p, enum tensor t);

/* Bytes of k_scale, and of v_scale; 0 where the problem has none. */
size_t scale_bytes(const struct glint_problem *p);

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Fills bytes with finite numbers of the dtype, of either sign and of magnitude in [2^-6, 2). */
void fill_random(struct rand *r, uint32_t dtype, void *memory, size_t bytes);

/* From the heap: free() it. bytes may be 0. */
void *aligned_memory(size_t alignment, size_t bytes);

/* Median of the values; sorts them. */
double median(double *values, size_t count);
double seconds_now(void);

/* ---- the table --------------------------------------------------------------------------------------------------- */

struct glint_variant_info row_at(uint32_t index);
const char *pass_name(uint32_t pass);

/* Whether the context runs the row, and for problems without intervals and ALiBi: rows of ALiBi, and those of forward
 * and backward that read intervals, take no other problem. tests/checks has those. */
bool row_serves(const struct glint_context *context, uint32_t index);

/* The mask that row `info` serves; `bottom_right` chooses between the two causal ones. */
enum glint_mask row_mask(const struct glint_variant_info *info, bool bottom_right);

/* What the row asks of K and V: its kv_dtype, and 8-bit ones with a scale a row. */
void serve_cache(struct glint_problem *p, const struct glint_variant_info *info);

/* Whether the context can run any row of that pass: a spec may list one pass alone. */
bool runs_pass(const struct glint_context *context, enum glint_pass pass);

/* The first row of that pass that the context can run; fails the case when there is none. */
struct glint_variant_info first_row(const struct glint_context *context, enum glint_pass pass);

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

struct counting { /* an executor that runs bodies one after another, the last first, and counts */
    uint64_t calls, bodies;
    uint32_t concurrency; /* more at a time than this ends the case */
};
void counting_for(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument);
struct glint_executor counting_executor(struct counting *counting, uint32_t concurrency);

/* Storage from aligned_alloc, exactly glint_context_size() bytes; the context is on the CPU. */
struct glint_context *open_context(struct counting *counting, uint32_t concurrency, void **storage);
struct glint_context *open_serial(void **storage);

/* ---- a problem with memory for it -------------------------------------------------------------------------------- */

struct call {
    struct glint_problem problem;
    enum glint_pass pass;
    struct glint_plan plan;
    struct glint_tensors tensors;
    unsigned char *block; /* all memory, canaries between the parts */
    size_t block_bytes;
    size_t offset[TENSORS], bytes[TENSORS];
    size_t sinks_offset[2], sinks_bytes; /* of the sinks and of their gradient; 0 bytes without sinks */
    size_t scale_offset[2], scale_bytes; /* k_scale, v_scale */
    size_t workspace_offset;
    void *workspace;
    size_t workspace_bytes;
};

/* Plans (which must succeed), allocates exactly what the tensors and workspace need, fills inputs with random
 * numbers. The memory between the parts is CANARY bytes, at least 64 of them. */
void call_make(struct call *c, const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
               uint64_t seed);
void call_free(struct call *c);
enum glint_status call_run(const struct call *c);
/* For backward: O and LSE of these inputs, by the forward of the same context, so that P is a softmax. */
void call_fill_forward(struct call *c, const struct glint_context *context);
/* The bytes outside every part are still canaries. */
bool call_canaries_hold(const struct call *c);

#endif
