/* Without the Check library: AArch64 under Debian has none. */
#include "tests/checks/runner.h"

#ifdef GLINT_TESTS_WITHOUT_CHECK
#include <stdio.h>

int runner_run(const char *suite, struct check_list *list, const struct runner_options *options)
{
    char message[RUNNER_MESSAGE];
    size_t failed = 0;
    if (runner_select(list, options) == 0)
        return 1;
    runner_prepare();
    for (size_t i = 0; i < list->count; i++) {
        if (options->list)
            printf("%s\n", list->at[i].name);
        else if (!check_run(list, &list->at[i], message, sizeof message) && failed++ < RUNNER_FAILURES_SHOWN)
            printf("FAILED %s\n", message);
    }
    if (options->list)
        return 0;
    if (options->margins)
        check_print_margins();
    return runner_summary(suite, list->count, list->count, failed);
}
#endif
