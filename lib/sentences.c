/* A refusal: its status by its reason, and its sentence, printed. */
#include <stddef.h>

#include "lib/axes.h"
#include "lib/backend.h"
#include "lib/check.h"
#include "lib/takes.h"
#include "lib/text.h"

enum glint_status glint_refuse(struct glint_fault *fault, enum glint_reason reason, const char *field, const char *part,
                               int64_t value, int64_t want)
{
    static const uint8_t statuses[] = {GLINT_OK,
#define REASON(reason, status, sentence) status,
                                       GLINT_REASONS(REASON)
#undef REASON
    };
    *fault = (struct glint_fault){reason, "", field, part, value, want, UINT32_MAX, UINT32_MAX};
    return (enum glint_status)statuses[reason];
}

/* What a sentence is about. */
struct about {
    const struct glint_context *context;
    const struct glint_problem *problem;
    enum glint_pass pass;
    const struct glint_fault *fault;
    enum glint_status status;
};

/* merge.part[3].o_strides */
static void put_field(struct glint_text *t, const struct about *a)
{
    glint_text_str(t, a->fault->place);
    if (a->fault->index != UINT32_MAX) {
        glint_text_str(t, "part[");
        glint_text_uint(t, a->fault->index);
        glint_text_str(t, "].");
    }
    glint_text_str(t, a->fault->field);
}

static void put_part(struct glint_text *t, const struct about *a)
{
    glint_text_str(t, a->fault->part);
}

static void put_value(struct glint_text *t, const struct about *a)
{
    glint_text_int(t, a->fault->value);
}

static void put_want(struct glint_text *t, const struct about *a)
{
    glint_text_int(t, a->fault->want);
}

static void put_row(struct glint_text *t, const struct about *a)
{
    glint_text_str(t, glint_variants[a->fault->variant].name);
}

static void put_status(struct glint_text *t, const struct about *a)
{
    glint_text_str(t, glint_status_sentence(a->status));
}

static const char *pass_name(int64_t pass)
{
    return pass == GLINT_FORWARD ? "forward" : "backward";
}

static void put_planned(struct glint_text *t, const struct about *a)
{
    glint_text_str(t, pass_name(a->fault->value));
}

static void put_pass(struct glint_text *t, const struct about *a)
{
    glint_text_str(t, pass_name(a->fault->want));
}

static void put_target(struct glint_text *t, const struct about *a)
{
    a->context->backend->put_target(a->context, t);
}

static void put_axis_value(struct glint_text *t, enum glint_axis axis, int64_t value)
{
    const char *word = glint_axis_word(axis, value);
    if (word)
        glint_text_str(t, word);
    else
        glint_text_int(t, value);
}

static void put_key(struct glint_text *t, const struct about *a)
{
    const struct glint_key key = glint_key_of_problem(a->problem, a->pass);
    for (int axis = 0; axis < GLINT_AXIS_COUNT; axis++) {
        if (!glint_axis_is_said((enum glint_axis)axis, &key))
            continue;
        glint_text_str(t, axis > 0 ? ", " : "");
        glint_text_str(t, glint_axis_name((enum glint_axis)axis));
        glint_text_char(t, ' ');
        put_axis_value(t, (enum glint_axis)axis, key.value[axis]);
    }
}

/* The words of the spec that would make a row for the key: its parts that the nearest row does not serve. */
static void put_axes_to_add(struct glint_text *t, const struct about *a)
{
    if (a->fault->variant == UINT32_MAX) {
        glint_text_str(t, " Its spec is empty.");
        return;
    }
    const struct glint_variant *v = &glint_variants[a->fault->variant];
    const struct glint_key wanted = glint_key_of_problem(a->problem, a->pass), key = glint_key_of_row(v);
    glint_text_str(t, " Nearest variant: ");
    glint_text_str(t, v->name);
    glint_text_str(t, ". In the spec, add");
    for (int i = 0; i < GLINT_AXIS_COUNT; i++) {
        const enum glint_axis axis = (enum glint_axis)i;
        const char *quote = glint_axis_word(axis, wanted.value[i]) ? "\"" : "";
        if (!glint_axis_is_said(axis, &wanted) || glint_axis_serves(axis, v, key.value[i], wanted.value[i]))
            continue;
        glint_text_char(t, ' ');
        glint_text_str(t, quote);
        put_axis_value(t, axis, wanted.value[i]);
        glint_text_str(t, quote);
        glint_text_str(t, " to ");
        glint_text_str(t, glint_axis_plural(axis));
        glint_text_char(t, ',');
    }
    glint_text_str(t, " and rebuild.");
}

