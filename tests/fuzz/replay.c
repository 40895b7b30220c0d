/* Runs a fuzz target on a kept corpus, once: what the fuzzer found stays found. A corpus is text, an input a line in
 * hexadecimal digits, so that it is one small file that can be read and merged. A corpus without a line is a
 * failure. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

enum { MOST = 1024 };

static int digit(int c)
{
    return isdigit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Bytes of a line of digits; -1 for anything else. */
static int bytes_of(const char *line, uint8_t *data)
{
    int size = 0;
    for (; line[0] != '\0' && line[0] != '\n'; line += 2) {
        const int high = digit(line[0]), low = high < 0 ? -1 : digit(line[1]);
        if (low < 0 || size == MOST)
            return -1;
        data[size++] = (uint8_t)(high << 4 | low);
    }
    return size;
}

int main(int argc, char **argv)
{
    char line[2 * MOST + 2];
    int ran = 0;
    FILE *const f = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (f == NULL) {
        fprintf(stderr, "usage: replay CORPUS\n");
        return EXIT_FAILURE;
    }
    while (fgets(line, sizeof line, f) != NULL) {
        uint8_t data[MOST];
        const int size = bytes_of(line, data);
        if (size < 0) {
            fprintf(stderr, "%s:%d: not hexadecimal digits\n", argv[1], ran + 1);
            return EXIT_FAILURE;
        }
        uint8_t *const exact = malloc((size_t)size + 1); /* a sanitizer sees reads past it */
        memcpy(exact, data, (size_t)size);
        printf("%d: %s", ran + 1, line); /* the last line printed is the culprit's */
        fflush(stdout);
        LLVMFuzzerTestOneInput(exact, (size_t)size);
        free(exact);
        ran++;
    }
    fclose(f);
    printf("replay: %d inputs\n", ran);
    return ran > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
