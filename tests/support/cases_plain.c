/* Without the Check library: Debian has none for AArch64 on another machine. */
#define _DEFAULT_SOURCE
#include "tests/support/cases.h"

#ifdef GLINT_TESTS_WITHOUT_CHECK
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOWER = 4 }; /* an emulator is */

static const struct cases *all;
static size_t running, failed;
static jmp_buf ended;

void cases_fail(const char *message)
{
    if (failed < CASES_FAILURES)
        printf("FAILED %s: %s\n", all->name(running), message);
    if (all->seconds != NULL) {
        fflush(NULL);
        _exit(1);
    }
    longjmp(ended, 1);
}

static bool passes_apart(size_t i)
{
    int state = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm((unsigned)(SLOWER * all->seconds(i)));
        all->run(i);
        fflush(NULL);
        _exit(0);
    }
    const bool exited = child > 0 && waitpid(child, &state, 0) == child && WIFEXITED(state);
    if (!exited)
        printf("FAILED %s: %s\n", all->name(i),
               child > 0 && WTERMSIG(state) == SIGALRM ? "it took too long" : "it ended by a signal");
    return exited && WEXITSTATUS(state) == 0;
}

static bool passes_here(size_t i)
{
    if (setjmp(ended) != 0)
        return false;
    all->run(i);
    return true;
}

int cases_run(const struct cases *cases)
{
    all = cases;
    failed = 0;
    for (running = 0; running < cases->count; running++)
        failed += !(cases->seconds != NULL ? passes_apart : passes_here)(running);
    if (failed > CASES_FAILURES)
        printf("... and %zu more\n", failed - CASES_FAILURES);
    printf("%s: %zu checks, %zu run, %zu failed\n", cases->suite, cases->count, cases->count, failed);
    return cases->count > 0 && failed == 0 ? 0 : 1;
}
#endif
