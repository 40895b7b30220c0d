/* Bounded text for glint_explain: no allocation, no stdio, never past the buffer. Out of line, for sentences are
 * made of many calls. Internal: not installed. */
#ifndef GLINT_TEXT_H
#define GLINT_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct glint_text {
    char *buffer;
    size_t capacity; /* bytes of buffer, the NUL included */
    size_t length;   /* of the whole text, also of what did not fit */
};

void glint_text_char(struct glint_text *text, char c);
void glint_text_str(struct glint_text *text, const char *s);
void glint_text_uint(struct glint_text *text, uint64_t value);
void glint_text_int(struct glint_text *text, int64_t value);

/* Ends the text: the NUL goes after what fitted. Returns the bytes that the whole text needs. */
size_t glint_text_end(struct glint_text *text);

#endif
