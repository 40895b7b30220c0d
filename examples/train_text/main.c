/* Trains a small byte-level transformer on a text and writes text with it. Attention, forward and backward, is Glint's.
 *
 *   main.c        this: memory, the training loop        model.c       the transformer and its gradient
 *   attention.c   every call to Glint                    matmul.c      matrix products
 *   text.c        the text and its held-out part         adam.c        the optimizer
 *   generate.c    sampling with a KV cache               checkpoint.c  the file format
 *
 * Memory: attention_open takes a block for the threads and the context, attention_plan one on the GPU if there is to be
 * one; one arena holds all the rest. After that, nothing is allocated. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "examples/train_text/adam.h"
#include "examples/train_text/check.h"
#include "examples/train_text/checkpoint.h"
#include "examples/train_text/generate.h"
#include "examples/train_text/options.h"
#include "examples/train_text/plot.h"
#include "examples/train_text/text.h"

enum { CURVE_POINTS = 1000, EVALUATIONS = 20, PLOT_BYTES = 1 << 17, SENTENCE = 512 };
static const double PROGRESS_SECONDS = 1.0;

struct run {
    struct options options;
    struct config config;
    struct attention attention;
    struct text text;
    struct model model;
    struct adam adam;
    struct decoder decoder;
    unsigned char *inputs, *targets; /* [batch][context] */
    double *train_x, *train_y, *held_x, *held_y;
    size_t train_points, held_points;
    char *plot;
    float *check_values, *check_direction; /* with --check only */
    char reason[SENTENCE];
};

