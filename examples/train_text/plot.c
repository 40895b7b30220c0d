#include "examples/train_text/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 760, HEIGHT = 440, LEFT = 70, RIGHT = 24, TOP = 48, BOTTOM = 56 };

struct writer {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int wrote = vsnprintf(w->at, w->left, format, arguments);
    va_end(arguments);
    size_t step = wrote < 0 || (size_t)wrote >= w->left ? w->left : (size_t)wrote; /* left == 0 means it did not fit */
    w->at += step;
    w->left -= step;
}

static int save(const char *path, const struct writer *w, const char *buffer, char *reason, size_t reason_bytes)
{
    if (w->left == 0) {
        snprintf(reason, reason_bytes, "the loss curve '%s' has too many points", path);
        return -1;
    }
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    size_t bytes = (size_t)(w->at - buffer);
    int failed = file < 0 || write(file, buffer, bytes) != (ssize_t)bytes;
    int error = errno;
    if (file >= 0)
        failed |= close(file) != 0;
    if (failed)
        snprintf(reason, reason_bytes, "cannot write the loss curve '%s': %s", path, strerror(error));
    return failed ? -1 : 0;
}

/* A round step (1, 2 or 5 times a power of ten) that cuts `range` into at most `most` pieces. */
static double round_step(double range, int most)
{
    double power = pow(10, floor(log10(range / most))), left = range / most / power;
    return power * (left <= 1 ? 1 : left <= 2 ? 2 : left <= 5 ? 5 : 10);
}

int plot_svg(const char *path, const char *title, const char *x_label, const char *y_label, const struct curve *curves,
             size_t curve_count, double level, const char *level_label, char *buffer, size_t buffer_bytes, char *reason,
             size_t reason_bytes)
{
    double x_max = 1, y_max = level;
    for (size_t c = 0; c < curve_count; c++)
        for (size_t i = 0; i < curves[c].count; i++) {
            if (curves[c].x[i] > x_max)
                x_max = curves[c].x[i];
            if (curves[c].y[i] > y_max)
                y_max = curves[c].y[i];
        }
    double x_step = round_step(x_max, 8), y_step = round_step(y_max, 7);
    y_max = ceil(y_max / y_step) * y_step;
    double x_scale = (WIDTH - LEFT - RIGHT) / x_max, y_scale = (HEIGHT - TOP - BOTTOM) / y_max, floor_y = HEIGHT - BOTTOM;

    struct writer w = {buffer, buffer_bytes};
    put(&w, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\">\n", WIDTH,
        HEIGHT);
    put(&w, "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"%d\" y=\"26\" font-size=\"16\">%s</text>\n", LEFT,
        title);
    for (double y = 0; y <= y_max + y_step / 2; y += y_step)
        put(&w, "<path d=\"M%d %.1fH%d\" stroke=\"#e3e3e3\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT,
            floor_y - y * y_scale, WIDTH - RIGHT, LEFT - 8, floor_y - y * y_scale + 4, y);
    for (double x = 0; x <= x_max + x_step / 100; x += x_step)
        put(&w, "<path d=\"M%.1f %.1fv5\" stroke=\"#555\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n",
            LEFT + x * x_scale, floor_y, LEFT + x * x_scale, floor_y + 20, x);
    put(&w, "<path d=\"M%d %dV%.1fH%d\" fill=\"none\" stroke=\"#555\"/>\n", LEFT, TOP, floor_y, WIDTH - RIGHT);
    put(&w, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_label);
    put(&w, "<text transform=\"translate(20 %d) rotate(-90)\" text-anchor=\"middle\">%s</text>\n", (TOP + HEIGHT - BOTTOM) / 2,
        y_label);

    put(&w, "<path d=\"M%d %.1fH%d\" stroke=\"#777\" stroke-dasharray=\"6 4\"/>", LEFT, floor_y - level * y_scale, WIDTH - RIGHT);
    put(&w, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%s</text>\n", WIDTH - RIGHT, floor_y - level * y_scale - 6,
        level_label);
    for (size_t c = 0; c < curve_count; c++) {
        put(&w, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" points=\"", curves[c].colour);
        for (size_t i = 0; i < curves[c].count; i++)
            put(&w, "%.1f,%.1f ", LEFT + curves[c].x[i] * x_scale, floor_y - curves[c].y[i] * y_scale);
        put(&w, "\"/>\n<path d=\"M%d %dh24\" stroke=\"%s\" stroke-width=\"3\"/><text x=\"%d\" y=\"%d\">%s</text>\n", WIDTH - 210,
            TOP + 20 + 22 * (int)c, curves[c].colour, WIDTH - 178, TOP + 24 + 22 * (int)c, curves[c].label);
    }
    put(&w, "</svg>\n");
    return save(path, &w, buffer, reason, reason_bytes);
}

int plot_csv(const char *path, const struct curve *curves, size_t curve_count, char *buffer, size_t buffer_bytes, char *reason,
             size_t reason_bytes)
{
    struct writer w = {buffer, buffer_bytes};
    put(&w, "curve,step,loss\n");
    for (size_t c = 0; c < curve_count; c++)
        for (size_t i = 0; i < curves[c].count; i++)
            put(&w, "%s,%g,%.6f\n", curves[c].label, curves[c].x[i], curves[c].y[i]);
    return save(path, &w, buffer, reason, reason_bytes);
}
