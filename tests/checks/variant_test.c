/* All checks of one variant: variant_test --variant=NAME [--case=NAME] [--list] [--margins] and what leaves checks out:
 * [--formats] [--share=I/N] [--dealt=FILE] [--whole] (runner.h). */
#include <stdio.h>

#include "tests/checks/runner.h"

int main(int argc, char **argv)
{
    struct runner_options options;
    const char *name = NULL;
    if (!runner_arguments(argc, argv, &options, "--variant=", &name))
        return 2;
    const struct backend *backend = test_backend();
    struct subject subject;
    if (name == NULL || !subject_open(&subject, backend, name)) {
        fprintf(stderr, "no variant is named '%s' among the %u that this test was linked with\n", name != NULL ? name : "",
                backend->variant_count());
        return 2;
    }
    struct check_list list = {.subject = &subject};
    variant_checks(&list);
    if (options.formats)
        formats_checks(&list);
    if (options.shares != 0)
        share_checks(&list, options.share, options.shares);
    const bool dealt = options.dealt == NULL || dealt_checks(&list, options.dealt);
    const int status = dealt ? runner_run(name, &list, &options) : 2;
    subject_close(&subject);
    checks_free(&list);
    return status;
}
