/* The loss curve as an SVG file, and as numbers. */
#ifndef EXAMPLES_TRAIN_TEXT_PLOT_H
#define EXAMPLES_TRAIN_TEXT_PLOT_H

#include <stddef.h>

struct curve {
    const char *label, *colour;
    const double *x, *y;
    size_t count;
};

/* Draws the curves over a common x axis that starts at 0, and a dashed level line. `buffer` is working memory. 0, or -1
 * with a sentence in `reason`. */
int plot_svg(const char *path, const char *title, const char *x_label, const char *y_label, const struct curve *curves,
             size_t curve_count, double level, const char *level_label, char *buffer, size_t buffer_bytes, char *reason,
             size_t reason_bytes);

/* The same curves as lines of "label,x,y". */
int plot_csv(const char *path, const struct curve *curves, size_t curve_count, char *buffer, size_t buffer_bytes, char *reason,
             size_t reason_bytes);

#endif
