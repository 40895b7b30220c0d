/* Embeds sentences with a published model and ranks them by meaning; attention is Glint's.
 *
 *   main.c        this: options, memory, batches, ranking     model.c       the encoder
 *   tokenizer.c   WordPiece                                   weights.c     the file of the weights, used where it lies
 *   json.c        the two headers that are JSON               unicode.inc   tables for the tokenizer
 *
 * The model is a folder with model.safetensors, vocab.txt and config.json, such as all-MiniLM-L6-v2. All memory is
 * taken at the start. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "examples/common/option.h"
#include "examples/embed/model.h"
#include "examples/embed/tokenizer.h"

static const char USAGE[] =
    "embed --model FOLDER [options] [FILE]\n"
    "\n"
    "Embeds each line of FILE, a sentence in UTF-8, and prints for each the one that is nearest in meaning; with --query, the sentences\n"
    "that are nearest to it, best first. Without FILE it takes a dozen of its own.\n"
    "\n"
    "  --model FOLDER   with model.safetensors, vocab.txt and config.json of a BERT encoder\n"
    "  --query TEXT     what to look for\n"
    "  --top N          sentences to print for the query (10)\n"
    "  --out FILE       write the embeddings: float32, little endian, [sentences][width]\n"
    "  --longest N      tokens of a sentence; what is beyond is cut off (256)\n"
    "  --threads N      1 to 256 (1)\n"
    "  --repeat N       embed everything N times and say how many sentences a second (1)\n"
    "  --help           this\n";

static const char EXAMPLES[] = "A man is eating food.\n"
                               "A man is eating a piece of bread.\n"
                               "Somebody has their lunch.\n"
                               "The girl is carrying a baby.\n"
                               "A man is riding a horse.\n"
                               "A woman is playing the violin.\n"
                               "An orchestra rehearses a symphony.\n"
                               "Two men pushed carts through the woods.\n"
                               "A cheetah is running behind its prey.\n"
                               "The cat chased a mouse across the garden.\n"
                               "The central bank raised interest rates again.\n"
                               "Shares fell after the company cut its forecast.\n";

enum { BATCH_SENTENCES = 256, BATCH_ROWS = 4096 };
static const double PROGRESS_SECONDS = 1.0;

struct options {
    const char *model, *query, *out, *file;
    size_t top, longest, threads, repeat;
};

struct sentence {
    const char *text;
    size_t bytes;
};

struct run {
    struct options options;
    struct weights weights;
    struct tokenizer tokenizer;
    struct model model;
    struct glint_context *context;
    struct glint_pool *pool;
    struct glint_executor executor;
    const unsigned char *file;
    const char *text;
    size_t text_bytes, file_bytes, count, tokens_done; /* count: sentences, with the query at the end */
    struct sentence *sentences;
    float *embeddings; /* [count][width] */
    int32_t *tokens;   /* [BATCH_ROWS] */
    size_t *order;
    void *context_storage, *pool_storage;
};

static int complain(const char *sentence)
{
    fflush(stdout);
    fprintf(stderr, "embed: %s\n", sentence);
    return -1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- options ---- */

/* 0: run. 1: help was printed. -1: a sentence about the mistake was printed. */
static int read_options(struct options *o, int count, char **arguments)
{
    *o = (struct options){.top = 10, .longest = 256, .threads = 1, .repeat = 1};
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i];
        if (!strcmp(name, "--help")) {
            fputs(USAGE, stdout);
            return 1;
        }
        if (strncmp(name, "--", 2) != 0) {
            if (o->file) {
                fprintf(stderr, "embed: one FILE, not both '%s' and '%s'\n", o->file, name);
                return -1;
            }
            o->file = name;
            continue;
        }
        const char *value = i + 1 < count ? arguments[i + 1] : NULL;
        const char **text = !strcmp(name, "--model")   ? &o->model
                            : !strcmp(name, "--query") ? &o->query
                            : !strcmp(name, "--out")   ? &o->out
                                                       : NULL;
        size_t *number = !strcmp(name, "--top")       ? &o->top
                         : !strcmp(name, "--longest") ? &o->longest
                         : !strcmp(name, "--threads") ? &o->threads
                         : !strcmp(name, "--repeat")  ? &o->repeat
                                                      : NULL;
        if (!text && !number) {
            fprintf(stderr, "embed: there is no option '%s'; --help lists them\n", name);
            return -1;
        }
        if (!value) {
            fprintf(stderr, "embed: %s needs a value; --help says which\n", name);
            return -1;
        }
        i++;
        if (text)
            *text = value;
        else if (option_whole_number("embed", name, value, number == &o->longest ? 2 : 1,
                                     number == &o->threads ? GLINT_POOL_MAX_THREADS : 1u << 20, number) != 0)
            return -1;
    }
    if (!o->model)
        return complain("name the model's folder with --model; --help says what is in it");
    return 0;
}

