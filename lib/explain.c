/* glint_explain: the refusals and choices of glint_plan and of the runs, as sentences for a log. Same checks, same order. */
#include <string.h>

#include "lib/axes.h"
#include "lib/backend.h"
#include "lib/check.h"
#include "lib/takes.h"
#include "lib/text.h"

static const char *pass_name(uint32_t pass)
{
    return pass == GLINT_FORWARD ? "forward" : "backward";
}

static void put_field(struct glint_text *t, const struct glint_fault *fault)
{
    glint_text_str(t, fault->field);
    glint_text_str(t, " is ");
    glint_text_int(t, fault->value);
}

static void put_stride(struct glint_text *t, const struct glint_fault *fault)
{
    glint_text_str(t, fault->field);
    glint_text_char(t, '.');
    glint_text_str(t, fault->other);
    glint_text_str(t, " is ");
    glint_text_int(t, fault->value);
}

static void put_range(struct glint_text *t, const struct glint_fault *fault, int64_t low)
{
    put_field(t, fault);
    glint_text_str(t, "; it must be from ");
    glint_text_int(t, low);
    glint_text_str(t, " to ");
    glint_text_int(t, fault->want);
    glint_text_char(t, '.');
}

static void put_value(struct glint_text *t, enum glint_axis axis, int64_t value)
{
    const char *word = glint_axis_word(axis, value);
    if (word)
        glint_text_str(t, word);
    else
        glint_text_int(t, value);
}

static void put_key(struct glint_text *t, const struct glint_problem *p, enum glint_pass pass)
{
    const struct glint_key key = glint_key_of_problem(p, pass);
    for (int axis = 0; axis < GLINT_AXIS_COUNT; axis++) {
        glint_text_str(t, axis > 0 ? ", " : "");
        glint_text_str(t, glint_axis_name((enum glint_axis)axis));
        glint_text_char(t, ' ');
        put_value(t, (enum glint_axis)axis, key.value[axis]);
    }
}

/* Which words of the spec would make the missing row: the key's parts that the nearest row does not serve. */
static void put_spec_line(struct glint_text *t, const struct glint_problem *p, enum glint_pass pass, const struct glint_variant *v)
{
    const struct glint_key wanted = glint_key_of_problem(p, pass), key = glint_key_of_row(v);
    glint_text_str(t, " Nearest variant: ");
    glint_text_str(t, v->name);
    glint_text_str(t, ". In the spec, add");
    for (int i = 0; i < GLINT_AXIS_COUNT; i++) {
        const enum glint_axis axis = (enum glint_axis)i;
        const char *quote = glint_axis_word(axis, wanted.value[i]) ? "\"" : "";
        if (glint_axis_serves(axis, v, key.value[i], wanted.value[i]))
            continue;
        glint_text_char(t, ' ');
        glint_text_str(t, quote);
        put_value(t, axis, wanted.value[i]);
        glint_text_str(t, quote);
        glint_text_str(t, " to ");
        glint_text_str(t, glint_axis_plural(axis));
        glint_text_char(t, ',');
    }
    glint_text_str(t, " and rebuild.");
}

static void put_not_in_spec(struct glint_text *t, const struct glint_problem *p, enum glint_pass pass,
                            const struct glint_fault *fault)
{
    glint_text_str(t, "The library has no variant for ");
    put_key(t, p, pass);
    glint_text_char(t, '.');
    if (fault->variant == UINT32_MAX)
        glint_text_str(t, " Its spec is empty.");
    else
        put_spec_line(t, p, pass, &glint_variants[fault->variant]);
}

static void put_overlap(struct glint_text *t, const struct glint_fault *fault)
{
    glint_text_str(t, fault->field);
    glint_text_str(t, " shares memory with ");
    glint_text_str(t, fault->other);
    glint_text_str(t, "; outputs and the workspace need memory of their own (interleaved outputs must have equal strides).");
}

/* Whether a row computes what the problem asks for and runs on the device. */
static bool is_candidate(const struct glint_context *context, const struct glint_key *key, uint32_t i)
{
    return glint_has_key(&glint_variants[i], key) && glint_variant_available(context, i) == GLINT_OK;
}

static void put_needs(struct glint_text *t, uint32_t needs)
{
    const uint32_t linear = (needs & GLINT_TAKES_PAGES) != 0          ? GLINT_TAKES_LENGTHS
                            : (needs & GLINT_TAKES_RAGGED_PAGES) != 0 ? GLINT_TAKES_RAGGED
                                                                      : 0;
    const char *before = "";
#define PUT(word, bit, status, member, what)       \
    if ((needs & ~linear & (bit)) != 0) {          \
        glint_text_str(t, before);                 \
        glint_text_str(t, what), before = " and "; \
    }
    GLINT_TAKES(PUT)
#undef PUT
}

