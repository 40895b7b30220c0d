/* Serves a model that train_text trained: many requests at a time, from memory that is all taken at the start.
 *
 *   main.c     this: options, requests, what a step took       server.c   sequences, pages, steps
 *   cache.c    keys and values, on the CPU or a GPU; every call to Glint is there, but for opening it
 *
 * The model and its checkpoint are train_text's. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "examples/common/option.h"
#include "examples/serve_text/server.h"
#include "examples/train_text/checkpoint.h"
#include "examples/train_text/text.h"

static const char USAGE[] =
    "serve_text --load CHECKPOINT [options] [FILE]\n"
    "\n"
    "Writes on after each line of FILE, many lines at a time, with a model that train_text saved. Without FILE it takes lines of its own.\n"
    "\n"
    "  --load CHECKPOINT  a file of train_text, such as train_text.out/model.ckpt\n"
    "  --length N         bytes to write after each line (80)\n"
    "  --temperature T    0: always the likeliest byte (0.7)\n"
    "  --seed N           (1)\n"
    "  --slots N          sequences at a time, 1 to 256 (8)\n"
    "  --longest N        bytes of a line and what is written after it (512)\n"
    "  --pages N          pages of 16 positions for all sequences (half of what they could need at most)\n"
    "  --cache KIND       how keys and values are kept (f32): f32; bf16, in half of the memory; i8, in 3.8 times less, with int8 in\n"
    "                     the library's spec\n"
    "  --device D         where the attention and the cache are: cpu, or cuda for the first GPU, with a library of serve_text/spec.lua (cpu)\n"
    "  --threads N        1 to 256 (1)\n"
    "  --propose N        bytes that are computed ahead where the last ones stood before, 0 to 15 (4): no answer changes\n"
    "  --soak STEPS       instead of FILE: random requests, some with a prefix in common, for so many steps\n"
    "  --check            compute each answer once more, alone and with --propose 0, and compare all bits\n"
    "  --quiet            no answers\n"
    "  --help             this\n";

static const char EXAMPLES[] =
    "The GNU General Public License is a free, copyleft license for software and other kinds of works.\n"
    "When we speak of free software, we are referring to freedom, not price.\n"
    "You may convey verbatim copies of the Program's source code as you receive it, in any medium, provided that you\n"
    "You may convey verbatim copies of the Program's source code as you receive it, in any medium, and\n"
    "You may convey a covered work in object code form under the terms of sections 4 and 5, provided\n"
    "Each contributor grants you a non-exclusive, worldwide, royalty-free patent license under\n"
    "If the Program specifies that\n"
    "This License\n"
    "A\n";

enum { SENTENCE = 512, BUCKETS = 2048, ALIGNMENT = 256 };
static const double PROGRESS_SECONDS = 1.0;

struct options {
    const char *load, *file;
    size_t length, slots, longest, pages, threads, soak, seed, propose;
    double temperature;
    size_t cache; /* of CACHES */
    int on_gpu, check, quiet;
};

/* A request's memory. */
struct place {
    struct request request;
    unsigned char *prompt, *answer; /* [longest] each */
    size_t number;
    int taken;
};

struct run {
    struct options options;
    struct glint_pool *pool;
    struct glint_executor executor;
    struct glint_context *context;
    struct gpu gpu;
    struct model model;
    struct server server, alone;
    struct place *place; /* [places] */
    size_t places;
    unsigned char *again; /* [longest] */
    char *text;           /* of FILE */
    size_t text_bytes, text_at, requests, done, checked, differ, steps;
    uint64_t random,
        histogram[2][BUCKETS]; /* steps by the logarithm of their time: without a chunk of a prompt, and with one or more */
    long resident_first;
    size_t host_bytes, gpu_bytes, gpu_first;
    char reason[SENTENCE];
};

