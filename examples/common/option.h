/* The value of an option on a command line. */
#ifndef EXAMPLES_COMMON_OPTION_H
#define EXAMPLES_COMMON_OPTION_H

#include <stddef.h>

/* A whole number from `least` to `most`. 0; or -1, and a sentence that names the program and the option on standard
 * error. */
int option_whole_number(const char *program, const char *option, const char *text, size_t least, size_t most, size_t *value);

#endif
