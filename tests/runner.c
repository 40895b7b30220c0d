#include "tests/runner.h"

#include <stdio.h>
#include <string.h>

bool runner_arguments(int argc, char **argv, struct runner_options *options, const char *prefix, const char **value)
{
    *options = (struct runner_options){0};
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--case=", 7) == 0) {
            options->only = argv[i] + 7;
        } else if (strcmp(argv[i], "--list") == 0) {
            options->list = true;
        } else if (strcmp(argv[i], "--margins") == 0) {
            options->margins = true;
        } else if (prefix != NULL && strncmp(argv[i], prefix, strlen(prefix)) == 0) {
            *value = argv[i] + strlen(prefix);
        } else {
            fprintf(stderr, "%s: unknown argument '%s'; known: %s%s --case=NAME --list --margins\n", argv[0], argv[i],
                    prefix != NULL ? prefix : "", prefix != NULL ? "NAME" : "");
            return false;
        }
    }
    return true;
}

static bool selected(const struct check *check, const char *only)
{
    const size_t length = only != NULL ? strlen(only) : 0;
    if (length == 0)
        return only == NULL;
    return only[length - 1] == '/' ? strncmp(check->name, only, length) == 0 : strcmp(check->name, only) == 0;
}

size_t runner_select(struct check_list *list, const struct runner_options *options)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (selected(&list->at[i], options->only))
            list->at[kept++] = list->at[i];
    if (kept == 0)
        fprintf(stderr, "no check is named '%s' (of %zu; --list shows them)\n", options->only != NULL ? options->only : "", list->count);
    list->count = kept;
    return kept;
}

int runner_summary(const char *suite, size_t wanted, size_t run, size_t failed)
{
    printf("%s: %zu checks, %zu run, %zu failed\n", suite, wanted, run, failed);
    return wanted > 0 && run == wanted && failed == 0 ? 0 : 1;
}