static volatile sig_atomic_t interrupted;
static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static int complain(const char *sentence)
{
    fflush(stdout);
    fprintf(stderr, "train_text: %s\n", sentence);
    return -1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void layout(struct run *r, struct arena *arena)
{
    size_t rows = r->config.batch * r->config.context;
    r->text.bytes = arena_take(arena, r->text.count);
    r->inputs = arena_take(arena, rows);
    r->targets = arena_take(arena, rows);
    r->train_x = arena_take(arena, CURVE_POINTS * sizeof(double));
    r->train_y = arena_take(arena, CURVE_POINTS * sizeof(double));
    r->held_x = arena_take(arena, CURVE_POINTS * sizeof(double));
    r->held_y = arena_take(arena, CURVE_POINTS * sizeof(double));
    r->plot = arena_take(arena, PLOT_BYTES);
    r->attention.workspace = arena_take(arena, r->attention.host_bytes);
    model_layout(&r->model, &r->config, &r->attention, arena);
    adam_layout(&r->adam, &r->model, arena);
    decoder_layout(&r->decoder, &r->config, arena);
    if (r->options.check) {
        r->check_values = arena_floats(arena, r->model.parameter_floats);
        r->check_direction = arena_floats(arena, r->model.parameter_floats);
    }
}

/* Opens everything and places everything. *block is the arena's memory. */
static int set_up(struct run *r, void **block)
{
    const struct options *o = &r->options;
    r->config = (struct config){o->layers, o->heads, o->context, o->batch, o->heads * HEAD_DIM};
    if (o->load && checkpoint_config(o->load, &r->config, r->reason, SENTENCE) != 0)
        return complain(r->reason);
    if (r->config.batch * r->config.context > (size_t)1 << 20)
        return complain("--batch times --context is above 1048576 bytes a step: make one of them smaller");
    const char *path = o->text ? o->text : text_default();
    if (!path)
        return complain("no default text is on this system: name one with --text FILE");
    r->text.window = r->config.context;
    r->text.count = text_file_size(path, r->reason, SENTENCE);
    if (r->text.count == 0)
        return complain(r->reason);
    if (r->text.count < text_smallest(r->config.context)) {
        snprintf(r->reason, SENTENCE, "the text '%s' has %zu bytes; a context of %zu needs at least %zu", path, r->text.count,
                 r->config.context, text_smallest(r->config.context));
        return complain(r->reason);
    }
    if (attention_open(&r->attention, o->device, (uint32_t)o->threads) != 0 ||
        attention_plan(&r->attention, r->config.batch, r->config.context, r->config.heads) != 0)
        return complain(r->attention.reason);

    struct arena arena = {NULL, 0};
    layout(r, &arena);
    size_t bytes = arena.used;
    *block = arena.base = aligned_alloc(ARENA_ALIGNMENT, bytes);
    if (!arena.base) {
        snprintf(r->reason, SENTENCE, "no memory: this run needs %zu MB; choose fewer --layers, --heads or a smaller --batch",
                 bytes >> 20);
        return complain(r->reason);
    }
    memset(arena.base, 0, bytes); /* now, so that no page is missing later */
    arena.used = 0;
    layout(r, &arena);

    if (text_read(path, &r->text, r->reason, SENTENCE) != 0)
        return complain(r->reason);
    model_initialise(&r->model, o->seed);
    adam_reset(&r->adam, &r->model);
    if (o->load && checkpoint_load(o->load, &r->model, &r->adam, r->reason, SENTENCE) != 0)
        return complain(r->reason);

    double entropy = text_unigram_entropy(&r->text);
    printf("text       %s, %zu bytes, one tenth of it held out\n", path, r->text.count);
    printf("unigram    entropy %.4f nats (%.3f bits) a byte: the best loss without context\n", entropy, entropy / log(2));
    printf("model      %zu layers, %zu heads of %d, context %zu, %zu parameters%s%s\n", r->config.layers, r->config.heads, HEAD_DIM,
           r->config.context, r->model.parameter_floats, o->load ? ", loaded from " : "", o->load ? o->load : "");
    struct glint_variant_info variant = GLINT_VARIANT_INFO_INIT;
    if (r->attention.on_gpu)
        printf("device     %s for the attention; %.1f MB of its memory\n", r->attention.gpu.name,
               (double)r->attention.device.bytes / 1e6);
    if (glint_variant_at(r->attention.backward.variant, &variant) == GLINT_OK)
        printf("attention  %s and its forward; %zu kB of workspace\n", variant.name, r->attention.workspace_bytes >> 10);
    if (glint_variant_at(r->attention.widest_decode.variant, &variant) == GLINT_OK)
        printf("generation %s, one query a step\n", variant.name);
    printf("memory     %.1f MB, all of it allocated now; %zu threads\n\n", (double)bytes / 1e6, o->threads);
    return 0;
}

static void put_window(struct run *r, size_t slot, size_t start)
{
    size_t context = r->config.context;
    memcpy(r->inputs + slot * context, r->text.bytes + start, context);
    memcpy(r->targets + slot * context, r->text.bytes + start + 1, context);
}

/* Mean loss over all held-out windows; NaN when attention failed. The last batch is filled up with repeats that do not
 * count. */
static double held_out_loss(struct run *r)
{
    size_t count = text_held_out_count(&r->text), context = r->config.context, batch = r->config.batch;
    double sum = 0;
    for (size_t first = 0; first < count; first += batch) {
        size_t live = count - first < batch ? count - first : batch;
        for (size_t slot = 0; slot < batch; slot++)
            put_window(r, slot, text_held_out_window(&r->text, first + slot % live));
        if (isnan(model_forward(&r->model, r->inputs, r->targets)))
            return NAN;
        for (size_t i = 0; i < live * context; i++)
            sum += (double)r->model.row_loss[i];
    }
    return sum / (double)(count * context);
}

/* Warm-up over the first 5 %, then half a cosine down to a twentieth. */
static double learning_rate(double peak, double progress)
{
    if (progress < 0.05)
        return peak * (progress + 0.001) / 0.051;
    return peak * (0.05 + 0.95 * 0.5 * (1 + cos(3.14159265358979 * (progress - 0.05) / 0.95)));
}

static void keep_point(double *xs, double *ys, size_t *count, double x, double y)
{
    if (*count == CURVE_POINTS) { /* full: every second point stays */
        for (size_t i = 0; i < CURVE_POINTS / 2; i++) {
            xs[i] = xs[2 * i + 1];
            ys[i] = ys[2 * i + 1];
        }
        *count = CURVE_POINTS / 2;
    }
    xs[*count] = x;
    ys[(*count)++] = y;
}

static int train(struct run *r)
{
    const struct options *o = &r->options;
    double start = now(), reported = start, tokens = 0, tokens_reported = 0, evaluated = -1, held = NAN, train_mean = 0;
    size_t window_steps = 0, first_step = r->adam.step;
    for (;;) {
        double elapsed = now() - start, progress = o->steps ? (double)r->adam.step / (double)o->steps : 1;
        if (o->seconds > 0 && elapsed / o->seconds > progress)
            progress = elapsed / o->seconds;
        int last = progress >= 1 || r->adam.step >= o->steps || interrupted;
        if (last || progress - evaluated >= 1.0 / EVALUATIONS) {
            evaluated = progress;
            held = held_out_loss(r);
            if (isnan(held))
                return complain(r->attention.reason[0] ? r->attention.reason : "the loss is not a number; try a lower --rate");
            keep_point(r->held_x, r->held_y, &r->held_points, (double)r->adam.step, held);
        }
        if (last || now() - reported >= PROGRESS_SECONDS) {
            double seconds = now() - reported;
            if (window_steps > 0)
                train_mean /= (double)window_steps;
            if (window_steps > 0)
                printf("step %5zu of %zu   loss %.4f   held-out %.4f   %7.0f tokens/s   %3.0f s\n", (size_t)r->adam.step, o->steps,
                       train_mean, held, (tokens - tokens_reported) / seconds, now() - start);
            reported = now();
            tokens_reported = tokens;
            train_mean = 0;
            window_steps = 0;
        }
        if (last)
            break;

        uint64_t random = o->seed * UINT64_C(0x9e3779b97f4a7c15) + r->adam.step; /* so that a resumed run sees the same batches */
        random_next(&random);
        for (size_t slot = 0; slot < r->config.batch; slot++)
            put_window(r, slot, text_training_window(&r->text, &random));
        double loss = model_forward(&r->model, r->inputs, r->targets);
        if (!isfinite(loss))
            return complain(r->attention.reason[0] ? r->attention.reason : "the loss is not a number; try a lower --rate");
        if (model_backward(&r->model, r->inputs, r->targets) != 0)
            return complain(r->attention.reason);
        adam_update(&r->adam, &r->model, learning_rate(o->rate, progress));
        keep_point(r->train_x, r->train_y, &r->train_points, (double)r->adam.step, loss);
        train_mean += loss;
        window_steps++;
        tokens += (double)(r->config.batch * r->config.context);
    }
    double seconds = now() - start, entropy = text_unigram_entropy(&r->text);
    if (r->adam.step > first_step)
        printf("\ntrained    %zu steps in %.1f s, %.0f tokens/s with the held-out evaluations%s\n",
               (size_t)(r->adam.step - first_step), seconds, tokens / seconds, interrupted ? "; interrupted" : "");
    printf("held-out   loss %.4f nats (%.3f bits) a byte, %.0f %% of the unigram entropy %.4f\n", held, held / log(2),
           100 * held / entropy, entropy);
    return 0;
}

static int save(struct run *r, const char *curve_path, const char *numbers_path, const char *checkpoint_path)
{
    char level[64];
    double entropy = text_unigram_entropy(&r->text);
    snprintf(level, sizeof level, "unigram entropy %.2f", entropy);
    const struct curve curves[] = {{"training batch", "#9fc5e8", r->train_x, r->train_y, r->train_points},
                                   {"held-out text", "#cc4125", r->held_x, r->held_y, r->held_points}};
    if (plot_svg(curve_path, "Loss of a byte-level transformer, attention by Glint", "training step", "loss, nats a byte", curves,
                 2, entropy, level, r->plot, PLOT_BYTES, r->reason, SENTENCE) != 0 ||
        plot_csv(numbers_path, curves, 2, r->plot, PLOT_BYTES, r->reason, SENTENCE) != 0)
        return complain(r->reason);
    printf("curve      %s and its numbers, %s\n", curve_path, numbers_path);
    if (checkpoint_save(checkpoint_path, &r->model, &r->adam, r->reason, SENTENCE) != 0)
        return complain(r->reason);

    /* Read it back into cleared memory: what was saved is what was trained. */
    double before = r->held_y[r->held_points - 1];
    memset(r->model.flat, 0, r->model.parameter_floats * sizeof(float));
    if (checkpoint_load(checkpoint_path, &r->model, &r->adam, r->reason, SENTENCE) != 0)
        return complain(r->reason);
    double after = held_out_loss(r);
    printf("saved      %s, read back: held-out loss %.4f, %s\n", checkpoint_path, after,
           after == before ? "the same" : "DIFFERENT");
    return after == before ? 0 : -1;
}

static int write_text(struct run *r)
{
    const char *prompt = r->options.prompt && r->options.prompt[0] ? r->options.prompt : "The ";
    printf("\n---- generated text ----\n");
    double start = now();
    if (generate(&r->model, &r->decoder, prompt, r->options.length, r->options.temperature, r->options.seed) != 0)
        return complain(r->attention.reason);
    size_t bytes = strlen(prompt) + r->options.length;
    printf("---- %zu bytes, %.0f tokens/s, one plan and one step of decode a layer and byte ----\n", bytes,
           (double)bytes / (now() - start));
    return 0;
}

static int run(struct run *r)
{
    const struct options *o = &r->options;
    char curve_path[1024], numbers_path[1024], checkpoint_path[1024];
    snprintf(checkpoint_path, sizeof checkpoint_path, "%s/model.ckpt", o->out);
    snprintf(numbers_path, sizeof numbers_path, "%s/loss.csv", o->out);
    if (snprintf(curve_path, sizeof curve_path, "%s/loss.svg", o->out) >= (int)sizeof curve_path)
        return complain("the path given to --out is too long");
    if (o->check) {
        uint64_t random = o->seed;
        for (size_t slot = 0; slot < r->config.batch; slot++)
            put_window(r, slot, text_training_window(&r->text, &random));
        int differ = check_gradient(&r->model, r->inputs, r->targets, r->check_values, r->check_direction);
        int steps = differ < 0 ? -1 : check_decode(&r->model, &r->decoder, r->inputs, r->targets);
        return differ < 0 || steps < 0 ? complain(r->attention.reason) : differ > 0 || steps > 0 ? -1 : 0;
    }
    if (mkdir(o->out, 0777) != 0 && errno != EEXIST) {
        snprintf(r->reason, SENTENCE, "cannot make the folder '%s' for the results: %s", o->out, strerror(errno));
        return complain(r->reason);
    }
    if (train(r) != 0 || save(r, curve_path, numbers_path, o->save ? o->save : checkpoint_path) != 0)
        return -1;
    return write_text(r);
}

int main(int count, char **arguments)
{
    static struct run r; /* some tens of kilobytes: not for the stack */
    static char line[BUFSIZ];
    setvbuf(stdout, line, _IOLBF, sizeof line);
    /* `bazel run` starts programs in a folder of its own; the user's paths are relative to where the user is. */
    const char *here = getenv("BUILD_WORKING_DIRECTORY");
    if (here && chdir(here) != 0)
        fprintf(stderr, "train_text: cannot go to %s: %s\n", here, strerror(errno));

    int asked = options_read(&r.options, count, arguments);
    if (asked != 0)
        return asked > 0 ? EXIT_SUCCESS : 2;
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND}; /* the second Ctrl-C ends it at once */
    sigaction(SIGINT, &action, NULL);

    void *block = NULL;
    int failed = set_up(&r, &block) != 0 || run(&r) != 0;
    attention_close(&r.attention);
    free(block);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
