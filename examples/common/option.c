#include "examples/common/option.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int option_whole_number(const char *program, const char *option, const char *text, size_t least, size_t most, size_t *value)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long number = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end != '\0' || errno || number < least || number > most) {
        fprintf(stderr, "%s: %s takes a whole number from %zu to %zu, not '%s'\n", program, option, least, most, text);
        return -1;
    }
    *value = (size_t)number;
    return 0;
}
