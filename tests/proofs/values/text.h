/* What lib/text.c does to a text, as the contracts say that WP proves of it (contracts/text.acsl); included ahead of
 * every file that Eva reads, which then looks at what callers give. */
#ifndef VALUES_TEXT_H
#define VALUES_TEXT_H
#include <stdbool.h>
#include <string.h>

#include "lib/text.h"

/*@ requires \valid(text);
    assigns text->length \from text->length; */
void glint_text_char(struct glint_text *text, char c);
/*@ requires \valid(text) && valid_read_string(s);
    assigns text->length \from text->length; */
void glint_text_str(struct glint_text *text, const char *s);
/*@ requires \valid(text);
    assigns text->length \from text->length; */
void glint_text_uint(struct glint_text *text, uint64_t value);
/*@ requires \valid(text);
    assigns text->length \from text->length; */
void glint_text_int(struct glint_text *text, int64_t value);
/*@ requires \valid(text);
    assigns \result \from text->length; */
size_t glint_text_end(struct glint_text *text);

#endif
