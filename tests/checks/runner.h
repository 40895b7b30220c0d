/* Runs a list of checks as a test program. Two implementations: runner_check.c on the Check library, and runner_plain.c, one loop, for
 * targets without the library. In both a list that is empty, a --case that names no check, and a check that did not run are failures.
 *
 * All checks run in one process: CUDA does not survive a fork, and a child for each costs more than the checks. Isolation and
 * time-outs are Bazel's; a crash names the check that it happened in. */
#ifndef GLINT_TESTS_RUNNER_H
#define GLINT_TESTS_RUNNER_H

#include "tests/checks/check.h"

struct runner_options {
    const char *only; /* run the check with this name, or all that begin with it if it ends in '/'; NULL: all */
    bool list;        /* print names instead */
    bool margins;     /* print the worst error / bound of every kind */
};

/* Takes --case=NAME, --list and --margins out of the arguments, and prefix=VALUE into *value. False, with a message, for others. */
bool runner_arguments(int argc, char **argv, struct runner_options *options, const char *prefix, const char **value);

/* The process's exit status. Prints at most a few failures, and one line of summary. */
int runner_run(const char *suite, struct check_list *list, const struct runner_options *options);

/* For the two implementations. */
enum { RUNNER_FAILURES_SHOWN = 5, RUNNER_MESSAGE = 2048 };
size_t runner_select(struct check_list *list, const struct runner_options *options);
void runner_prepare(void);
int runner_summary(const char *suite, size_t wanted, size_t run, size_t failed);

#endif