/* ---- memory ---- */

static int open_text(struct run *r)
{
    static char reason[256];
    r->text = EXAMPLES;
    r->text_bytes = sizeof EXAMPLES - 1;
    if (r->options.file) {
        r->file = file_open(r->options.file, &r->file_bytes, reason, sizeof reason);
        if (!r->file)
            return complain(reason);
        r->text = (const char *)r->file;
        r->text_bytes = r->file_bytes;
    }
    for (size_t i = 0; i < r->text_bytes; i++)
        r->count += r->text[i] == '\n';
    r->count += r->text[r->text_bytes - 1] != '\n';
    r->count += r->options.query != NULL;
    return 0;
}

static void layout(struct run *r, struct arena *arena)
{
    tokenizer_layout(&r->tokenizer, arena);
    model_layout(&r->model, arena);
    r->sentences = arena_take(arena, r->count * sizeof *r->sentences);
    r->order = arena_take(arena, r->count * sizeof *r->order);
    r->embeddings = arena_floats(arena, r->count * r->model.width);
    r->tokens = arena_take(arena, r->model.rows * sizeof *r->tokens);
}

static int open_glint(struct run *r)
{
    const uint32_t threads = (uint32_t)r->options.threads;
    const size_t pool_bytes = (glint_pool_size(threads) + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    r->context_storage =
        aligned_alloc(ARENA_ALIGNMENT, (glint_context_size() + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT);
    r->pool_storage = aligned_alloc(ARENA_ALIGNMENT, pool_bytes);
    if (!r->context_storage || !r->pool_storage)
        return complain("no memory for the threads");
    enum glint_status status = glint_pool_init(r->pool_storage, pool_bytes, threads, &r->pool, &r->executor);
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU;
    options.executor = r->executor;
    if (status == GLINT_OK)
        status = glint_context_init(r->context_storage, glint_context_size(), &options, &r->context);
    return status == GLINT_OK ? 0 : complain(glint_status_sentence(status));
}

static int open_model(struct run *r)
{
    char path[4096];
    const char *folder = r->options.model;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (weights_open(&r->weights, path) != 0)
        return complain(r->weights.reason);
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    if (tokenizer_open(&r->tokenizer, path) != 0)
        return complain(r->tokenizer.reason);
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (model_open(&r->model, &r->weights, path) != 0)
        return complain(r->model.reason);
    if (r->tokenizer.count != r->model.pieces)
        return complain(
            "vocab.txt and model.safetensors do not belong together: the one has another number of pieces than the other");
    if (r->options.longest > r->model.places)
        r->options.longest = r->model.places;
    const size_t rows = r->options.longest > BATCH_ROWS ? r->options.longest : BATCH_ROWS;
    const size_t sentences = r->count < BATCH_SENTENCES ? r->count : BATCH_SENTENCES;
    if (model_plan(&r->model, r->context, &r->executor, sentences, rows, r->options.longest) != 0)
        return complain(r->model.reason);
    return 0;
}

static int set_up(struct run *r, void **block)
{
    if (open_text(r) != 0 || open_glint(r) != 0 || open_model(r) != 0)
        return -1;
    struct arena arena = {NULL, 0};
    layout(r, &arena);
    const size_t bytes = arena.used;
    *block = arena.base = aligned_alloc(ARENA_ALIGNMENT, bytes);
    if (!arena.base)
        return complain("no memory: choose a smaller --longest or fewer sentences");
    arena.used = 0;
    layout(r, &arena);
    if (tokenizer_fill(&r->tokenizer) != 0)
        return complain(r->tokenizer.reason);

    const char *at = r->text, *end = r->text + r->text_bytes;
    const size_t lines = r->count - (r->options.query != NULL);
    for (size_t i = 0; i < lines; i++) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        line = line ? line : end;
        r->sentences[i] = (struct sentence){at, (size_t)(line - at)};
        at = line < end ? line + 1 : end;
    }
    if (r->options.query)
        r->sentences[lines] = (struct sentence){r->options.query, strlen(r->options.query)};

    struct glint_variant_info variant = GLINT_VARIANT_INFO_INIT;
    glint_variant_at(r->model.plan.variant, &variant);
    printf("model      %zu layers, %zu heads of %zu, %zu pieces\n", r->model.layers, r->model.heads,
           r->model.width / r->model.heads, r->model.pieces);
    printf("attention  %s, ragged batches of up to %zu tokens\n", variant.name, r->model.rows);
    printf("memory     %.1f MB beside the weights, which stay in their file; %zu threads\n\n", (double)bytes / 1e6,
           r->options.threads);
    return 0;
}

/* ---- the work ---- */

static int embed_all(struct run *r)
{
    struct model *m = &r->model;
    const double start = now();
    double reported = start;
    r->tokens_done = 0;
    for (size_t done = 0; done < r->count;) {
        size_t count = 0;
        m->first_row[0] = 0;
        while (done + count < r->count && count < m->sentences && (size_t)m->first_row[count] + r->options.longest <= m->rows) {
            const struct sentence *s = &r->sentences[done + count];
            const size_t begin = (size_t)m->first_row[count];
            m->first_row[count + 1] =
                (int32_t)(begin + tokenize(&r->tokenizer, s->text, s->bytes, r->tokens + begin, r->options.longest));
            count++;
        }
        if (model_embed(m, r->tokens, count, r->embeddings + done * m->width) != 0)
            return complain(m->reason);
        done += count;
        r->tokens_done += (size_t)m->first_row[count];
        if (now() - reported >= PROGRESS_SECONDS) {
            reported = now();
            fprintf(stderr, "embedded %zu of %zu sentences, %.0f a second\n", done, r->count, (double)done / (reported - start));
        }
    }
    return 0;
}

static double cosine(const struct run *r, size_t a, size_t b)
{
    double sum = 0;
    for (size_t i = 0; i < r->model.width; i++)
        sum += (double)r->embeddings[a * r->model.width + i] * (double)r->embeddings[b * r->model.width + i];
    return sum;
}

static void print_nearest(const struct run *r)
{
    for (size_t a = 0; a < r->count; a++) {
        size_t best = a;
        double best_cosine = -2;
        for (size_t b = 0; b < r->count; b++) {
            const double c = b == a ? -2 : cosine(r, a, b);
            best = c > best_cosine ? b : best;
            best_cosine = c > best_cosine ? c : best_cosine;
        }
        printf("%.*s\n", (int)r->sentences[a].bytes, r->sentences[a].text);
        if (best != a)
            printf("    %.4f  %.*s\n", best_cosine, (int)r->sentences[best].bytes, r->sentences[best].text);
    }
}

static void print_ranking(const struct run *r)
{
    const size_t lines = r->count - 1;
    size_t top = 0;
    for (size_t i = 0; i < lines; i++) { /* the best so far, in order */
        const double c = cosine(r, i, lines);
        size_t at = top;
        while (at > 0 && c > cosine(r, r->order[at - 1], lines))
            at--;
        if (at >= r->options.top)
            continue;
        top += top < r->options.top && top < lines;
        memmove(r->order + at + 1, r->order + at, (top - at - 1) * sizeof *r->order);
        r->order[at] = i;
    }
    printf("%s\n", r->options.query);
    for (size_t i = 0; i < top; i++)
        printf("    %.4f  %.*s\n", cosine(r, r->order[i], lines), (int)r->sentences[r->order[i]].bytes,
               r->sentences[r->order[i]].text);
}

static int write_out(const struct run *r)
{
    FILE *file = fopen(r->options.out, "wb");
    const size_t floats = r->count * r->model.width;
    const int whole = file && fwrite(r->embeddings, sizeof(float), floats, file) == floats;
    if ((file && fclose(file) != 0) || !whole) {
        fprintf(stderr, "embed: cannot write '%s': %s\n", r->options.out, strerror(errno));
        return -1;
    }
    return 0;
}

static int work(struct run *r)
{
    double best = INFINITY;
    for (size_t i = 0; i < r->options.repeat; i++) {
        const double start = now();
        if (embed_all(r) != 0)
            return -1;
        best = fmin(best, now() - start);
    }
    if (r->options.out && write_out(r) != 0)
        return -1;
    if (r->options.query)
        print_ranking(r);
    else
        print_nearest(r);
    printf("\n%zu sentences, %zu tokens, %.1f sentences a second\n", r->count, r->tokens_done, (double)r->count / best);
    return 0;
}

int main(int count, char **arguments)
{
    static struct run r;
    void *block = NULL;
    /* `bazel run` starts programs in a folder of its own; the user's paths are relative to where the user is. */
    const char *here = getenv("BUILD_WORKING_DIRECTORY");
    if (here && chdir(here) != 0)
        fprintf(stderr, "embed: cannot go to %s: %s\n", here, strerror(errno));
    const int options = read_options(&r.options, count, arguments);
    if (options != 0)
        return options < 0 ? 2 : 0;
    const int failed = set_up(&r, &block) != 0 || work(&r) != 0;
    glint_context_close(r.context);
    glint_pool_close(r.pool);
    tokenizer_close(&r.tokenizer);
    weights_close(&r.weights);
    file_close(r.file, r.file_bytes);
    free(block);
    free(r.pool_storage);
    free(r.context_storage);
    return failed;
}
