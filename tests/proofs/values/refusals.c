/* Sentences of refusals: every reason, with any numbers and words, any status, buffer and problem. `{part}`, `{row}`
 * and the words that ask the problem or the context have what they ask for: says.lua looks at each call of
 * glint_refuse. */
#include "any.h"

static char buffer[4096], field[64], part[64];
static struct glint_context context;
static struct glint_problem problem;

int main(void)
{
    struct glint_fault fault;
    size_t needed;
    any_context(&context);
    Frama_C_make_unknown((char *)&problem, sizeof problem);
    Frama_C_make_unknown(field, sizeof field - 1); /* any string */
    Frama_C_make_unknown(part, sizeof part - 1);
    const int reason = Frama_C_interval(GLINT_REASON_NONE, GLINT_REASON_COUNT - 1);
    /*@ split reason; */
    fault.reason = (enum glint_reason)reason;
    fault.place = field, fault.field = field, fault.part = part;
    fault.value = from(INT64_MIN, INT64_MAX), fault.want = from(INT64_MIN, INT64_MAX), fault.index = any_word();
    fault.variant = word(0, glint_variants_count - 1);
    if (reason == GLINT_REASON_NOT_IN_SPEC && Frama_C_interval(0, 1))
        fault.variant = UINT32_MAX;
    glint_explain_outcome((enum glint_status)any_word(), &fault, &context, &problem,
                          (enum glint_pass)word(GLINT_FORWARD, GLINT_BACKWARD), Frama_C_interval(0, 1) ? buffer : NULL,
                          (size_t)from(0, sizeof buffer), Frama_C_interval(0, 1) ? &needed : NULL);
    return 0;
}