static void put_needs(struct glint_text *t, const struct about *a)
{
    const uint32_t needs = glint_needs_of(a->problem);
    const uint32_t linear = (needs & GLINT_TAKES_PAGES) != 0          ? GLINT_TAKES_LENGTHS
                            : (needs & GLINT_TAKES_RAGGED_PAGES) != 0 ? GLINT_TAKES_RAGGED
                                                                      : 0;
    const char *before = "";
#define PUT(word, bit, reason, member, what)       \
    if ((needs & ~linear & (bit)) != 0) {          \
        glint_text_str(t, before);                 \
        glint_text_str(t, what), before = " and "; \
    }
    GLINT_TAKES(PUT)
#undef PUT
}

/* What would make a row that takes the problem: fields of the family of the nearest row, or of another one that runs
 * here. */
static void put_fields_to_set(struct glint_text *t, const struct about *a)
{
    const struct glint_key key = glint_key_of_problem(a->problem, a->pass);
    const uint32_t needs = glint_needs_of(a->problem);
    uint32_t row = a->fault->variant;
    for (uint32_t i = 0; (needs & ~(uint32_t)(glint_variants[row].takes | glint_variants[row].could)) != 0; i++) {
        if (i == glint_variants_count) {
            glint_text_str(t, " No field of its family in the spec makes one that does.");
            return;
        }
        if (glint_is_candidate(a->context, &key, i) &&
            (needs & ~(uint32_t)(glint_variants[i].takes | glint_variants[i].could)) == 0)
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
    glint_text_str(t, glint_family_of(v)->name);
    glint_text_str(t, " and rebuild.");
}

static void put_change(struct glint_text *t, const struct about *a)
{
    if (a->fault->reason == GLINT_REASON_NOT_IN_SPEC)
        put_axes_to_add(t, a);
    else
        put_fields_to_set(t, a);
}

/* The length of `word` where the text begins with it, else 0. */
static size_t begins(const char *text, const char *word)
{
    size_t n = 0;
    while (word[n] != '\0' && text[n] == word[n])
        n++;
    return word[n] == '\0' ? n : 0;
}

#define WORDS(W) W(field) W(part) W(value) W(want) W(row) W(key) W(change) W(needs) W(planned) W(pass) W(target) W(status)

enum word {
#define WORD(word) WORD_##word,
    WORDS(WORD)
#undef WORD
        WORD_COUNT
};

static void put(struct glint_text *t, int word, const struct about *a)
{
    switch (word) {
#define PUT(word) \
    case WORD_##word: put_##word(t, a); return;
        WORDS(PUT)
#undef PUT
    default: return;
    }
}

/* All sentences, one after another: an offset finds one, as a pointer would have to be relocated. */
static const struct sentences {
#define MEMBER(reason, status, sentence) char reason[sizeof sentence];
    MEMBER(NONE, GLINT_OK, "{status}") GLINT_REASONS(MEMBER)
#undef MEMBER
} sentences = {
#define VALUE(reason, status, sentence) sentence,
    VALUE(NONE, GLINT_OK, "{status}") GLINT_REASONS(VALUE)
#undef VALUE
};

void glint_put_refusal(struct glint_text *t, enum glint_status status, const struct glint_fault *fault,
                       const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass)
{
    static const uint16_t offsets[] = {
#define OFFSET(reason, status, sentence) offsetof(struct sentences, reason),
        OFFSET(NONE, GLINT_OK, "{status}") GLINT_REASONS(OFFSET)
#undef OFFSET
    };
    static const char words[][sizeof "{planned}"] = {
#define WORD(word) "{" #word "}",
        WORDS(WORD)
#undef WORD
    };
    const struct about about = {context, problem, pass, fault, status};
    const char *s = (const char *)&sentences + offsets[fault->reason];
    while (*s != '\0') {
        size_t n = 0;
        for (int i = 0; *s == '{' && n == 0 && i < WORD_COUNT; i++) {
            n = begins(s, words[i]);
            if (n > 0)
                put(t, i, &about);
        }
        if (n == 0)
            glint_text_char(t, *s);
        s += n > 0 ? n : 1;
    }
}
