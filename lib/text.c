/* Text that is put together piece by piece. */
#include "lib/text.h"

void glint_text_char(struct glint_text *text, char c)
{
    if (text->length + 1 < text->capacity)
        text->buffer[text->length] = c;
    text->length++;
}

void glint_text_str(struct glint_text *text, const char *s)
{
    while (*s != '\0')
        glint_text_char(text, *s++);
}

void glint_text_uint(struct glint_text *text, uint64_t value)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    while (n > 0)
        glint_text_char(text, digits[--n]);
}

void glint_text_int(struct glint_text *text, int64_t value)
{
    if (value < 0)
        glint_text_char(text, '-');
    glint_text_uint(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

size_t glint_text_end(struct glint_text *text)
{
    if (text->capacity > 0)
        text->buffer[text->length < text->capacity ? text->length : text->capacity - 1] = '\0';
    return text->length + 1;
}
