/* The words of the axes, in arrays of a width: a pointer would have to be relocated. */
#include "lib/axes.h"

#include <stddef.h>

const char *glint_axis_name(enum glint_axis axis)
{
#define GLINT_AXIS(axis, plural, of_row, of_problem) #axis,
    static const char names[][11] = {GLINT_AXES(GLINT_AXIS)};
#undef GLINT_AXIS
    return names[axis];
}

const char *glint_axis_plural(enum glint_axis axis)
{
#define GLINT_AXIS(axis, plural, of_row, of_problem) plural,
    static const char plurals[][12] = {GLINT_AXES(GLINT_AXIS)};
#undef GLINT_AXIS
    return plurals[axis];
}

const char *glint_axis_word(enum glint_axis axis, int64_t value)
{
    static const struct {
        uint8_t axis, value;
        char word[9];
    } words[] = {
#define GLINT_WORD(axis, word, value) {GLINT_AXIS_##axis, value, word},
        GLINT_AXIS_WORDS(GLINT_WORD)
#undef GLINT_WORD
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i].axis == axis && words[i].value == value)
            return words[i].word;
    return NULL;
}
