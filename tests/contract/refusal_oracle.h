/* What glint.h says of a problem or a call, worked out a second time, slowly and from its sentences alone: the list
 * of faults that it names. One fault: exactly its status. Several: the status of any of them, since glint.h promises
 * no order; except that a fault derived from a field (overlap, overflow, not in the spec) is not looked for while
 * the field itself is out of range. Where a sentence leaves room the fault is marked `open`: alone, it permits
 * GLINT_OK too. Each use is commented. */
#ifndef GLINT_TESTS_REFUSAL_ORACLE_H
#define GLINT_TESTS_REFUSAL_ORACLE_H

#include "tests/contract/world.h"

#define ORACLE_MAX 64

struct fault {
    enum glint_status status;
    bool open;
    char field[24]; /* a word that glint_explain must say: "batch", "k.row", "lse" */
};

struct faults {
    size_t count;
    struct fault at[ORACLE_MAX];
};

/* Where the context stands when a problem is judged. */
enum context_state { CONTEXT_OPEN, CONTEXT_NULL, CONTEXT_IS_CLOSED };

void oracle_plan(struct faults *f, enum context_state state, const struct glint_context *context,
                 const struct glint_problem *problem, uint32_t pass, const struct glint_plan *plan);

/* A call on a plan that is genuine; what was done to the plan is told by the first three. */
struct call_arguments {
    bool plan_null, plan_changed, context_closed;
    const struct glint_plan *plan; /* the genuine one */
    enum glint_pass called;        /* glint_forward or glint_backward */
    const struct glint_tensors *tensors;
    const unsigned char *workspace;
    size_t workspace_bytes;
    const void *stream;
};
void oracle_call(struct faults *f, const struct call_arguments *a);

/* The features that a row must have for the problem, and whether a row of the right pass, dtype and head_dim serves
 * its mask. */
uint32_t oracle_features(const struct glint_problem *p);
bool oracle_serves(const struct glint_variant_info *info, const struct glint_problem *p);

/* Whether the status is one that the faults allow. */
bool oracle_allows(const struct faults *f, enum glint_status status);
/* Whether the text has the field's word of a fault with this status. */
bool oracle_text_names(const struct faults *f, enum glint_status status, const char *text);
/* "GLINT_BAD_BATCH(batch) or ..." into a static buffer, for messages. */
const char *oracle_print(const struct faults *f);

/* Whether `word` is in the text with no letter, digit or underscore on either side. */
bool text_has_word(const char *text, const char *word);

#endif
