#include "examples/train_text/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGEST_TEXT ((size_t)1 << 30)

size_t text_file_size(const char *path, char *reason, size_t reason_bytes)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        snprintf(reason, reason_bytes, "cannot open the text '%s': %s", path, strerror(errno));
        return 0;
    }
    if (!S_ISREG(status.st_mode)) {
        snprintf(reason, reason_bytes, "the text '%s' is not a regular file", path);
        return 0;
    }
    if (status.st_size == 0 || (uintmax_t)status.st_size > LARGEST_TEXT) {
        snprintf(reason, reason_bytes, "the text '%s' has %jd bytes; between 1 and %zu work", path, (intmax_t)status.st_size,
                 LARGEST_TEXT);
        return 0;
    }
    return (size_t)status.st_size;
}

int text_read(const char *path, struct text *text, char *reason, size_t reason_bytes)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t done = 0;
    while (file >= 0 && done < text->count) {
        ssize_t got = read(file, text->bytes + done, text->count - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    if (done < text->count)
        snprintf(reason, reason_bytes, "cannot read the text '%s': %s", path,
                 file < 0 || errno ? strerror(errno) : "it became shorter while it was read");
    if (file >= 0)
        close(file);
    return done == text->count ? 0 : -1;
}

size_t text_smallest(size_t window)
{
    return HOLD_OUT_EVERY * (window + 1);
}

const char *text_default(void)
{
    static const char *const candidates[] = {"/usr/share/common-licenses/GPL-3", "/usr/share/common-licenses/GPL-2",
                                             "/usr/share/common-licenses/Apache-2.0", "/usr/share/perl/5.36/perl5db.pl",
                                             "/usr/include/stdio.h"};
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
        if (access(candidates[i], R_OK) == 0)
            return candidates[i];
    return NULL;
}

double text_unigram_entropy(const struct text *text)
{
    size_t counts[256] = {0};
    for (size_t i = 0; i < text->count; i++)
        counts[text->bytes[i]]++;
    double entropy = 0;
    for (size_t c = 0; c < 256; c++) {
        double p = (double)counts[c] / (double)text->count;
        if (counts[c])
            entropy -= p * log(p);
    }
    return entropy;
}

size_t text_training_window(const struct text *text, uint64_t *random)
{
    size_t piece = text->window + 1, group = HOLD_OUT_EVERY * piece, starts = text->count - text->window;
    for (;;) {
        size_t start = (size_t)(random_unit(random) * (double)starts);
        if (start % group + text->window < group - piece)
            return start; /* ends before this group's held-out piece */
    }
}

size_t text_held_out_count(const struct text *text)
{
    return text->count / (HOLD_OUT_EVERY * (text->window + 1));
}

size_t text_held_out_window(const struct text *text, size_t index)
{
    return (index * HOLD_OUT_EVERY + HOLD_OUT_EVERY - 1) * (text->window + 1);
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double random_unit(uint64_t *state)
{
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

unsigned char text_draw(const float *logits, double temperature, uint64_t *random)
{
    size_t best = 0;
    for (size_t i = 1; i < 256; i++)
        best = logits[i] > logits[best] ? i : best;
    if (temperature <= 0)
        return (unsigned char)best;
    double weight[256], sum = 0;
    for (size_t i = 0; i < 256; i++)
        sum += weight[i] = exp(((double)logits[i] - (double)logits[best]) / temperature);
    double left = random_unit(random) * sum;
    for (size_t i = 0; i < 256; i++)
        if ((left -= weight[i]) < 0)
            return (unsigned char)i;
    return (unsigned char)best;
}

void text_show(unsigned char byte)
{
    putchar((byte < 32 && byte != '\n' && byte != '\t') || byte == 127 ? '.' : byte);
}
