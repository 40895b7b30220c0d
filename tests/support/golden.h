/* Texts that a program makes, kept as a file beside it: a change of one is seen in review. */
#ifndef GLINT_TESTS_GOLDEN_H
#define GLINT_TESTS_GOLDEN_H

#include <stdbool.h>
#include <stdio.h>

/* Whether `have` is the file's text; else prints the first line that differs. */
bool golden_is(const char *path, const char *have);

/* Ends a test whose text went to `out`, a stream of open_memstream for `have`: compares it with the file, or prints it
 * where there is no path. The exit status. */
int golden_finish(FILE *out, char **have, const char *path);

#endif
