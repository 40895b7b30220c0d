/* The words of the axes. */
#include "lib/axes.h"

#include <stddef.h>

const char *glint_axis_name(enum glint_axis axis)
{
#define GLINT_AXIS(axis, plural, of_row, of_problem) #axis,
    static const char *const names[] = {GLINT_AXES(GLINT_AXIS)};
#undef GLINT_AXIS
    return names[axis];
}

const char *glint_axis_plural(enum glint_axis axis)
{
#define GLINT_AXIS(axis, plural, of_row, of_problem) plural,
    static const char *const plurals[] = {GLINT_AXES(GLINT_AXIS)};
#undef GLINT_AXIS
    return plurals[axis];
}

const char *glint_axis_word(enum glint_axis axis, int64_t value)
{
    static const struct {
        enum glint_axis axis;
        int64_t value;
        const char *word;
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