static int complain(const char *sentence)
{
    fflush(stdout);
    fprintf(stderr, "serve_text: %s\n", sentence);
    return -1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- options ---- */

static const struct {
    const char *name, *called;
    uint32_t kept;
} CACHES[] = {{"f32", "float32", GLINT_F32}, {"bf16", "bf16", GLINT_BF16}, {"i8", "int8", GLINT_I8}};
enum { CACHE_KINDS = sizeof CACHES / sizeof CACHES[0] };

static int takes_words(const char *name)
{
    return !strcmp(name, "--load") || !strcmp(name, "--cache") || !strcmp(name, "--device") || !strcmp(name, "--temperature");
}

/* The value of an option that is no whole number. 0, or -1 when a sentence was printed. */
static int read_words(struct options *o, const char *name, const char *value)
{
    if (!strcmp(name, "--load")) {
        o->load = value;
    } else if (!strcmp(name, "--cache")) {
        o->cache = 0;
        while (o->cache < CACHE_KINDS && strcmp(value, CACHES[o->cache].name) != 0)
            o->cache++;
        if (o->cache < CACHE_KINDS)
            return 0;
        fprintf(stderr, "serve_text: --cache takes f32, bf16 or i8, not '%s'\n", value);
        return -1;
    } else if (!strcmp(name, "--device")) {
        o->on_gpu = !strcmp(value, "cuda");
        if (o->on_gpu || !strcmp(value, "cpu"))
            return 0;
        fprintf(stderr, "serve_text: --device takes cpu or cuda, not '%s'\n", value);
        return -1;
    } else {
        char *end;
        o->temperature = strtod(value, &end);
        if (end == value || *end != '\0' || !(o->temperature >= 0 && o->temperature <= 100)) {
            fprintf(stderr, "serve_text: --temperature takes a number from 0 to 100, not '%s'\n", value);
            return -1;
        }
    }
    return 0;
}

/* 0: run. 1: help was printed. -1: a sentence about the mistake was printed. */
static int read_options(struct options *o, int count, char **arguments)
{
    *o = (struct options){.length = 80, .slots = 8, .longest = 512, .threads = 1, .seed = 1, .temperature = 0.7, .propose = 4};
    const struct {
        const char *name;
        size_t least, most, *value;
    } numbers[] = {{"--length", 1, 65536, &o->length},
                   {"--slots", 1, MAX_SLOTS, &o->slots},
                   {"--longest", 2, 65536, &o->longest},
                   {"--pages", 1, 1 << 24, &o->pages},
                   {"--threads", 1, GLINT_POOL_MAX_THREADS, &o->threads},
                   {"--propose", 0, MOST_PROPOSED, &o->propose},
                   {"--soak", 1, 1000000000, &o->soak},
                   {"--seed", 0, UINT32_MAX, &o->seed}};
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i], *value = i + 1 < count ? arguments[i + 1] : NULL;
        size_t which = 0;
        while (which < sizeof numbers / sizeof numbers[0] && strcmp(name, numbers[which].name) != 0)
            which++;
        const int is_number = which < sizeof numbers / sizeof numbers[0];
        if (!strcmp(name, "--help")) {
            fputs(USAGE, stdout);
            return 1;
        } else if (!strcmp(name, "--check")) {
            o->check = 1;
        } else if (!strcmp(name, "--quiet")) {
            o->quiet = 1;
        } else if (strncmp(name, "--", 2) != 0 && !o->file) {
            o->file = name;
        } else if (!is_number && !takes_words(name)) {
            fprintf(stderr, "serve_text: there is no option '%s'; --help lists them\n", name);
            return -1;
        } else if (!value) {
            fprintf(stderr, "serve_text: %s needs a value; --help says which\n", name);
            return -1;
        } else if (is_number) {
            if (option_whole_number("serve_text", name, value, numbers[which].least, numbers[which].most, numbers[which].value) !=
                0)
                return -1;
            i++;
        } else {
            if (read_words(o, name, value) != 0)
                return -1;
            i++;
        }
    }
    if (!o->load)
        return complain("name a checkpoint with --load; train_text writes one");
    if (o->soak && o->file)
        return complain("--soak makes its own requests: leave the file out");
    const size_t each = (o->longest + PAGE_ROWS - 1) / PAGE_ROWS;
    if (!o->pages)
        o->pages = o->slots * each / 2 > each ? o->slots * each / 2 : each;
    return 0;
}

/* ---- memory ---- */