/* What would make a row that takes the problem: fields of the family of the nearest row, or of another one that runs here. */
static void put_fields(struct glint_text *t, const struct glint_context *context, const struct glint_key *key, uint32_t needs,
                       uint32_t row)
{
    for (uint32_t i = 0; (needs & ~(glint_variants[row].takes | glint_variants[row].could)) != 0; i++) {
        if (i == glint_variants_count) {
            glint_text_str(t, " No field of its family in the spec makes one that does.");
            return;
        }
        if (is_candidate(context, key, i) && (needs & ~(glint_variants[i].takes | glint_variants[i].could)) == 0)
            row = i;
    }
    const struct glint_variant *v = &glint_variants[row];
    const uint32_t lacks = needs & ~(uint32_t)v->takes;
    const char *before = " In the spec, set ";
#define PUT(field, own, bits)                               \
    if ((lacks & (bits)) != 0 && (v->takes & (own)) == 0) { \
        glint_text_str(t, before);                          \
        glint_text_str(t, #field " = true"), before = ", "; \
    }
    GLINT_TAKES_FIELDS(PUT)
#undef PUT
    glint_text_str(t, " in families.");
    glint_text_str(t, v->family->name);
    glint_text_str(t, " and rebuild.");
}

/* No row that runs here takes what the problem needs. */
static void put_lacking(struct glint_text *t, const struct glint_context *context, const struct glint_problem *p,
                        enum glint_pass pass, const struct glint_fault *fault)
{
    const struct glint_key key = glint_key_of_problem(p, pass);
    put_field(t, fault);
    glint_text_str(t, ", and no variant that runs here takes ");
    put_needs(t, glint_needs_of(p));
    glint_text_str(t, "; nearest: ");
    glint_text_str(t, glint_variants[fault->variant].name);
    glint_text_char(t, '.');
    put_fields(t, context, &key, glint_needs_of(p), fault->variant);
}

static void put_pages(struct glint_text *t, const struct glint_problem *p, const struct glint_fault *fault)
{
    if (p && p->page_rows == 0 && !fault->other) {
        glint_text_str(t,
                       "tensors.page_table is given, and the plan's K and V are linear; plan with page_rows, or set it to NULL.");
        return;
    }
    put_field(t, fault);
    if (!fault->other && fault->want == 0)
        glint_text_str(t, "; it must be 16, 32, 64, 128 or 256, or 0 for linear K and V.");
    else if (!fault->other) {
        glint_text_str(t, "; it must be from 1 to ");
        glint_text_int(t, fault->want);
        glint_text_char(t, '.');
    } else if (fault->other[0] == 'p')
        glint_text_str(t, ", and page_rows is 0: linear K and V have no pages; set it to 0.");
    else if (fault->other[0] == 's') {
        glint_text_str(t, "; seqlen_k and page_rows want ");
        glint_text_int(t, fault->want);
        glint_text_str(t, " or more.");
    } else
        glint_text_str(
            t, fault->other[0] == 'l'
                   ? ", and lengths is GLINT_LENGTHS_HOST (0); pages go with GLINT_LENGTHS_DEVICE (1) or GLINT_LENGTHS_RAGGED (2)."
                   : ", and the pass is backward, which takes linear K and V alone; set it to 0.");
}

static void put_sinks(struct glint_text *t, const struct glint_fault *fault)
{
    if (fault->other) {
        glint_text_str(t, "tensors.");
        glint_text_str(t, fault->field);
        glint_text_str(t, " is given, and the plan has no sinks; plan with sinks = 1, or set it to NULL.");
        return;
    }
    put_field(t, fault);
    glint_text_str(t, "; use 1 when there are sinks and 0 when there are none.");
}

static void put_sizes(struct glint_text *t, const struct glint_fault *fault)
{
    put_field(t, fault);
    glint_text_str(t, " bytes; it must be ");
    glint_text_int(t, fault->want);
    glint_text_char(t, '.');
}

static void put_fault(struct glint_text *t, enum glint_status status, const struct glint_context *context,
                      const struct glint_problem *p, enum glint_pass pass, const struct glint_fault *fault)
{
    if (fault->other && strcmp(fault->other, "takes") == 0 && fault->variant != UINT32_MAX) {
        put_lacking(t, context, p, pass, fault);
        return;
    }
    switch (status) {
    case GLINT_NULL_ARGUMENT:
        glint_text_str(t, fault->field);
        glint_text_str(t, " is NULL.");
        break;
    case GLINT_STRUCT_SIZE:
    case GLINT_WORKSPACE_TOO_SMALL: put_sizes(t, fault); break;
    case GLINT_BAD_PASS: put_field(t, fault), glint_text_str(t, "; use GLINT_FORWARD (1) or GLINT_BACKWARD (2)."); break;
    case GLINT_BAD_DTYPE: put_field(t, fault), glint_text_str(t, "; use GLINT_F32 (1), GLINT_F16 (2) or GLINT_BF16 (3)."); break;
    case GLINT_BAD_MASK:
        put_field(t, fault);
        glint_text_str(t, "; use GLINT_MASK_NONE (1), GLINT_MASK_CAUSAL_TOP_LEFT (2), GLINT_MASK_CAUSAL_BOTTOM_RIGHT (3), "
                          "GLINT_MASK_BAND_TOP_LEFT (4) or GLINT_MASK_BAND_BOTTOM_RIGHT (5).");
        break;
    case GLINT_BAD_WINDOW:
        put_field(t, fault);
        if (fault->want == 0) {
            glint_text_str(
                t, ", and the mask is no band; use GLINT_MASK_BAND_TOP_LEFT or GLINT_MASK_BAND_BOTTOM_RIGHT, or set it to 0.");
            break;
        }
        glint_text_str(t, "; it must be GLINT_UNBOUNDED (-1) or from 0 to ");
        glint_text_int(t, fault->want);
        glint_text_char(t, '.');
        break;
    case GLINT_BAD_LENGTHS:
        if (fault->other) {
            glint_text_str(t, "tensors.");
            glint_text_str(t, fault->field);
            glint_text_str(t, " is given, and the plan's lengths are GLINT_LENGTHS_HOST; plan with GLINT_LENGTHS_DEVICE or "
                              "GLINT_LENGTHS_RAGGED, or set it to NULL.");
            break;
        }
        put_field(t, fault);
        glint_text_str(t, "; use GLINT_LENGTHS_HOST (0), GLINT_LENGTHS_DEVICE (1) or GLINT_LENGTHS_RAGGED (2).");
        break;
    case GLINT_BAD_RAGGED:
        if (fault->other) {
            glint_text_str(t, "tensors.");
            glint_text_str(t, fault->field);
            glint_text_str(
                t, fault->other[0] == 'l'
                       ? " is given, and the plan's lengths are not GLINT_LENGTHS_RAGGED; plan with it, or set it to NULL."
                       : " is given, and the plan's K and V are in pages: seqlens_k says how many keys there are; set it to NULL.");
            break;
        }
        put_field(t, fault);
        if (fault->want == 0 && p->lengths == GLINT_LENGTHS_RAGGED)
            glint_text_str(t, ", and K and V are in pages: their rows do not follow one another; set it to 0.");
        else if (fault->want == 0)
            glint_text_str(t, ", and lengths is not GLINT_LENGTHS_RAGGED (2); use that, or set it to 0.");
        else {
            glint_text_str(t, "; it must be from 0 to ");
            glint_text_int(t, fault->want);
            glint_text_char(t, '.');
        }
        break;
    case GLINT_BAD_SINKS: put_sinks(t, fault); break;
    case GLINT_BAD_SOFTCAP:
        glint_text_str(t, "softcap is negative, NaN, too small or too large; use 0 for none, or 2^-126 to 2^124, such as 50.");
        break;
    case GLINT_BAD_APPEND:
        put_field(t, fault);
        if (fault->field[0] == 'k') {
            glint_text_str(t, "; rows of int8 are made with a scale each: plan with GLINT_SCALES_ROW (3).");
            break;
        }
        if (fault->field[0] == 'l') {
            glint_text_str(
                t, " (GLINT_LENGTHS_RAGGED), and keys that follow one another leave no room; rows are appended to pages, or to "
                   "a cache of GLINT_LENGTHS_HOST (0) or GLINT_LENGTHS_DEVICE (1).");
            break;
        }
        if (fault->field[0] == 'h') {
            glint_text_str(t, "; on this device tokens of so many elements a head are appended with at most ");
            glint_text_int(t, fault->want);
            glint_text_str(t, " key heads.");
            break;
        }
        glint_text_str(t, "; it must be GLINT_F32 (1) or the plan's dtype, ");
        glint_text_int(t, fault->want);
        glint_text_char(t, '.');
        break;
    case GLINT_BAD_PAGES: put_pages(t, p, fault); break;
    case GLINT_BAD_KV_DTYPE:
        put_field(t, fault);
        glint_text_str(t, fault->want == 0 ? "; the backward pass takes 0 only: K and V of the problem's dtype."
                                           : "; use 0 (as dtype), GLINT_I8 (4) or GLINT_E4M3 (5).");
        break;
    case GLINT_BAD_SCALES:
        if (fault->other) {
            glint_text_str(t, "tensors.");
            glint_text_str(t, fault->field);
            glint_text_str(t, " is given, and the plan's kv_scales are GLINT_SCALES_NONE; plan with others, or set it to NULL.");
            break;
        }
        put_field(t, fault);
        glint_text_str(t, fault->want == 0
                              ? "; without kv_dtype it must be GLINT_SCALES_NONE (0)."
                              : "; with kv_dtype use GLINT_SCALES_TENSOR (1), GLINT_SCALES_HEAD (2) or GLINT_SCALES_ROW (3).");
        break;
    case GLINT_BAD_RESERVED: put_field(t, fault), glint_text_str(t, "; it must be 0."); break;
    case GLINT_BAD_HEAD_DIM: put_field(t, fault), glint_text_str(t, "; it must be a multiple of 8, 8 or more."); break;
    case GLINT_BAD_BATCH:
    case GLINT_BAD_HEADS: put_range(t, fault, 1); break;
    case GLINT_BAD_SEQLEN: put_range(t, fault, 0); break;
    case GLINT_BAD_HEAD_GROUP:
        put_field(t, fault);
        glint_text_str(t, "; it must be a multiple of heads_kv, ");
        glint_text_int(t, fault->want);
        glint_text_char(t, '.');
        break;
    case GLINT_BAD_SCALE: glint_text_str(t, "softmax_scale is inf or NaN; use a finite number, such as 1 / sqrt(head_dim)."); break;
    case GLINT_BAD_STRIDE:
        put_stride(t, fault);
        glint_text_str(t, fault->value < 0
                              ? "; strides must not be negative."
                              : "; elements of this output overlap: each stride must step over all that is inside it.");
        break;
    case GLINT_STRIDE_MISALIGNED:
        put_stride(t, fault);
        glint_text_str(t, "; it must be a multiple of ");
        glint_text_int(t, fault->want);
        glint_text_str(t, " elements for ");
        glint_text_str(t, glint_variants[fault->variant].name);
        glint_text_char(t, '.');
        break;
    case GLINT_TENSOR_MISALIGNED:
    case GLINT_WORKSPACE_MISALIGNED:
        glint_text_str(t, "The address of ");
        glint_text_str(t, fault->field);
        glint_text_str(t, " must be a multiple of ");
        glint_text_int(t, fault->want);
        glint_text_str(t, " bytes; it is ");
        glint_text_int(t, fault->value);
        glint_text_str(t, " past one.");
        break;
    case GLINT_SIZE_OVERFLOW:
        if (fault->other) {
            put_stride(t, fault);
            glint_text_str(t, "; it must be at most ");
            glint_text_int(t, fault->want);
            glint_text_str(t, " elements for ");
            glint_text_str(t, glint_variants[fault->variant].name);
            glint_text_char(t, '.');
            break;
        }
        glint_text_str(t, "The size in bytes of ");
        glint_text_str(t, fault->field);
        glint_text_str(t, " does not fit in 63 bits; use shorter lengths or smaller strides.");
        break;
    case GLINT_NOT_IN_SPEC: put_not_in_spec(t, p, pass, fault); break;
    case GLINT_NOT_ON_DEVICE:
        glint_text_str(t, "The library has variants for ");
        put_key(t, p, pass);
        glint_text_str(t, ", but none that this device runs. In the spec, add ");
        context->backend->put_target(context, t);
        glint_text_str(t, " and rebuild.");
        break;
    case GLINT_BAD_PLAN:
        glint_text_str(t, "The plan was not made by glint_plan for this context, or was changed; plan again.");
        break;
    case GLINT_WRONG_PASS:
        glint_text_str(t, "The plan is for the ");
        glint_text_str(t, pass_name((uint32_t)fault->value));
        glint_text_str(t, " pass; plan the ");
        glint_text_str(t, pass_name((uint32_t)fault->want));
        glint_text_str(t, " pass for this call.");
        break;
    case GLINT_NULL_TENSOR:
        glint_text_str(t, fault->field[0] == 'a' ? "" : "tensors."); /* append.k */
        glint_text_str(t, fault->field);
        glint_text_str(t, " is NULL; this call needs it.");
        break;
    case GLINT_TENSOR_OVERLAP: put_overlap(t, fault); break;
    case GLINT_BAD_STREAM: glint_text_str(t, "stream is not NULL; a context on the CPU takes none."); break;
    default: glint_text_str(t, glint_status_sentence(status)); break;
    }
}

/* Of tf32: what that means, and which row is more exact. */
static void put_math(struct glint_text *t, const struct glint_context *context, const struct glint_plan *plan)
{
    if (glint_variants[plan->variant].math != GLINT_MATH_TF32)
        return;
    const struct glint_key key = glint_key_of_row(&glint_variants[plan->variant]);
    glint_text_str(t, "\nIts products are tf32: each is off by up to 2^-10 of itself.");
    for (uint32_t i = 0; i < glint_variants_count; i++)
        if (glint_variants[i].math == GLINT_MATH_TF32X3 && is_candidate(context, &key, i)) {
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
    glint_text_str(t, v->family->name);
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
    if (plan->problem.sinks != 0)
        glint_text_str(t, "\nThe denominator of a row has the sink of its head, and so has LSE.");
    if (v->family->explain)
        v->family->explain(plan, t);
}

static enum glint_status finish(struct glint_text *t, enum glint_status status, size_t *needed_bytes)
{
    const size_t needed = glint_text_end(t);
    if (needed_bytes)
        *needed_bytes = needed;
    return status;
}

static struct glint_text start(char *buffer, size_t buffer_bytes)
{
    return (struct glint_text){buffer, buffer ? buffer_bytes : 0, 0};
}

static void put_status(struct glint_text *t, enum glint_status status)
{
    glint_text_str(t, glint_status_name(status));
    glint_text_str(t, ": ");
}

enum glint_status glint_explain(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                                char *buffer, size_t buffer_bytes, size_t *needed_bytes)
{
    struct glint_text t = start(buffer, buffer_bytes);
    struct glint_fault fault = {.variant = UINT32_MAX};
    fault.field = "context"; /* not above: gcc for AArch64 would put the initial value, an address in it, into .data */
    struct glint_plan plan;
    enum glint_status status = GLINT_OK;

    if (!context || !problem) {
        status = GLINT_NULL_ARGUMENT;
        fault.field = context ? "problem" : "context";
    } else if (context->magic != GLINT_CONTEXT_OPEN)
        status = GLINT_CONTEXT_CLOSED;
    if (status == GLINT_OK)
        status = glint_check_problem(problem, pass, &fault);
    if (status == GLINT_OK)
        status = glint_plan_checked(context, problem, pass, UINT32_MAX, &plan, &fault);
    put_status(&t, status);
    if (status == GLINT_OK)
        put_choice(&t, context, &plan);
    else
        put_fault(&t, status, context, problem, pass, &fault);
    return finish(&t, status, needed_bytes);
}

enum glint_status glint_explain_call(const struct glint_plan *plan, enum glint_pass pass, const struct glint_tensors *tensors,
                                     const void *workspace, size_t workspace_bytes, const void *stream, char *buffer,
                                     size_t buffer_bytes, size_t *needed_bytes)
{
    struct glint_text t = start(buffer, buffer_bytes);
    struct glint_fault fault;
    const enum glint_status status = glint_check_call(plan, pass, tensors, workspace, workspace_bytes, stream, &fault);
    put_status(&t, status);
    if (status == GLINT_OK)
        glint_text_str(&t, "The call would run.");
    else
        put_fault(&t, status, plan ? plan->context : NULL, plan ? &plan->problem : NULL, pass, &fault);
    return finish(&t, status, needed_bytes);
}

enum glint_status glint_explain_append(const struct glint_plan *plan, const struct glint_append *append,
                                       const struct glint_tensors *tensors, const void *stream, char *buffer, size_t buffer_bytes,
                                       size_t *needed_bytes)
{
    struct glint_text t = start(buffer, buffer_bytes);
    struct glint_fault fault;
    const enum glint_status status = glint_check_append(plan, append, tensors, stream, &fault);
    put_status(&t, status);
    if (status == GLINT_OK)
        glint_text_str(&t, "The call would run.");
    else
        put_fault(&t, status, plan ? plan->context : NULL, plan ? &plan->problem : NULL, GLINT_FORWARD, &fault);
    return finish(&t, status, needed_bytes);
}
