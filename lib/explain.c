/* glint_explain: the refusals and choices of glint_plan and of the runs, as sentences for a log. Same checks, same
 * order. */
#include "lib/axes.h"
#include "lib/backend.h"
#include "lib/check.h"
#include "lib/text.h"

/* Of tf32: what that means, and which row is more exact. */
static void put_math(struct glint_text *t, const struct glint_context *context, const struct glint_plan *plan)
{
    if (glint_variants[plan->variant].math != GLINT_MATH_TF32)
        return;
    const struct glint_key key = glint_key_of_row(&glint_variants[plan->variant]);
    glint_text_str(t, "\nIts products are tf32: each is off by up to 2^-10 of itself.");
    for (uint32_t i = 0; i < glint_variants_count; i++)
        if (glint_variants[i].math == GLINT_MATH_TF32X3 && glint_is_candidate(context, &key, i)) {
            glint_text_str(t, " As good as float32 is ");
            glint_text_str(t, glint_variants[i].name);
            glint_text_str(t, ", through glint_plan_variant.");
            return;
        }
}

/* What the row was chosen from, and what told the next one from it. */
static void put_rivals(struct glint_text *t, const struct glint_plan *plan)
{
    const struct glint_choice choice = glint_choice_of(plan);
    glint_text_str(t, "Rows of the table that take this problem here: ");
    glint_text_uint(t, choice.candidates);
    if (choice.because) {
        glint_text_str(t, "; taken before ");
        glint_text_str(t, glint_variants[choice.second].name);
        glint_text_str(t, ", ");
        glint_text_str(t, choice.because);
    }
    glint_text_char(t, '.');
}

static void put_choice(struct glint_text *t, const struct glint_context *context, const struct glint_plan *plan)
{
    const struct glint_variant *v = &glint_variants[plan->variant];
    glint_text_str(t, v->name);
    glint_text_str(t, ": family ");
    glint_text_str(t, glint_family_of(v)->name);
    glint_text_str(t, ", tile ");
    glint_text_uint(t, v->tile_m);
    glint_text_str(t, " queries x ");
    glint_text_uint(t, v->tile_n);
    glint_text_str(t, " keys, workspace ");
    glint_text_uint(t, plan->workspace_bytes);
    glint_text_str(t, " bytes, alignment ");
    glint_text_uint(t, v->alignment_bytes);
    glint_text_str(t, " bytes.\n");
    put_rivals(t, plan);
    put_math(t, context, plan);
    if (plan->problem.softcap != 0.0f)
        glint_text_str(t, "\nScores are capped: softcap * tanh(score / softcap), before the mask.");
    if (plan->problem.alibi != 0)
        glint_text_str(t, "\nALiBi is added to the scores: - slope * |position of the query - key|, before the mask.");
    if (plan->problem.bias_dtype != 0)
        glint_text_str(t, "\nA bias is added to the scores, before the mask.");
    if (plan->problem.sinks != 0)
        glint_text_str(t, "\nThe denominator of a row has the sink of its head, and so has LSE.");
    if (plan->problem.max_logit != 0)
        glint_text_str(t, "\nThe largest logit of each head is written.");
    if (glint_family_of(v)->explain)
        glint_family_of(v)->explain(plan, t);
}

static struct glint_text start(char *buffer, size_t buffer_bytes, enum glint_status status)
{
    struct glint_text t = {buffer, buffer ? buffer_bytes : 0, 0};
    glint_text_str(&t, glint_status_name(status));
    glint_text_str(&t, ": ");
    return t;
}

static enum glint_status finish(struct glint_text *t, enum glint_status status, size_t *needed_bytes)
{
    const size_t needed = glint_text_end(t);
    if (needed_bytes)
        *needed_bytes = needed;
    return status;
}

enum glint_status glint_explain_outcome(enum glint_status status, const struct glint_fault *fault,
                                        const struct glint_context *context, const struct glint_problem *problem,
                                        enum glint_pass pass, char *buffer, size_t buffer_bytes, size_t *needed_bytes)
{
    struct glint_text t = start(buffer, buffer_bytes, status);
    if (status == GLINT_OK)
        glint_text_str(&t, "The call would run.");
    else
        glint_put_refusal(&t, status, fault, context, problem, pass);
    return finish(&t, status, needed_bytes);
}

enum glint_status glint_explain(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                                char *buffer, size_t buffer_bytes, size_t *needed_bytes)
{
    struct glint_fault fault;
    struct glint_plan plan;
    enum glint_status status = GLINT_OK;
    if (!context || !problem)
        status = glint_refuse(&fault, GLINT_REASON_NULL_ARGUMENT, context ? "problem" : "context", NULL, 0, 0);
    else if (context->magic != GLINT_CONTEXT_OPEN)
        status = glint_refuse(&fault, GLINT_REASON_CONTEXT_CLOSED, "context", NULL, 0, 0);
    if (status == GLINT_OK)
        status = glint_check_problem(problem, pass, &fault);
    if (status == GLINT_OK)
        status = glint_plan_checked(context, problem, pass, UINT32_MAX, &plan, &fault);
    if (status != GLINT_OK)
        return glint_explain_outcome(status, &fault, context, problem, pass, buffer, buffer_bytes, needed_bytes);
    struct glint_text t = start(buffer, buffer_bytes, status);
    put_choice(&t, context, &plan);
    return finish(&t, status, needed_bytes);
}

enum glint_status glint_explain_call(const struct glint_plan *plan, enum glint_pass pass, const struct glint_tensors *tensors,
                                     const void *workspace, size_t workspace_bytes, const void *stream, char *buffer,
                                     size_t buffer_bytes, size_t *needed_bytes)
{
    struct glint_fault fault;
    const enum glint_status status = glint_check_call(plan, pass, tensors, workspace, workspace_bytes, stream, &fault);
    return glint_explain_outcome(status, &fault, plan ? plan->context : NULL, plan ? &plan->problem : NULL, pass, buffer,
                                 buffer_bytes, needed_bytes);
}

enum glint_status glint_explain_append(const struct glint_plan *plan, const struct glint_append *append,
                                       const struct glint_tensors *tensors, const void *stream, char *buffer, size_t buffer_bytes,
                                       size_t *needed_bytes)
{
    struct glint_fault fault;
    const enum glint_status status = glint_check_append(plan, append, tensors, stream, &fault);
    return glint_explain_outcome(status, &fault, plan ? plan->context : NULL, plan ? &plan->problem : NULL, GLINT_FORWARD, buffer,
                                 buffer_bytes, needed_bytes);
}
