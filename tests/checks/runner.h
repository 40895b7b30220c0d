/* A list of checks as a test program (tests/support/cases.h). A --case that names no check is a failure. All checks run
 * in one process; a crash names the check that it happened in. */
#ifndef GLINT_TESTS_RUNNER_H
#define GLINT_TESTS_RUNNER_H

#include "tests/checks/check.h"

struct runner_options {
    const char *only;       /* run the check with this name, or all that begin with it if it ends in '/'; NULL: all */
    bool list;              /* print names instead */
    bool margins;           /* print the worst error / bound of every kind */
    bool times;             /* print the CPU seconds of every check */
    bool formats;           /* of a variant: only the checks of formats_checks */
    uint32_t share, shares; /* of a variant: only the checks of share_checks; 0 shares: all */
    const char *dealt;      /* of a variant: only the checks that this file names, one a line; NULL: all */
};

/* Takes --case=NAME, --list, --margins, --times, --formats, --share=I/N, --dealt=FILE and --whole out of the arguments,
 * and prefix=VALUE into *value. --whole takes back a --share and a --dealt, and so does a --case. False, with a
 * message, for others. */
bool runner_arguments(int argc, char **argv, struct runner_options *options, const char *prefix, const char **value);

/* The process's exit status. Prints at most a few failures, and one line of summary. A shard of a Bazel test runs every
 * n-th check; with --case all that are asked for. */
int runner_run(const char *suite, struct check_list *list, const struct runner_options *options);

enum { RUNNER_MESSAGE = 2048 }; /* bytes of what check_run says of a failure */

/* Says of a signal in which check it came, and keeps freed memory. runner_run does it. */
void runner_prepare(void);

#endif
