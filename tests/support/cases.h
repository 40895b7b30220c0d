/* Runs a list of named cases as a test program. Two implementations: cases_check.c on the Check library, and
 * cases_plain.c for targets that have no package of it. In both a list that is empty and a case that was not run are
 * failures. */
#ifndef GLINT_TESTS_CASES_H
#define GLINT_TESTS_CASES_H

#include <stdbool.h>
#include <stddef.h>

struct cases {
    const char *suite;
    size_t count;
    const char *(*name)(size_t i);
    void (*run)(size_t i); /* returns, or calls cases_fail */
    /* Seconds after which a case has failed, which then runs in a process of its own. NULL: all run in this process,
     * and Bazel's limit is the only one. (CUDA does not survive a fork, and a child for each small check costs more
     * than the check.) */
    int (*seconds)(size_t i);
};

/* The process's exit status. Prints at most CASES_FAILURES failures, and one line of summary. */
enum { CASES_FAILURES = 5 };
int cases_run(const struct cases *cases);

/* Ends the running case. */
__attribute__((noreturn)) void cases_fail(const char *message);

#endif
