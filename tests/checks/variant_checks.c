#include "tests/checks/check.h"

#include <string.h>

void variant_checks(struct check_list *list)
{
    list->subject->reads_lengths = subject_reads_lengths(list->subject, 0);
    gradient_checks(list, list->subject);
    laws_checks(list, list->subject);
    special_values_checks(list, list->subject);
    far_checks(list, list->subject);
    lengths_checks(list, list->subject);
    ragged_checks(list, list->subject);
}

static bool begins(const struct check *check, const char *with)
{
    return strncmp(check->name, with, strlen(with)) == 0;
}

/* Ranges and roundings: special values, exponentials, sums that are linear, logits far from 0. And numbers that come out at their places: some
 * of the shapes about a tile, each tensor in another layout. */
static bool of_formats(const struct check *check)
{
    const struct shape *s = &check->shape;
    if (begins(check, "accuracy/"))
        return s->data != DATA_NORMAL || s->softmax_scale != 0 || s->layout == LAYOUT_MIXED;
    return begins(check, "special/") || begins(check, "exp/") || begins(check, "law/linear_in_");
}

void formats_checks(struct check_list *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (of_formats(&list->at[i]))
            list->at[kept++] = list->at[i];
    list->count = kept;
}
