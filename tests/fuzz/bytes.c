#include "tests/fuzz/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

void contract_failed(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: %s: ", file, line, condition);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

uint64_t take(struct bytes *b, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count && b->left > 0; i++, b->left--)
        value |= (uint64_t)*b->at++ << 8 * i;
    return value;
}

void edit_words(struct bytes *b, void *words, size_t count, size_t first, uint64_t field)
{
    unsigned char *const raw = words;
    uint64_t value;
    if (field % 2 == 0) { /* a word anew */
        value = take(b, 8);
        memcpy(raw + 8 * (field / 2 % count), &value, 8);
    } else { /* an eight-byte field a little more or less */
        const size_t word = first + field / 2 % (count - first);
        memcpy(&value, raw + 8 * word, 8);
        value += (uint64_t)(int64_t)(int8_t)take(b, 1);
        memcpy(raw + 8 * word, &value, 8);
    }
}

void read_problem(struct bytes *b, struct glint_problem *p, uint32_t *pass, int edits)
{
    const struct glint_variant_info info = row_at((uint32_t)take(b, 2) % glint_variant_count());
    const uint64_t how = take(b, 1);
    const int64_t batch = 1 + (int64_t)take(b, 1) % 3, heads_kv = 1 + (int64_t)take(b, 1) % 3, group = 1 + (int64_t)take(b, 1) % 3;
    const int64_t seqlen_q = (int64_t)take(b, 1) % 80, seqlen_k = (int64_t)take(b, 1) % 110;
    (how & 1 ? glint_problem_bhsd : glint_problem_bshd)(p, (enum glint_dtype)info.dtype, batch, seqlen_q, seqlen_k,
                                                        heads_kv * group, heads_kv, info.head_dim);
    serve_cache(p, &info);
    p->mask = row_mask(&info, how >> 1 & 1);
    *pass = info.pass;
    if (how >> 6 == 3 && info.pass == GLINT_FORWARD) { /* strides of K and V, which are read, may be any */
        p->lengths = GLINT_LENGTHS_DEVICE;
        p->page_rows = 16 << (how >> 4 & 3);
        p->pages = 1 + (int64_t)(how & 15);
        p->pages_per_sequence = seqlen_k / p->page_rows + 1;
    }
    for (int edit = 0; edit < edits && b->left > 0; edit++) {
        const uint64_t field = take(b, 1);
        if (field == 255)
            *pass = (uint32_t)take(b, 4);
        else
            edit_words(b, p, sizeof *p / 8, 2, field);
    }
}
