#include "tests/checks/runner.h"

#ifndef GLINT_TESTS_WITHOUT_CHECK
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static const struct check_list *checks;

START_TEST(one)
{
    char message[RUNNER_MESSAGE];
    if (!check_run(checks, &checks->at[_i], message, sizeof message))
        ck_abort_msg("%s", message);
}
END_TEST

static void print_failures(SRunner *runner, size_t failed)
{
    TestResult **failures = srunner_failures(runner);
    for (size_t i = 0; i < failed && i < RUNNER_FAILURES_SHOWN; i++)
        printf("FAILED %s\n", tr_msg(failures[i]));
    if (failed > RUNNER_FAILURES_SHOWN)
        printf("... and %zu more\n", failed - RUNNER_FAILURES_SHOWN);
    free(failures);
}

int runner_run(const char *suite, struct check_list *list, const struct runner_options *options)
{
    if (runner_select(list, options) == 0)
        return 1;
    if (options->list) {
        for (size_t i = 0; i < list->count; i++)
            printf("%s\n", list->at[i].name);
        return 0;
    }
    checks = list;
    Suite *all = suite_create(suite);
    TCase *cases = tcase_create("checks");
    tcase_add_loop_test(cases, one, 0, (int)list->count);
    suite_add_tcase(all, cases);
    SRunner *runner = srunner_create(all);
    srunner_set_fork_status(runner, CK_NOFORK);
    runner_prepare();
    srunner_run_all(runner, CK_SILENT);

    const size_t run = (size_t)srunner_ntests_run(runner), failed = (size_t)srunner_ntests_failed(runner);
    print_failures(runner, failed);
    srunner_free(runner);
    if (options->margins)
        check_print_margins();
    return runner_summary(suite, list->count, run, failed);
}
#endif