/* The file's text, or the program's own. */
static int open_text(struct run *r, char **text)
{
    FILE *file = r->options.file ? fopen(r->options.file, "rb") : NULL;
    if (!r->options.file) {
        *text = NULL;
        r->text = (char *)(uintptr_t)EXAMPLES;
        r->text_bytes = sizeof EXAMPLES - 1;
        return 0;
    }
    long bytes = -1;
    if (file && fseek(file, 0, SEEK_END) == 0)
        bytes = ftell(file);
    *text = bytes > 0 ? malloc((size_t)bytes) : NULL;
    const int whole = *text && fseek(file, 0, SEEK_SET) == 0 && fread(*text, 1, (size_t)bytes, file) == (size_t)bytes;
    if (file)
        fclose(file);
    if (!whole) {
        snprintf(r->reason, SENTENCE, "cannot read '%s': %s", r->options.file, bytes == 0 ? "it is empty" : strerror(errno));
        return complain(r->reason);
    }
    r->text = *text;
    r->text_bytes = (size_t)bytes;
    return 0;
}

static void layout(struct run *r, const struct config *config, struct arena *arena, struct arena *device)
{
    model_layout_weights(&r->model, config, &r->executor, arena);
    server_layout(&r->server, arena, device);
    if (r->options.check)
        server_layout(&r->alone, arena, device);
    r->places = 2 * r->options.slots;
    r->place = arena_take(arena, r->places * sizeof *r->place);
    unsigned char *bytes = arena_take(arena, (2 * r->places + 1) * r->options.longest);
    for (size_t i = 0; arena->base && i < r->places; i++) {
        r->place[i] =
            (struct place){.prompt = bytes + 2 * i * r->options.longest, .answer = bytes + (2 * i + 1) * r->options.longest};
        memset(&r->place[i].request, 0, sizeof r->place[i].request);
    }
    r->again = arena->base ? bytes + 2 * r->places * r->options.longest : NULL;
}

/* Threads, and the context on the CPU or the first GPU. Without a kernel for that GPU there is none: cache_open says
 * what it needs. */
