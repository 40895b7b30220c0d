/* Texts that a program makes, kept as a file beside it: a change of one is seen in review. */
#ifndef GLINT_TESTS_GOLDEN_H
#define GLINT_TESTS_GOLDEN_H

#include <stdbool.h>

/* Whether `have` is the file's text; else prints the first line that differs. */
bool golden_is(const char *path, const char *have);

#endif
