#include "tests/support/golden.h"

#include <stdlib.h>
#include <string.h>

bool golden_is(const char *path, const char *have)
{
    char line[4096];
    FILE *const file = fopen(path, "r");
    bool same = file != NULL;
    if (!same)
        printf("no file %s\n", path);
    for (int number = 1; same; number++) {
        const char *const end = strchr(have, '\n');
        const size_t length = end != NULL ? (size_t)(end + 1 - have) : strlen(have);
        const bool more = fgets(line, sizeof line, file) != NULL;
        if (!more && length == 0)
            break;
        same = more && strlen(line) == length && memcmp(line, have, length) == 0;
        if (!same)
            printf("%s:%d\nhas  %smade %.*s\n", path, number, more ? line : "nothing\n", (int)length,
                   length > 0 ? have : "nothing");
        have += length;
    }
    if (file != NULL)
        fclose(file);
    return same;
}

int golden_finish(FILE *out, char **have, const char *path)
{
    fclose(out);
    const bool right = path != NULL ? golden_is(path, *have) : fputs(*have, stdout) >= 0;
    free(*have);
    return !right;
}