static int open_context(struct run *r, void **storage)
{
    const struct options *o = &r->options;
    const size_t pool_bytes = (glint_pool_size((uint32_t)o->threads) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t context_bytes = (glint_context_size() + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    *storage = aligned_alloc(ALIGNMENT, pool_bytes + context_bytes);
    if (!*storage)
        return complain("no memory for the threads");
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = o->on_gpu ? GLINT_DEVICE_CUDA_CURRENT : GLINT_DEVICE_CPU; /* the one that gpu_open makes current */
    enum glint_status status = glint_pool_init(*storage, pool_bytes, (uint32_t)o->threads, &r->pool, &r->executor);
    if (status != GLINT_OK)
        return complain(glint_status_sentence(status));
    if (o->on_gpu && gpu_open(&r->gpu) != 0) {
        snprintf(r->reason, SENTENCE, "the GPU: %s", r->gpu.reason);
        return complain(r->reason);
    }
    if (!o->on_gpu)
        options.executor = r->executor;
    status = glint_context_init((unsigned char *)*storage + pool_bytes, context_bytes, &options, &r->context);
    if (status != GLINT_OK && !(o->on_gpu && (status == GLINT_NO_KERNEL_IMAGE || status == GLINT_NOT_ON_DEVICE)))
        return complain(glint_status_sentence(status));
    return 0;
}

/* All memory: the host's in *block and, of a GPU, one block there. */
static int take_memory(struct run *r, const struct config *config, void **block)
{
    struct arena host = {NULL, 0}, gpu = {NULL, 0}, *device = r->options.on_gpu ? &gpu : &host;
    layout(r, config, &host, device);
    r->host_bytes = host.used;
    r->gpu_bytes = gpu.used;
    *block = host.base = aligned_alloc(ALIGNMENT, host.used);
    if (!host.base) {
        snprintf(r->reason, SENTENCE, "no memory: this needs %zu MB; choose fewer --slots or --pages", host.used >> 20);
        return complain(r->reason);
    }
    gpu.base = r->options.on_gpu ? gpu_allocate(&r->gpu, gpu.used) : NULL;
    if (r->options.on_gpu && !gpu.base) {
        snprintf(r->reason, SENTENCE, "%zu MB on the GPU: %s; choose fewer --slots or --pages", gpu.used >> 20, r->gpu.reason);
        return complain(r->reason);
    }
    memset(host.base, 0, host.used); /* now, so that no page is missing later */
    host.used = gpu.used = 0;
    layout(r, config, &host, device);
    return 0;
}

static void say_what_serves(const struct run *r)
{
    const struct options *o = &r->options;
    const struct config *config = &r->model.config;
    const struct glint_plan *plan = &r->server.cache.plan;
    struct glint_variant_info row = GLINT_VARIANT_INFO_INIT;
    glint_variant_at(plan->variant, &row);
    printf("model      %zu layers, %zu heads of %d, %zu parameters, from %s\n", config->layers, config->heads, HEAD_DIM,
           r->model.parameter_floats, o->load);
    if (o->on_gpu)
        printf("device     %s for the cache and the attention; %.1f MB of its memory\n", r->gpu.name, (double)r->gpu_bytes / 1e6);
    printf("attention  %s%s; prompts %d rows at a time, then a byte and up to %zu proposed ones\n", row.name,
           plan->problem.order == GLINT_ORDER_CANONICAL ? " in the canonical order" : "", CHUNK, o->propose);
    printf("cache      %zu pages of %d positions for %zu sequences of up to %zu bytes: %.1f MB of %s\n", o->pages, PAGE_ROWS,
           o->slots, o->longest, (double)cache_bytes(&r->server.cache) / 1e6, CACHES[o->cache].called);
    printf("memory     %.1f MB, all of it allocated now; %zu threads\n\n", (double)r->host_bytes / 1e6, o->threads);
}

static int set_up(struct run *r, void **block, void **storage)
{
    const struct options *o = &r->options;
    const uint32_t kept = CACHES[o->cache].kept;
    const size_t each = (o->longest + PAGE_ROWS - 1) / PAGE_ROWS;
    struct config config = {0};
    if (checkpoint_config(o->load, &config, r->reason, SENTENCE) != 0)
        return complain(r->reason);
    if (open_context(r, storage) != 0)
        return -1;
    struct gpu *gpu = o->on_gpu ? &r->gpu : NULL;
    r->model.config = config;
    r->model.executor = &r->executor;
    const struct server_shape all = {kept, o->slots, o->pages, o->longest, 2 * o->slots, o->propose};
    const struct server_shape one = {kept, 1, each, o->longest, 1, 0};
    if (server_open(&r->server, &r->model, r->context, gpu, &all) != 0)
        return complain(r->server.reason);
    if (o->check && server_open(&r->alone, &r->model, r->context, gpu, &one) != 0)
        return complain(r->alone.reason);
    if (take_memory(r, &config, block) != 0)
        return -1;
    if (checkpoint_load(o->load, &r->model, NULL, r->reason, SENTENCE) != 0)
        return complain(r->reason);
    server_reset(&r->server);
    if (o->check)
        server_reset(&r->alone);
    r->random = o->seed;
    say_what_serves(r);
    return 0;
}

/* ---- requests ---- */

static size_t random_below(struct run *r, size_t count)
{
    const size_t x = (size_t)(random_unit(&r->random) * (double)count);
    return x < count ? x : count - 1;
}

/* The next line of the text; 0 at its end. */
static int next_line(struct run *r, struct place *p)
{
    while (r->text_at < r->text_bytes) {
        const char *line = r->text + r->text_at, *end = memchr(line, '\n', r->text_bytes - r->text_at);
        size_t bytes = end ? (size_t)(end - line) : r->text_bytes - r->text_at;
        r->text_at += bytes + (end != NULL);
        if (bytes == 0)
            continue;
        p->request.length = r->options.length < r->options.longest ? r->options.length : r->options.longest - 1;
        const size_t room = r->options.longest - p->request.length;
        if (bytes > room) {
            fprintf(stderr, "serve_text: a line of %zu bytes is cut off after %zu: --longest is %zu\n", bytes, room,
                    r->options.longest);
            bytes = room;
        }
        memcpy(p->prompt, line, bytes);
        p->request.prompt_bytes = bytes;
        return 1;
    }
    return 0;
}

/* A random request: three in four begin with one of four prefixes, and the rest of it is random letters. */
static void random_request(struct run *r, struct place *p)
{
    const size_t longest = r->options.longest, most = longest - 1;
    size_t bytes = 0;
    const size_t family = random_below(r, 16), prefix = family < 12 ? (family % 4 + 1) * CHUNK + 5 * (family % 4) : 0;
    for (; bytes < prefix && bytes < most; bytes++)
        p->prompt[bytes] = (unsigned char)("etaoin shrdlu"[(bytes * (family % 4 + 3) + bytes / 7) % 13]);
    const size_t rest = 1 + random_below(r, longest / 4 + 1);
    for (size_t i = 0; i < rest && bytes < most; i++)
        p->prompt[bytes++] = (unsigned char)('a' + random_below(r, 26));
    p->request.prompt_bytes = bytes;
    p->request.length = 1 + random_below(r, longest - bytes < r->options.length ? longest - bytes : r->options.length);
}

/* Gives the server what it can take. In a soak some requests wait, and some slots are free at times. */
static int feed(struct run *r)
{
    for (size_t i = 0; i < r->places; i++) {
        struct place *p = &r->place[i];
        if (p->taken)
            continue;
        if (r->options.soak) {
            if (random_below(r, 8) != 0)
                continue;
            random_request(r, p);
        } else if (!next_line(r, p)) {
            return 0;
        }
        p->number = r->requests;
        p->request.prompt = p->prompt;
        p->request.answer = p->answer;
        p->request.temperature = r->options.temperature;
        p->request.seed = r->options.seed * 1000003 + r->requests;
        if (server_take(&r->server, &p->request) != 0) /* as many may wait as there are places */
            return complain(r->server.reason);
        p->taken = 1;
        r->requests++;
    }
    return 0;
}

/* The same request, alone and without proposals. */
static int check(struct run *r, const struct place *p)
{
    struct request again = p->request;
    again.answer = r->again;
    if (server_take(&r->alone, &again) != 0)
        return complain(r->alone.reason);
    while (!again.done)
        if (server_step(&r->alone) != 0)
            return complain(r->alone.reason);
    r->checked++;
    if (again.trace == p->request.trace && memcmp(again.answer, p->answer, again.length) == 0)
        return 0;
    r->differ++;
    fprintf(stderr, "serve_text: request %zu has another answer alone\n", p->number);
    return 0;
}

static void show(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        text_show(bytes[i] == '\n' || bytes[i] == '\t' ? 0 : bytes[i]); /* an answer is a line */
}

static int collect(struct run *r)
{
    for (size_t i = 0; i < r->places; i++) {
        struct place *p = &r->place[i];
        if (!p->taken || !p->request.done)
            continue;
        if (!r->options.quiet && !r->options.soak) {
            printf("[%zu] ", p->number + 1);
            show(p->prompt, p->request.prompt_bytes);
            printf(" | ");
            show(p->answer, p->request.length);
            putchar('\n');
        }
        if (r->options.check && check(r, p) != 0)
            return -1;
        p->taken = 0;
        r->done++;
    }
    return 0;
}

/* ---- what it took ---- */

/* Buckets of 1 % each, from 100 ns on. */
static void count_step(struct run *r, double seconds)
{
    const double at = log(seconds / 1e-7) / log(1.01);
    r->histogram[r->server.prefills > 0][at < 0 ? 0 : at >= BUCKETS ? BUCKETS - 1 : (size_t)at]++;
}

static double percentile(const uint64_t *histogram, uint64_t all, double share)
{
    uint64_t below = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        if ((double)(below += histogram[i]) >= share * (double)all && below > 0)
            return 1e-7 * pow(1.01, (double)i + 0.5);
    return 0;
}

static void say_times(const char *what, const uint64_t *histogram)
{
    uint64_t all = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        all += histogram[i];
    if (all > 0)
        printf("a step     %s: %.3f ms in the middle, 99 of 100 in %.3f ms; %llu steps\n", what,
               1e3 * percentile(histogram, all, 0.5), 1e3 * percentile(histogram, all, 0.99), (unsigned long long)all);
}

/* Bytes of memory that are resident, from the system; 0 where it does not say. */
static long resident(void)
{
    char text[128];
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[bytes > 0 ? bytes : 0] = '\0';
    const char *second = strchr(text, ' ');
    return second ? strtol(second, NULL, 10) * sysconf(_SC_PAGESIZE) : 0;
}

static int serve(struct run *r)
{
    const double start = now();
    double reported = start, served = 0;
    uint64_t written = 0;
    for (;;) {
        const int ends = r->options.soak && r->steps >= r->options.soak;
        if (!ends && feed(r) != 0)
            return -1;
        if (server_busy(&r->server) == 0 && (ends || !r->options.soak))
            break;
        const double before = now();
        if (server_step(&r->server) != 0)
            return complain(r->server.reason);
        const double after = now();
        count_step(r, after - before);
        served += after - before;
        r->steps++;
        if (collect(r) != 0)
            return -1;
        if (r->steps == 1 + r->options.soak / 10) {
            r->resident_first = resident();
            r->gpu_first = gpu_used(&r->gpu);
        }
        if (now() - reported >= PROGRESS_SECONDS) {
            fprintf(stderr, "step %zu: %zu requests done, %zu at work or waiting, %.0f bytes/s, %zu pages free\n", r->steps,
                    r->done, server_busy(&r->server), (double)(r->server.count.written - written) / (now() - reported),
                    r->server.free_pages);
            reported = now();
            written = r->server.count.written;
        }
    }
    const struct server *s = &r->server;
    if (server_lost_pages(s) != 0)
        return complain("pages were lost: this is a bug");
    printf("\nserved     %zu requests in %zu steps: %.0f bytes written a second\n", r->done, r->steps,
           (double)s->count.written / served);
    say_times("without prompts", r->histogram[0]);
    say_times("with chunks of prompts", r->histogram[1]);
    printf("proposals  %llu bytes proposed, %llu of them right; %.2f bytes a sequence and step\n",
           (unsigned long long)s->count.proposed, (unsigned long long)s->count.accepted,
           s->count.written > s->count.accepted ? (double)s->count.written / (double)(s->count.written - s->count.accepted) : 1.0);
    printf("prompts    %llu positions computed, %llu taken over from others\n", (unsigned long long)s->count.prompt_rows,
           (unsigned long long)s->count.shared_rows);
    printf("pages      at least %zu of %zu free; %llu blocks evicted, %llu sequences started again\n", s->free_least, s->pages,
           (unsigned long long)s->count.evicted, (unsigned long long)s->count.restarted);
    if (r->resident_first > 0)
        printf("resident   %.1f MB after the first tenth, %.1f MB at the end\n", (double)r->resident_first / 1e6,
               (double)resident() / 1e6);
    if (r->gpu_first > 0)
        printf("GPU        %.1f MB in use after the first tenth, %.1f MB at the end\n", (double)r->gpu_first / 1e6,
               (double)gpu_used(&r->gpu) / 1e6);
    if (r->options.check)
        printf("checked    %zu answers alone, %zu differ\n", r->checked, r->differ);
    return r->differ ? -1 : 0;
}

int main(int count, char **arguments)
{
    static struct run r;
    static char line[4096];
    setvbuf(stdout, line, _IOLBF, sizeof line);
    void *block = NULL, *storage = NULL;
    char *text = NULL;
    /* `bazel run` starts programs in a folder of its own; the user's paths are relative to where the user is. */
    const char *here = getenv("BUILD_WORKING_DIRECTORY");
    if (here && chdir(here) != 0)
        fprintf(stderr, "serve_text: cannot go to %s: %s\n", here, strerror(errno));
    const int options = read_options(&r.options, count, arguments);
    if (options != 0)
        return options < 0 ? 2 : 0;
    const int failed = open_text(&r, &text) != 0 || set_up(&r, &block, &storage) != 0 || serve(&r) != 0;
    glint_context_close(r.context);
    gpu_close(&r.gpu);
    glint_pool_close(r.pool);
    free(block);
    free(storage);
    free(text);
    return failed;
}
