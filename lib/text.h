/* Bounded text for glint_explain: no allocation, no stdio, never past the buffer. Internal: not installed. */
#ifndef GLINT_TEXT_H
#define GLINT_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct glint_text {
    char *buffer;
    size_t capacity; /* bytes of buffer, the NUL included */
    size_t length;   /* of the whole text, also of what did not fit */
};

static inline void glint_text_char(struct glint_text *text, char c)
{
    if (text->length + 1 < text->capacity)
        text->buffer[text->length] = c;
    text->length++;
}

static inline void glint_text_str(struct glint_text *text, const char *s)
{
    while (*s != '\0')
        glint_text_char(text, *s++);
}

static inline void glint_text_uint(struct glint_text *text, uint64_t value)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    while (n > 0)
        glint_text_char(text, digits[--n]);
}

static inline void glint_text_int(struct glint_text *text, int64_t value)
{
    if (value < 0)
        glint_text_char(text, '-');
    glint_text_uint(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* Ends the text: the NUL goes after what fitted. Returns the bytes that the whole text needs. */
static inline size_t glint_text_end(struct glint_text *text)
{
    if (text->capacity > 0)
        text->buffer[text->length < text->capacity ? text->length : text->capacity - 1] = '\0';
    return text->length + 1;
}

#endif
