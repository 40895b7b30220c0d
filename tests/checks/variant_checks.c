#include "tests/checks/check.h"

#include <stdint.h>
#include <stdio.h>
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
    later_gradient_checks(list, list->subject);
    later_laws_checks(list, list->subject);
    later_special_values_checks(list, list->subject);
    intervals_checks(list, list->subject);
    apart_checks(list, list->subject);
    bad_pages_checks(list, list->subject);
    logit_checks(list, list->subject);
    interval_laws_checks(list, list->subject);
    tree_checks(list, list->subject);
    divided_laws_checks(list, list->subject);
    divided_lengths_checks(list, list->subject);
    divided_ragged_checks(list, list->subject);
    each_key_checks(list, list->subject);
    many_rows_checks(list, list->subject);
    edges_checks(list, list->subject);
    blind_rows_checks(list, list->subject);
    edge_columns_checks(list, list->subject);
    each_end_checks(list, list->subject);
    step_laws_checks(list, list->subject);
    long_keys_checks(list, list->subject);
    infinite_values_checks(list, list->subject);
    partial_tiles_checks(list, list->subject);
    later_step_laws_checks(list, list->subject);
    alone_checks(list, list->subject);
    ragged_ends_checks(list, list->subject);
    intervals_ends_checks(list, list->subject);
}

static bool begins(const struct check *check, const char *with)
{
    return strncmp(check->name, with, strlen(with)) == 0;
}

/* Ranges and roundings: special values, exponentials, sums that are linear, logits far from 0. And numbers that come
 * out at their places: some of the shapes about a tile, each tensor in another layout. */
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

/* FNV-1a. */
static uint32_t hash(const char *text)
{
    uint32_t sum = 2166136261u;
    for (; *text != 0; text++)
        sum = (sum ^ (uint8_t)*text) * 16777619u;
    return sum;
}

/* A rule that holds of every size alike. What rows of some head dims alone are asked is not one: what reads lengths,
 * and on a GPU the gradient of sinks (subject_checks_sinks). */
static bool of_rules(const struct check *check)
{
    static const char *const kinds[] = {"law/", "special/", "derivative/", "identity/", "exp/", "far/"};
    const struct glint_variant_info *info = &check->subject->info;
    const bool sinks_of_all = info->pass == GLINT_FORWARD || info->isa != GLINT_ISA_ANY;
    bool rule = false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        rule |= begins(check, kinds[i]);
    return rule && strstr(check->name, "length") == NULL && strstr(check->name, "ragged") == NULL &&
           strstr(check->name, "interval") == NULL && (sinks_of_all || strstr(check->name, "sink") == NULL);
}

void share_checks(struct check_list *list, uint32_t share, uint32_t shares)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (!of_rules(&list->at[i]) || hash(list->at[i].name) % shares == share)
            list->at[kept++] = list->at[i];
    list->count = kept;
}

/* Moves the check of this name from behind the first `kept` ones to their end; the others keep their order. */
static bool keep(struct check_list *list, size_t kept, const char *name)
{
    for (size_t i = kept; i < list->count; i++)
        if (strcmp(list->at[i].name, name) == 0) {
            const struct check found = list->at[i];
            memmove(&list->at[kept + 1], &list->at[kept], (i - kept) * sizeof found);
            list->at[kept] = found;
            return true;
        }
    return false;
}

bool dealt_checks(struct check_list *list, const char *path)
{
    char line[sizeof((struct check *)0)->name + 2]; /* a name, the end of its line and a 0 */
    FILE *file = fopen(path, "r");
    size_t kept = 0;
    bool all = file != NULL;
    if (!all)
        fprintf(stderr, "%s cannot be read\n", path);
    while (all && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = 0;
        all = keep(list, kept, line);
        kept += all;
        if (!all)
            fprintf(stderr, "%s names '%s', which is no check of this row; --list --whole shows them\n", path, line);
    }
    if (file != NULL)
        fclose(file);
    list->count = kept;
    return all;
}
