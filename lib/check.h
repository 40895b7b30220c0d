/* What can be wrong with a problem or a call, found once and used twice: glint_plan and the runs take the status,
 * glint_explain makes sentences of the rest. Internal: not installed. */
#ifndef GLINT_CHECK_H
#define GLINT_CHECK_H

#include <stdbool.h>

#include "lib/context.h"
#include "lib/sentences.h"

struct glint_key;
struct glint_text;

/* A refusal as data. lib/sentences.h has the sentence of each reason, and the words in it that the other members
 * are. */
struct glint_fault {
    enum glint_reason reason;
    const char *place; /* before the field: "", "tensors." or "merge." */
    const char *field; /* the field or argument at fault, as the caller wrote it */
    const char *part;  /* a dimension of its strides, or the tensor that it meets; NULL if none */
    int64_t value;     /* what it was */
    int64_t want;      /* the number that would be right, or its bound */
    uint32_t variant;  /* the nearest row of the table, or UINT32_MAX */
    uint32_t index;    /* of an element of merge.part, or UINT32_MAX */
};

/* Fills in the fault, with neither place nor row. The reason's status. */
enum glint_status glint_refuse(struct glint_fault *fault, enum glint_reason reason, const char *field, const char *part,
                               int64_t value, int64_t want);

/* The sentence of a refusal. */
void glint_put_refusal(struct glint_text *text, enum glint_status status, const struct glint_fault *fault,
                       const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass);

/* The whole of glint_explain_call and of its likes: the status, and the sentence of the refusal or that the call
 * would run. Returns the status. */
enum glint_status glint_explain_outcome(enum glint_status status, const struct glint_fault *fault,
                                        const struct glint_context *context, const struct glint_problem *problem,
                                        enum glint_pass pass, char *buffer, size_t buffer_bytes, size_t *needed_bytes);

/* Every rule of glint.h about a problem, the table not yet consulted. */
enum glint_status glint_check_problem(const struct glint_problem *problem, enum glint_pass pass, struct glint_fault *fault);

/* Chooses the row of the table for a checked problem: lib/choose.c has the rule. `only`: this row, or UINT32_MAX for
 * any. */
enum glint_status glint_choose_row(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                                   uint32_t only, uint32_t *row, struct glint_fault *fault);

/* What the choice of a plan's row was between. */
struct glint_choice {
    uint32_t candidates; /* rows that take the problem, the chosen one among them */
    uint32_t second;     /* the row that the rule would take without the chosen one, or UINT32_MAX */
    const char *because; /* what tells the second from the chosen one, in words about the second; or NULL */
};
struct glint_choice glint_choice_of(const struct glint_plan *plan);

/* Chooses the row for a checked problem and lets its backend plan. */
enum glint_status glint_plan_checked(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                                     uint32_t only, struct glint_plan *plan, struct glint_fault *fault);

/* Is it a plan of this pass that glint_plan made, for a context that is open? */
enum glint_status glint_check_plan(const struct glint_plan *plan, enum glint_pass pass, struct glint_fault *fault);

/* Every rule about a call. */
enum glint_status glint_check_call(const struct glint_plan *plan, enum glint_pass pass, const struct glint_tensors *tensors,
                                   const void *workspace, size_t workspace_bytes, const void *stream, struct glint_fault *fault);

/* Every rule about glint_append. */
enum glint_status glint_check_append(const struct glint_plan *plan, const struct glint_append *append,
                                     const struct glint_tensors *tensors, const void *stream, struct glint_fault *fault);

/* "batch", "head", "row": the members of struct glint_strides. */
extern const char glint_dimension[3][6];

/* A tensor of a call: what it covers in memory. */
struct glint_region {
    const char *name;
    uintptr_t begin, end; /* bytes; begin == end when it has no element */
    int64_t extent[3];    /* batch, heads, rows */
    struct glint_strides strides;
    int64_t row, element; /* elements of a row; bytes of an element */
    int use;              /* GLINT_ROLE_READ or GLINT_ROLE_WRITTEN */
};

/* Puts a tensor that no plan has checked where it is: its strides, its size and its address, which are multiples of
 * `unit` bytes. */
enum glint_status glint_place_rows(struct glint_region *region, const char *strides_name, const void *address, int64_t unit,
                                   struct glint_fault *fault);

static inline bool glint_regions_meet(const struct glint_region *a, const struct glint_region *b)
{
    return a->begin < b->end && b->begin < a->end;
}

/* Does the row compute what the key says, and does the device run it? */
bool glint_is_candidate(const struct glint_context *context, const struct glint_key *key, uint32_t row);

