#include "tests/support/cases.h"

#ifndef GLINT_TESTS_WITHOUT_CHECK
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static const struct cases *all;

START_TEST(one)
{
    all->run((size_t)_i);
}
END_TEST

void cases_fail(const char *message)
{
    ck_abort_msg("%s", message);
    abort();
}

static void print_failures(SRunner *runner, size_t failed)
{
    TestResult **failures = srunner_failures(runner);
    for (size_t i = 0; i < failed && i < CASES_FAILURES; i++)
        printf("FAILED %s: %s\n", tr_tcname(failures[i]), tr_msg(failures[i]));
    if (failed > CASES_FAILURES)
        printf("... and %zu more\n", failed - CASES_FAILURES);
    free(failures);
}

int cases_run(const struct cases *cases)
{
    Suite *suite = suite_create(cases->suite);
    all = cases;
    for (size_t i = 0; i < cases->count; i++) {
        TCase *one_case = tcase_create(cases->name(i));
        if (cases->seconds != NULL)
            tcase_set_timeout(one_case, cases->seconds(i));
        tcase_add_loop_test(one_case, one, (int)i, (int)i + 1);
        suite_add_tcase(suite, one_case);
    }
    SRunner *runner = srunner_create(suite);
    if (cases->seconds == NULL)
        srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    const size_t run = (size_t)srunner_ntests_run(runner), failed = (size_t)srunner_ntests_failed(runner);
    print_failures(runner, failed);
    srunner_free(runner);
    printf("%s: %zu checks, %zu run, %zu failed\n", cases->suite, cases->count, run, failed);
    return cases->count > 0 && run == cases->count && failed == 0 ? 0 : 1;
}
#endif
