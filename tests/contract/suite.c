#include "tests/contract/suite.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GLINT_TESTS_WITHOUT_CHECK
#include <sys/wait.h>
#include <unistd.h>
#else
#include <check.h>
#endif

#define DEFAULT_SECONDS 60

static const struct contract_case *running;

void contract_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("    ");
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    va_end(arguments);
}

static bool chosen(const char *name, int argc, char **argv)
{
    if (argc < 2)
        return true;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return false;
}

#ifdef GLINT_TESTS_WITHOUT_CHECK

void contract_failed(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: %s: ", file, line, condition);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    _exit(1);
}

static bool passes(const struct contract_case *c)
{
    int state = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(4u * (unsigned)(c->seconds > 0 ? c->seconds : DEFAULT_SECONDS)); /* an emulator is slower */
        c->run();
        fflush(NULL);
        _exit(0);
    }
    return child > 0 && waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

int contract_run(const char *suite, const struct contract_case *cases, size_t count, int argc, char **argv)
{
    unsigned run = 0, failed = 0;
    for (size_t i = 0; i < count; i++) {
        if (!chosen(cases[i].name, argc, argv))
            continue;
        running = &cases[i];
        run++;
        if (!passes(running)) {
            fprintf(stderr, "%s: %s failed\n", suite, running->name);
            failed++;
        }
    }
    printf("%s: %u passed, %u failed\n", suite, run - failed, failed);
    if (run == 0)
        fprintf(stderr, "%s: no case was run\n", suite);
    return run > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#else

void contract_failed(const char *file, int line, const char *condition, const char *format, ...)
{
    char facts[1536];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(facts, sizeof facts, format, arguments);
    va_end(arguments);
    ck_abort_msg("%s:%d: %s: %s", file, line, condition, facts);
    abort();
}

static const struct contract_case *all;

START_TEST(one)
{
    running = &all[_i];
    running->run();
}
END_TEST

int contract_run(const char *suite, const struct contract_case *cases, size_t count, int argc, char **argv)
{
    Suite *const s = suite_create(suite);
    all = cases;
    for (size_t i = 0; i < count; i++) {
        if (!chosen(cases[i].name, argc, argv))
            continue;
        TCase *const t = tcase_create(cases[i].name);
        tcase_set_timeout(t, cases[i].seconds > 0 ? cases[i].seconds : DEFAULT_SECONDS);
        tcase_add_loop_test(t, one, (int)i, (int)i + 1);
        suite_add_tcase(s, t);
    }
    SRunner *const runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    const int run = srunner_ntests_run(runner), failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (run == 0)
        fprintf(stderr, "%s: no case was run\n", suite);
    return run > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