/* Check sum over a plan, its own place taken as zero. */
uint64_t glint_plan_sum(const struct glint_plan *plan);

/* Places in glint_plan.internal: first the backend's words, then these. */
enum { GLINT_PLAN_CONTEXT_WORD = 30, GLINT_PLAN_SUM_WORD = 31 };

/* Elements from the first one of a bias to its last one, both included; 0 without any, -1 where its size in bytes does
 * not fit in 63 bits. No stride is negative. */
int64_t glint_bias_span(const struct glint_problem *problem);

static inline int64_t glint_dtype_bytes(uint32_t dtype)
{
    return dtype == GLINT_F32 ? 4 : dtype >= GLINT_I8 ? 1 : 2;
}

/* One tensor of a pass: where its strides and its address are, and what it is for. */
struct glint_tensor_role {
    size_t address; /* offset in struct glint_tensors */
    size_t strides; /* offset in struct glint_problem */
    bool keys;      /* rows are keys (else queries) */
    bool cache;     /* of kv_dtype, where the problem has one */
    bool values;    /* rows have head_dim_v elements (else head_dim) */
    uint8_t use[3]; /* by enum glint_pass: 0 unused, 1 read, 2 written */
    char name[5];
};
enum { GLINT_ROLE_UNUSED, GLINT_ROLE_READ, GLINT_ROLE_WRITTEN };
#define GLINT_ROLES 8
extern const struct glint_tensor_role glint_roles[GLINT_ROLES];

static inline const struct glint_strides *glint_role_strides(const struct glint_tensor_role *role, const struct glint_problem *p)
{
    return (const struct glint_strides *)(const void *)((const char *)p + role->strides);
}

/* Extents of batch (or pages), heads and rows; ragged tensors are of one batch, and pages are not ragged. */
static inline void glint_role_extents(const struct glint_tensor_role *role, const struct glint_problem *p, int64_t extent[3])
{
    const bool paged = role->keys && p->page_rows > 0, ragged = p->lengths == GLINT_LENGTHS_RAGGED;
    extent[0] = paged ? p->pages : ragged ? 1 : p->batch;
    extent[1] = role->keys ? p->heads_kv : p->heads_q;
    extent[2] = role->keys ? (paged ? p->page_rows : ragged ? p->rows_k : p->seqlen_k) : ragged ? p->rows_q : p->seqlen_q;
}

/* Elements of a row. */
static inline int64_t glint_role_width(const struct glint_tensor_role *role, const struct glint_problem *p)
{
    return role->values ? p->head_dim_v : p->head_dim;
}

static inline int64_t glint_role_element_bytes(const struct glint_tensor_role *role, const struct glint_problem *p)
{
    return glint_dtype_bytes(role->cache && p->kv_dtype != 0 ? p->kv_dtype : p->dtype);
}

/* What addresses and strides of a tensor are multiples of, in bytes: of an element, or of what the row asks beyond
 * that. */
static inline int64_t glint_role_alignment(const struct glint_tensor_role *role, const struct glint_problem *p,
                                           const struct glint_variant *row)
{
    const int64_t asked = (int64_t)row->alignment_bytes;
    return asked > glint_dtype_bytes(p->dtype) ? asked : glint_role_element_bytes(role, p);
}

/* Scales of K, and of V. The problem is checked. */
static inline int64_t glint_scales_of(const struct glint_problem *p)
{
    switch (p->kv_scales) {
    case GLINT_SCALES_NONE: return 0;
    case GLINT_SCALES_TENSOR: return 1;
    case GLINT_SCALES_HEAD: return p->heads_kv;
    default: break;
    }
    if (p->page_rows > 0)
        return p->pages * p->heads_kv * p->page_rows;
    return p->heads_kv * (p->lengths == GLINT_LENGTHS_RAGGED ? p->rows_k : p->batch * p->seqlen_k);
}

/* Elements from the first to one past the last of rows of `row` elements, row + sum of (extent - 1) * stride, 0 when
 * there is none; false when they or their bytes leave 63 bits. Strides are not negative. */
bool glint_span_of(const int64_t extent[3], const struct glint_strides *strides, int64_t row, int64_t element_bytes, int64_t *span);

/* Of a written tensor: sorted by stride, each dimension must step over all of the ones inside it. The first that
 * does not, or -1. */
int glint_overlapping_dimension(const int64_t extent[3], const struct glint_strides *strides, int64_t row);

/* Elements from the first to one past the last, 0 when there is none. The problem is checked: it fits. */
int64_t glint_role_span(const struct glint_tensor_role *role, const struct glint_problem *p);

#endif
