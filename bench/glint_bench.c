/* Times Glint's variants on this machine: median and spread of interleaved repetitions, FLOP/s, and on the CPU the
 * share of the multiply-add peak measured in the same minutes; with --gpu between the device's own events. --serve
 * makes it a stopwatch for other programs: one request a line, one answer a line. --decode times a few queries against
 * a long cache of keys, and says how fast K and V were read beside a loop that does nothing else. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/cells.h"
#include "bench/gpu.h"
#include "bench/peak.h"
#include "bench/policies.h"

enum { LIST = 64, MAX_CELLS = 4096, MAX_PEAKS = 32, SENTENCE = 1024 };

struct list {
    size_t count;
    int64_t value[LIST],
        second[LIST]; /* second: the keys of --seqlen QxK, as many as queries when not given; the key heads of --heads Q:K, or 0 */
};

struct settings {
    struct list passes, dtypes, kv_dtypes, head_dims, masks, seqlens, batches, heads, heads_kv, threads, isas, page_rows, windows,
        queries;
    int64_t reps, tokens;
    double least_ms;
    uint32_t layout;
    const char *csv, *variant;
    int every_variant, serve, gpu, decode, scores, ragged, policies;
};

struct peak {
    struct machine *machine;
    size_t samples;
    double flops[MAX_REPS];
};

/* ---- options ---- */

struct option {
    const char *name;
    struct list *list;
    uint32_t (*word)(const char *); /* NULL: whole numbers in [least, most] */
    int64_t least, most;
    const char *help;
    char pair; /* what may stand between two whole numbers, or 0; with - all from the first to the second are meant */
};

static uint32_t mask_from(const char *word)
{
    return strcmp(word, "none") == 0 ? 1 : strcmp(word, "causal") == 0 ? 2 : 0;
}
static const char *mask_name(uint32_t causal)
{
    return causal ? "causal" : "none";
}

static int wrong(const char *option, const char *text, const char *expected)
{
    fprintf(stderr, "glint_bench: %s %s: %s\n", option, text, expected);
    return -1;
}

static int read_list(const struct option *o, const char *text)
{
    char copy[256], expected[128];
    if (strlen(text) >= sizeof copy)
        return wrong(o->name, text, "too long");
    strcpy(copy, text);
    o->list->count = 0;
    for (char *item = strtok(copy, ","); item; item = strtok(NULL, ",")) {
        int64_t value, second = -1;
        if (o->word) {
            value = o->word(item);
            if (value == 0 || value == UINT32_MAX)
                if (o->word != isa_from || value != 0)
                    return wrong(o->name, item, o->help);
        } else {
            char *end;
            value = strtoll(item, &end, 10);
            if (o->pair && *end == o->pair && end != item) {
                char *from = end + 1;
                second = strtoll(from, &end, 10);
                if (end == from)
                    end = item;
            }
            if (end == item || *end || value < o->least || value > o->most ||
                (second != -1 && (second < (o->pair == '-' ? value : o->least) || second > o->most))) {
                snprintf(expected, sizeof expected, "give whole numbers from %lld to %lld", (long long)o->least,
                         (long long)o->most);
                return wrong(o->name, item, expected);
            }
        }
        const int64_t last = o->pair == '-' && second > value ? second : value;
        if (last - value >= LIST - (int64_t)o->list->count)
            return wrong(o->name, text, "at most 64 values");
        for (; value <= last; value++) {
            o->list->value[o->list->count] = value;
            o->list->second[o->list->count++] = second != -1 ? second : o->pair == ':' ? 0 : value;
        }
    }
    return o->list->count ? 0 : wrong(o->name, text, "an empty list");
}

/* 0: run; 1: help was printed; -1: a mistake was printed. */
static int read_options(struct settings *s, int count, char **arguments)
{
    struct list reps, least, tokens = {0}, layout = {0};
    const struct option table[] = {
        {"--pass", &s->passes, pass_from, 0, 0, "fwd,bwd", 0},
        {"--dtype", &s->dtypes, dtype_from, 0, 0, "f32,f16,bf16", 0},
        {"--kv-dtype", &s->kv_dtypes, kv_dtype_from, 0, 0, "same,i8,e4m3", 0},
        {"--head-dim", &s->head_dims, NULL, 1, 1 << 16, "head dimensions", 0},
        {"--mask", &s->masks, mask_from, 0, 0, "none,causal", 0},
        {"--seqlen", &s->seqlens, NULL, 0, 1 << 24, "lengths, or QxK such as 1x4096; with --decode the keys", 'x'},
        {"--queries", &s->queries, NULL, 1, 1 << 20,
         "with --decode: queries of each sequence (1), or several and ranges such as 1-40,64; then the time of each beside that of the next",
         '-'},
        {"--batch", &s->batches, NULL, 1, 1 << 20, "batches", 0},
        {"--tokens", &tokens, NULL, 1, 1 << 30, "in place of --batch: as many sequences as have so many rows of queries, or one",
         0},
        {"--heads", &s->heads, NULL, 1, 1 << 20, "query heads, or with key heads such as 32:8", ':'},
        {"--heads-kv", &s->heads_kv, NULL, 0, 1 << 20, "key heads; 0: as --heads says, or as many as query heads", 0},
        {"--layout", &layout, layout_from, 0, 0,
         "bshd or bhsd, the order of batch, seqlen, heads and head_dim (bshd; with --decode bhsd)", 0},
        {"--threads", &s->threads, NULL, 1, GLINT_POOL_MAX_THREADS, "threads", 0},
        {"--page-rows", &s->page_rows, NULL, 16, 256,
         "forward cells also with K and V in pages of so many rows, and their speed over linear ones", 0},
        {"--window", &s->windows, NULL, 1, 1 << 24,
         "causal cells also with a window of so many keys, the query's own included, and their time beside the tiles that they touch",
         0},
        {"--isa", &s->isas, isa_from, 0, 0, "best, or as in a spec: the highest instruction set to use", 0},
        {"--reps", &reps, NULL, 1, MAX_REPS, "repetitions of every cell (7)", 0},
        {"--least-ms", &least, NULL, 1, 10000, "milliseconds that a repetition lasts at least (20)", 0},
    };
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i], *value = i + 1 < count ? arguments[i + 1] : NULL;
        if (strcmp(name, "--serve") == 0) {
            s->serve = 1;
            continue;
        }
        if (strcmp(name, "--all") == 0) {
            s->every_variant = 1;
            continue;
        }
        if (strcmp(name, "--gpu") == 0) {
            s->gpu = 1;
            continue;
        }
        if (strcmp(name, "--scores") == 0) {
            s->scores = 1;
            continue;
        }
        if (strcmp(name, "--ragged") == 0) {
            s->ragged = 1;
            continue;
        }
        if (strcmp(name, "--policies") == 0) {
            s->policies = 1;
            continue;
        }
        if (strcmp(name, "--decode") == 0)
            continue;
        if (strcmp(name, "--help") == 0) {
            printf("Times Glint on this machine. Options take lists, such as --seqlen 128,512:\n");
            for (size_t j = 0; j < sizeof table / sizeof table[0]; j++)
                printf("  %-12s %s\n", table[j].name, table[j].help);
            printf(
                "  %-12s %s\n", "--decode",
                "one query a sequence against a cache: microseconds, GB/s of K and V, and the share of what only reading them reaches");
            printf(
                "  %-12s %s\n", "--ragged",
                "every cell of several sequences also ragged, of unequal lengths where there are as many queries as keys, and its FLOP/s over the other's");
            printf("  %-12s %s\n", "--scores",
                   "every cell with a softcap of 50 and with sinks too, and their speed over that without");
            printf("  %-12s %s\n", "--policies",
                   "every cell of a GPU also with other numbers than the rules of lib/cuda/policy.c give, and what is faster");
            printf(
                "  %-12s %s\n  %-12s %s\n  %-12s %s\n  %-12s %s\n  %-12s %s\n", "--gpu",
                "on the first GPU instead of the CPU; there are no threads then", "--variant",
                "only variants whose name contains this", "--all",
                "every variant that fits, not only the one that the planner chooses", "--csv", "write the results to this file",
                "--serve",
                "read `pass dtype head_dim mask seqlen_q seqlen_k batch heads_q heads_kv threads [layout]`, answer `variant ms`");
            return 1;
        }
        const struct option *found = NULL;
        for (size_t j = 0; j < sizeof table / sizeof table[0]; j++)
            if (strcmp(name, table[j].name) == 0)
                found = &table[j];
        int is_string = strcmp(name, "--csv") == 0 || strcmp(name, "--variant") == 0;
        if (!found && !is_string)
            return wrong(name, "", "no such option; --help lists them");
        if (!value)
            return wrong(name, "", "needs a value after it");
        if (strcmp(name, "--csv") == 0)
            s->csv = value;
        if (strcmp(name, "--variant") == 0)
            s->variant = value;
        if (found && read_list(found, value) != 0)
            return -1;
        if (strcmp(name, "--reps") == 0)
            s->reps = reps.value[0];
        if (strcmp(name, "--least-ms") == 0)
            s->least_ms = (double)least.value[0];
        i++;
    }
    if (layout.count > 1 || tokens.count > 1)
        return wrong(layout.count > 1 ? "--layout" : "--tokens", "", "give one");
    if (s->policies && !s->gpu)
        return wrong("--policies", "", "goes with --gpu: the rules are of GPUs");
    if (tokens.count)
        s->tokens = tokens.value[0];
    if (layout.count)
        s->layout = (uint32_t)layout.value[0];
    if (s->queries.count > 0 && !s->decode)
        return wrong("--queries", "", "goes with --decode; --seqlen QxK says it otherwise");
    if (s->queries.count == 0)
        s->queries = (struct list){1, {1}, {1}};
    for (size_t i = 0; i < s->seqlens.count && s->decode; i++)
        if (s->seqlens.value[i] != s->seqlens.second[i])
            return wrong("--seqlen", "", "with --decode it lists the keys, and --queries says how many queries there are");
    for (size_t i = 0; i < s->passes.count && s->decode; i++)
        if (s->passes.value[i] != GLINT_FORWARD)
            return wrong("--pass", "bwd", "--decode is forward");
    return 0;
}

/* ---- the cells ---- */

static struct cell cells[MAX_CELLS];
static size_t cell_count;
static struct peak peaks[MAX_PEAKS];
static size_t peak_count;

static void add_cell(const struct settings *s, struct cell cell, uint32_t row)
{
    static char said[SENTENCE]; /* cells beside each other are often left out for one reason */
    char reason[SENTENCE] = "";
    if (cell_count == MAX_CELLS) {
        fprintf(stderr, "glint_bench: more than %d cells: the rest is left out\n", MAX_CELLS);
        return;
    }
    if (cell_plan(&cell, row, reason, sizeof reason) != 0) {
        if (strcmp(reason, said) != 0)
            fprintf(stderr, "glint_bench: left out: %s\n", reason);
        memcpy(said, reason, sizeof said);
        return;
    }
    if (s->variant && !strstr(cell.variant, s->variant))
        return;
    cells[cell_count++] = cell;
    if (s->policies)
        cell_count += policies_of(&cells[cell_count - 1], &cells[cell_count], MAX_CELLS - cell_count);
}

/* A cell, with --scores the same with a softcap and with sinks, with --page-rows the same in pages, with --window the
 * same with a window, and with --ragged the same rows in ragged sequences, also in pages. */
static void add_scores(const struct settings *s, struct cell cell, uint32_t row)
{
    add_cell(s, cell, row);
    for (size_t i = 0; i < s->page_rows.count && cell.pass == GLINT_FORWARD; i++) {
        cell.page_rows = s->page_rows.value[i];
        add_cell(s, cell, row);
    }
    cell.page_rows = 0;
    for (size_t i = 0; i < s->windows.count && cell.causal && row == UINT32_MAX; i++) { /* a row with a window has none without */
        cell.window = s->windows.value[i];
        add_cell(s, cell, row);
    }
    cell.window = 0;
    if (s->ragged && cell.batch > 1 && cell.seqlen_q == cell.seqlen_k) {
        cell.ragged = RAGGED_UNEVEN;
        add_cell(s, cell, row);
    } else if (s->ragged && cell.batch > 1 && cell.pass == GLINT_FORWARD) {
        cell.ragged = RAGGED_EVEN;
        add_cell(s, cell, row);
        for (size_t i = 0; i < s->page_rows.count; i++) {
            cell.page_rows = s->page_rows.value[i];
            add_cell(s, cell, row);
        }
        cell.page_rows = 0;
    }
    cell.ragged = NOT_RAGGED;
    if (!s->scores)
        return;
    cell.softcap = 50;
    add_cell(s, cell, row);
    cell.softcap = 0;
    cell.sinks = 1;
    add_cell(s, cell, row);
}

/* The planner's choice, or with --all every row of the table that computes this and runs here. */
static void add_variants(const struct settings *s, struct cell cell)
{
    if (!s->every_variant) {
        add_scores(s, cell, UINT32_MAX);
        return;
    }
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        struct glint_variant_info v = GLINT_VARIANT_INFO_INIT;
        if (glint_variant_at(row, &v) == GLINT_OK && v.pass == cell.pass && v.dtype == cell.dtype && v.kv_dtype == cell.kv_dtype &&
            (((v.features & GLINT_FEATURE_RIGHT_BOUND) != 0) == (cell.causal != 0) || v.queries_up_to > 0) &&
            v.head_dim == cell.head_dim && glint_variant_available(cell.machine->context, row) == GLINT_OK)
            add_scores(s, cell, row);
    }
}

static struct machine *machine_of(const struct settings *s, int64_t threads, int64_t isa, char *reason, size_t reason_bytes)
{
    return s->gpu ? gpu_machine(reason, reason_bytes) : machine_open((uint32_t)threads, (uint32_t)isa, reason, reason_bytes);
}

static int add_all(const struct settings *s)
{
    char reason[SENTENCE];
    for (size_t isa = 0; isa < s->isas.count; isa++)
        for (size_t threads = 0; threads < s->threads.count; threads++) {
            struct machine *machine = machine_of(s, s->threads.value[threads], s->isas.value[isa], reason, sizeof reason);
            if (!machine)
                return wrong(s->gpu ? "--gpu" : "--threads", "", reason);
            for (size_t dtype = 0; dtype < s->dtypes.count * s->kv_dtypes.count; dtype++)
                for (size_t d = 0; d < s->head_dims.count; d++)
                    for (size_t mask = 0; mask < s->masks.count; mask++)
                        for (size_t pass = 0; pass < s->passes.count; pass++)
                            for (size_t n = 0; n < s->seqlens.count; n++)
                                for (size_t b = 0; b < s->batches.count; b++)
                                    for (size_t h = 0; h < s->heads.count; h++)
                                        for (size_t k = 0; k < s->heads_kv.count * s->queries.count; k++) {
                                            const size_t q = k % s->queries.count, of = k / s->queries.count;
                                            struct cell cell = {
                                                .machine = machine,
                                                .dtype = (uint32_t)s->dtypes.value[dtype / s->kv_dtypes.count],
                                                .kv_dtype = (uint32_t)s->kv_dtypes.value[dtype % s->kv_dtypes.count] % KV_SAME,
                                                .pass = (uint32_t)s->passes.value[pass],
                                                .causal = s->masks.value[mask] == 2,
                                                .head_dim = (uint32_t)s->head_dims.value[d],
                                                .seqlen_q = s->decode ? s->queries.value[q] : s->seqlens.value[n],
                                                .layout = s->layout,
                                                .seqlen_k = s->seqlens.second[n],
                                                .batch = s->tokens > s->seqlens.value[n] && s->seqlens.value[n] > 0
                                                             ? s->tokens / s->seqlens.value[n]
                                                         : s->tokens > 0 ? 1
                                                                         : s->batches.value[b],
                                                .heads_q = s->heads.value[h],
                                                .heads_kv = s->heads_kv.value[of] ? s->heads_kv.value[of]
                                                            : s->heads.second[h]  ? s->heads.second[h]
                                                                                  : s->heads.value[h]};
                                            add_variants(s, cell);
                                        }
        }
    for (size_t i = 0; i < cell_count; i++) {
        size_t p = 0;
        while (p < peak_count &&
               (peaks[p].machine->threads != cells[i].machine->threads || peaks[p].machine->isa != cells[i].machine->isa))
            p++;
        if (p == peak_count && peak_count < MAX_PEAKS && !s->gpu && !s->decode)
            peaks[peak_count++].machine = cells[i].machine;
    }
    return 0;
}

/* ---- measuring ---- */

static void progress(const char *text, int64_t rep, int64_t reps, size_t done, double started)
{
    static double last;
    double now = seconds_now();
    int is_terminal = isatty(STDERR_FILENO);
    if (now - last < (is_terminal ? 0.2 : 5))
        return;
    last = now;
    double share = ((double)rep + (double)done / (double)cell_count) / (double)reps;
    fprintf(stderr,
            is_terminal ? "\r\033[Krepetition %lld of %lld, %zu of %zu cells, %.0f s, about %.0f s left   %s"
                        : "repetition %lld of %lld, %zu of %zu cells, %.0f s, about %.0f s left   %s\n",
            (long long)rep + 1, (long long)reps, done, cell_count, now - started, share > 0 ? (now - started) * (1 / share - 1) : 0,
            text);
}

/* A repetition visits every cell once, so that a slow minute of the machine is shared by all of them; every second one
 * goes backwards. */
static int measure(const struct settings *s)
{
    char reason[SENTENCE];
    double started = seconds_now();
    for (int64_t rep = 0; rep < s->reps; rep++) {
        for (size_t p = 0; p < peak_count; p++)
            peaks[p].flops[peaks[p].samples++] =
                peak_flops((enum glint_isa)peaks[p].machine->isa, &peaks[p].machine->executor, 0.04);
        for (size_t i = 0; i < cell_count; i++) {
            struct cell *c = &cells[rep % 2 ? cell_count - 1 - i : i];
            progress(c->variant, rep, s->reps, i, started);
            double ms = cell_sample(c, s->least_ms, reason, sizeof reason);
            if (ms < 0)
                return wrong("a call was refused", "", reason);
            if (s->decode)
                c->read_ms[c->samples] = cell_read_sample(c, s->least_ms / 2);
            c->ms[c->samples++] = ms;
        }
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    return 0;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, size_t count) /* sorted */
{
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static double peak_of(const struct cell *c)
{
    for (size_t p = 0; p < peak_count; p++)
        if (peaks[p].machine->threads == c->machine->threads && peaks[p].machine->isa == c->machine->isa)
            return median(peaks[p].flops, peaks[p].samples);
    return 0;
}

static double ms_of(const struct cell *c)
{
    return median(c->ms, c->samples);
}
static double tflops_of(const struct cell *c)
{
    return 1e-9 * cell_flops(c) / ms_of(c);
}
static double share_of(const struct cell *c)
{
    return peak_of(c) > 0 ? 1e12 * tflops_of(c) / peak_of(c) : NAN;
}

static double gbytes_of(const struct cell *c)
{
    return 1e-6 * cell_kv_bytes(c) / ms_of(c);
}
/* Of the speed at which the same threads only read K and V; NaN on a GPU. */
static double read_share_of(const struct cell *c)
{
    double ms = median(c->read_ms, c->samples);
    return ms > 0 ? ms / ms_of(c) : NAN;
}

/* ---- results ---- */

static void print_decode_table(void)
{
    printf("\n%-46s %7s %7s %8s %5s %6s %4s %10s %8s %8s %9s %8s\n", "variant", "heads", "queries", "keys", "batch", "layout",
           "thr", "us", "spread", "GB/s", "read GB/s", "of read");
    for (size_t i = 0; i < cell_count; i++) {
        const struct cell *c = &cells[i];
        char heads[32], read[32] = "";
        snprintf(heads, sizeof heads, "%lld:%lld", (long long)c->heads_q, (long long)c->heads_kv);
        if (!c->machine->device)
            snprintf(read, sizeof read, "%9.1f %7.1f%%", gbytes_of(c) / read_share_of(c), 100 * read_share_of(c));
        printf("%-46s %7s %7lld %8lld %5lld %6s %4u %10.1f %7.1f%% %8.1f %s\n", c->variant, heads, (long long)c->seqlen_q,
               (long long)c->seqlen_k, (long long)c->batch, layout_name(c->layout), (unsigned)c->machine->threads, 1e3 * ms_of(c),
               100 * (c->ms[c->samples - 1] - c->ms[0]) / ms_of(c), gbytes_of(c), read);
    }
    printf(
        "\nus: median of %zu; spread: (slowest - fastest) / median. GB/s: bytes of K and V, once, over the time; read GB/s: a loop that only\n"
        "reads the same K and V on the same threads, in the same minutes.\n",
        cells[0].samples);
    if (cells[0].machine->device)
        printf("%s; times between two events on the stream\n", cells[0].machine->name);
}

static void print_table(void)
{
    printf("\n%-46s %11s %5s %7s %4s %10s %8s %9s %7s\n", "variant", "seqlen", "batch", "heads", "thr", "ms", "spread", "TFLOP/s",
           "of peak");
    for (size_t i = 0; i < cell_count; i++) {
        const struct cell *c = &cells[i];
        char seqlen[32], heads[32];
        snprintf(seqlen, sizeof seqlen, c->seqlen_q == c->seqlen_k ? "%lld" : "%lldx%lld", (long long)c->seqlen_q,
                 (long long)c->seqlen_k);
        snprintf(heads, sizeof heads, c->heads_q == c->heads_kv ? "%lld" : "%lld/%lld", (long long)c->heads_q,
                 (long long)c->heads_kv);
        char share[16] = "";
        if (!c->machine->device)
            snprintf(share, sizeof share, "%6.1f%%", 100 * share_of(c));
        printf("%-46s %11s %5lld %7s %4u %10.4f %7.1f%% %9.4f %7s\n", c->variant, seqlen, (long long)c->batch, heads,
               (unsigned)c->machine->threads, ms_of(c), 100 * (c->ms[c->samples - 1] - c->ms[0]) / ms_of(c), tflops_of(c), share);
    }
    printf(
        "\nTFLOP/s: 4 B H Sq Sk D forward, 2.5 times that backward, of causal the pairs that are seen: half where Sq = Sk. ms: median of %zu; "
        "spread: (slowest - fastest) / median.\n",
        cells[0].samples);
    if (cells[0].machine->device)
        printf("%s; times between two events on the stream\n", cells[0].machine->name);
    for (size_t p = 0; p < peak_count; p++)
        printf("multiply-add peak, %s, %u threads: %.1f GFLOP/s (median; fastest %.1f)\n", isa_name(peaks[p].machine->isa),
               (unsigned)peaks[p].machine->threads, 1e-9 * median(peaks[p].flops, peaks[p].samples),
               1e-9 * peaks[p].flops[peaks[p].samples - 1]);
}

/* The cell that differs from `c` only in dtype or mask; NULL when it was not measured. */
static const struct cell *partner(const struct cell *c, uint32_t dtype, uint32_t causal)
{
    const char *how = strstr(c->variant, "__");
    for (size_t i = 0; i < cell_count; i++) {
        const struct cell *o = &cells[i];
        const char *other_how = strstr(o->variant, "__");
        if (o->dtype == dtype && o->causal == causal && o->machine == c->machine && o->pass == c->pass &&
            o->kv_dtype == c->kv_dtype && o->head_dim == c->head_dim && o->seqlen_q == c->seqlen_q && o->seqlen_k == c->seqlen_k &&
            o->batch == c->batch && o->heads_q == c->heads_q && o->heads_kv == c->heads_kv && o->softcap == c->softcap &&
            o->sinks == c->sinks && o->page_rows == c->page_rows && o->ragged == c->ragged && o->window == c->window && how &&
            other_how && strcmp(how, other_how) == 0)
            return o;
    }
    return NULL;
}

/* The cell of the same shape and threads with `queries` queries, of the same variant where `c` was not the planner's
 * choice; NULL. */
static const struct cell *with_queries(const struct settings *s, const struct cell *c, int64_t queries)
{
    for (size_t i = 0; i < cell_count; i++) {
        const struct cell *o = &cells[i];
        if (o->seqlen_q == queries && o->machine == c->machine && o->dtype == c->dtype && o->kv_dtype == c->kv_dtype &&
            o->head_dim == c->head_dim && o->causal == c->causal && o->seqlen_k == c->seqlen_k && o->batch == c->batch &&
            o->heads_q == c->heads_q && o->heads_kv == c->heads_kv && o->page_rows == c->page_rows && o->softcap == c->softcap &&
            o->sinks == c->sinks && o->window == c->window && o->ragged == c->ragged &&
            (!s->every_variant || strcmp(o->variant, c->variant) == 0))
            return o;
    }
    return NULL;
}

/* With several --queries: the fastest time of each number, over that of one query, and over that of the next number. */
static void print_queries(const struct settings *s)
{
    printf("\n%-46s %7s %8s %3s %4s %8s %11s %8s %9s\n", "variant", "heads", "keys", "bat", "thr", "queries", "fastest us", "of 1",
           "of next");
    for (size_t i = 0; i < cell_count; i++) {
        const struct cell *c = &cells[i], *one = with_queries(s, c, s->queries.value[0]), *next = NULL;
        for (size_t n = 0; n + 1 < s->queries.count && !next; n++)
            if (s->queries.value[n] == c->seqlen_q)
                next = with_queries(s, c, s->queries.value[n + 1]);
        char heads[32], of_next[16] = "";
        snprintf(heads, sizeof heads, "%lld:%lld", (long long)c->heads_q, (long long)c->heads_kv);
        if (next)
            snprintf(of_next, sizeof of_next, "%.3f", c->ms[0] / next->ms[0]);
        printf("%-46s %7s %8lld %3lld %4u %8lld %11.2f %8.3f %9s\n", c->variant, heads, (long long)c->seqlen_k, (long long)c->batch,
               (unsigned)c->machine->threads, (long long)c->seqlen_q, 1000 * c->ms[0], one ? c->ms[0] / one->ms[0] : 0, of_next);
    }
}

/* With --scores: the speed of a softcap and of sinks over that of the same cell without, of medians and of the fastest
 * repetitions. */
static void print_scores(void)
{
    printf("\n%-56s %8s %8s %12s %8s %8s\n", "variant", "queries", "keys", "with", "speed", "fastest");
    for (size_t i = 0; i < cell_count; i++) {
        const struct cell *c = &cells[i];
        size_t plain = i;
        while (plain > 0 && (cells[plain].softcap != 0 || cells[plain].sinks != 0 || cells[plain].page_rows != 0 ||
                             cells[plain].window != 0 || cells[plain].ragged))
            plain--;
        if ((c->softcap != 0 || c->sinks != 0) && strcmp(cells[plain].variant, c->variant) == 0)
            printf("%-56s %8lld %8lld %12s %8.3f %8.3f\n", c->variant, (long long)c->seqlen_q, (long long)c->seqlen_k,
                   c->sinks ? "sinks" : "softcap 50", ms_of(&cells[plain]) / ms_of(c), cells[plain].ms[0] / c->ms[0]);
    }
}

/* With --page-rows: the speed of pages over that of the linear cell before them. */
static void print_pages(void)
{
    printf("\n%-46s %7s %8s %8s %5s %10s %8s %8s\n", "variant", "heads", "queries", "keys", "batch", "page rows", "speed",
           "fastest");
    for (size_t i = 0, linear = 0; i < cell_count; i++) {
        const struct cell *c = &cells[i], *l = &cells[linear];
        if (c->page_rows == 0) {
            linear = i;
            continue;
        }
        char heads[32];
        snprintf(heads, sizeof heads, "%lld:%lld", (long long)c->heads_q, (long long)c->heads_kv);
        printf("%-46s %7s %8lld %8lld %5lld %10lld %8.3f %8.3f\n", c->variant, heads, (long long)c->seqlen_q,
               (long long)c->seqlen_k, (long long)c->batch, (long long)c->page_rows, ms_of(l) / ms_of(c), l->ms[0] / c->ms[0]);
    }
}

/* With --window: the time over that of the causal cell before it, beside the tiles that both touch. */
static void print_windows(void)
{
    printf("\n%-46s %7s %8s %8s %7s %8s %8s %8s %8s\n", "variant", "heads", "queries", "keys", "window", "threads", "time", "tiles",
           "ratio");
    for (size_t i = 0, causal = 0; i < cell_count; i++) {
        const struct cell *c = &cells[i], *all = &cells[causal];
        if (c->window == 0) {
            if (c->softcap == 0 && !c->sinks && c->page_rows == 0 && !c->ragged)
                causal = i;
            continue;
        }
        char heads[32];
        snprintf(heads, sizeof heads, "%lld:%lld", (long long)c->heads_q, (long long)c->heads_kv);
        const double time = ms_of(c) / ms_of(all), tiles = cell_tiles(c) / cell_tiles(all);
        printf("%-46s %7s %8lld %8lld %7lld %8u %8.4f %8.4f %8.3f\n", c->variant, heads, (long long)c->seqlen_q,
               (long long)c->seqlen_k, (long long)c->window, (unsigned)c->machine->threads, time, tiles, time / tiles);
    }
}

/* With --ragged: FLOP/s over those of equal lengths, in a cell before them. `shortest` is of queries. */
static void print_ragged(void)
{
    printf("\n%-46s %7s %8s %8s %5s %8s %8s\n", "variant", "heads", "longest", "shortest", "batch", "speed", "fastest");
    for (size_t i = 0; i < cell_count; i++) {
        size_t equal = i;
        if (!cells[i].ragged)
            continue;
        while (equal > 0 && (cells[equal].ragged || cells[equal].page_rows != cells[i].page_rows || cells[equal].window != 0))
            equal--;
        const struct cell *c = &cells[i], *e = &cells[equal];
        char heads[32];
        snprintf(heads, sizeof heads, "%lld:%lld", (long long)c->heads_q, (long long)c->heads_kv);
        const double work = cell_flops(c) / cell_flops(e);
        printf("%-46s %7s %8lld %8lld %5lld %8.3f %8.3f\n", c->variant, heads, (long long)c->plan.problem.seqlen_q,
               (long long)(c->ragged == RAGGED_EVEN ? c->seqlen_q : ragged_first(c, 1)), (long long)c->batch,
               work * ms_of(e) / ms_of(c), work * e->ms[0] / c->ms[0]);
    }
}

/* With --policies: what the rules gave, the fastest other numbers, and where those are ahead by more than noise. */
static void print_policies(void)
{
    const double noise = 0.02;
    size_t ruled = 0, better = 0;
    printf("\n%-46s %6s %5s %7s  %-22s %10s  %-22s %8s %8s\n", "variant", "seqlen", "batch", "heads", "the rules", "ms",
           "fastest beside them", "speed", "fastest");
    for (size_t i = 0, end; i < cell_count; i = end) {
        const struct cell *const rule = &cells[i], *best = NULL;
        for (end = i + 1; end < cell_count && cells[end].tuned; end++)
            if (!best || ms_of(&cells[end]) < ms_of(best))
                best = &cells[end];
        if (!best)
            continue;
        const double speed = ms_of(rule) / ms_of(best), fastest = rule->ms[0] / best->ms[0];
        const int ahead = speed > 1 + noise && fastest > 1 + noise;
        char heads[32];
        snprintf(heads, sizeof heads, "%lld:%lld", (long long)rule->heads_q, (long long)rule->heads_kv);
        printf("%-46s %6lld %5lld %7s  %-22s %10.4f  %-22s %8.3f %8.3f%s\n", rule->variant, (long long)rule->seqlen_k,
               (long long)rule->batch, heads, rule->policy, ms_of(rule), best->policy, speed, fastest,
               ahead ? "  would change" : "");
        ruled++;
        better += (size_t)ahead;
    }
    printf(
        "in %zu of %zu cells other numbers are ahead of the rules' by more than %.0f %%, by the median and by the fastest repetition\n",
        better, ruled, 100 * noise);
}

static void bar(const char *what, const struct cell *c, double value, double limit, int at_least)
{
    int met = at_least ? value >= limit : value <= limit;
    printf("  %-20s %s %-4s d%-3u %-6s S=%-6lld %2u threads  %6.2f   bar %s %.2f   %s\n", what, pass_name(c->pass),
           dtype_name(c->dtype), (unsigned)c->head_dim, mask_name(c->causal), (long long)c->seqlen_q, (unsigned)c->machine->threads,
           value, at_least ? ">=" : "<=", limit, met ? "met" : "MISSED");
}

static void print_bars(void)
{
    printf("\nthe bars, at length 2048 (the shares of the peak are asked of AVX-512):\n");
    for (size_t i = 0; i < cell_count; i++) {
        const struct cell *c = &cells[i], *full = partner(c, c->dtype, 0), *f32 = partner(c, GLINT_F32, c->causal);
        if (c->seqlen_q != 2048 || c->seqlen_k != 2048)
            continue;
        if (c->dtype == GLINT_F32)
            bar("share of peak", c, share_of(c), c->pass == GLINT_FORWARD ? 0.80 : 0.75, 1);
        if (c->causal && full)
            bar("causal / full time", c, ms_of(c) / ms_of(full), 0.58, 0);
        if (c->dtype != GLINT_F32 && f32)
            bar("time / f32's time", c, ms_of(c) / ms_of(f32), 1.25, 0);
    }
}

static int write_csv(const struct settings *s, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        return -1;
    }
    fprintf(file, "impl,variant,pass,dtype,head_dim,mask,seqlen_q,seqlen_k,batch,heads_q,heads_kv,threads,ms,tflops%s%s\n",
            s->decode ? ",layout,gbytes_s,of_read" : "", s->policies ? ",tuned,policy" : "");
    for (size_t i = 0; i < cell_count; i++) {
        const struct cell *c = &cells[i];
        if (c->ragged || c->window) /* no column says so */
            continue;
        fprintf(file, "glint,%s,%s,%s,%u,%s,%lld,%lld,%lld,%lld,%lld,%u,%.6f,%.6f", c->variant, pass_name(c->pass),
                dtype_name(c->dtype), (unsigned)c->head_dim, mask_name(c->causal), (long long)c->seqlen_q, (long long)c->seqlen_k,
                (long long)c->batch, (long long)c->heads_q, (long long)c->heads_kv, (unsigned)c->machine->threads, ms_of(c),
                tflops_of(c));
        if (s->decode)
            fprintf(file, ",%s,%.3f,", layout_name(c->layout), gbytes_of(c));
        if (s->decode && !c->machine->device)
            fprintf(file, "%.4f", read_share_of(c));
        if (s->policies)
            fprintf(file, ",%d,%s", c->tuned, c->policy);
        fprintf(file, "\n");
    }
    int failed = ferror(file);
    if (fclose(file) != 0 || failed) {
        fprintf(stderr, "glint_bench: cannot write %s\n", path);
        return -1;
    }
    printf("\nwritten: %s\n", path);
    return 0;
}

/* ---- the stopwatch ---- */

static int serve(const struct settings *s)
{
    char line[256], reason[SENTENCE];
    while (fgets(line, sizeof line, stdin)) {
        char pass[8], dtype[8], mask[8], layout[8] = "bshd", kv_dtype[8] = "same";
        long long d, sq, sk, b, hq, hk, threads;
        struct cell cell = {0}, *found = NULL;
        reason[0] = '\0';
        double ms = -1;
        if (sscanf(line, "%7s %7s %lld %7s %lld %lld %lld %lld %lld %lld %7s %7s", pass, dtype, &d, mask, &sq, &sk, &b, &hq, &hk,
                   &threads, layout, kv_dtype) < 10 ||
            !layout_from(layout) || !kv_dtype_from(kv_dtype) || !pass_from(pass) || !dtype_from(dtype) || !mask_from(mask) ||
            threads < 1 || threads > (long long)GLINT_POOL_MAX_THREADS || d < 1 || d > UINT16_MAX) {
            snprintf(reason, sizeof reason,
                     "expected: pass dtype head_dim mask seqlen_q seqlen_k batch heads_q heads_kv threads [layout [kv_dtype]]");
        } else {
            cell.machine = machine_of(s, threads, s->isas.value[0], reason, sizeof reason);
            cell.pass = pass_from(pass);
            cell.dtype = dtype_from(dtype);
            cell.causal = mask_from(mask) == 2;
            cell.head_dim = (uint32_t)d;
            cell.layout = layout_from(layout);
            cell.kv_dtype = kv_dtype_from(kv_dtype) % KV_SAME;
            cell.seqlen_q = sq;
            cell.seqlen_k = sk;
            cell.batch = b;
            cell.heads_q = hq;
            cell.heads_kv = hk;
            for (size_t i = 0; i < cell_count && !found; i++) {
                struct cell *c = &cells[i];
                if (c->machine == cell.machine && c->pass == cell.pass && c->dtype == cell.dtype && c->causal == cell.causal &&
                    c->head_dim == cell.head_dim && c->seqlen_q == sq && c->seqlen_k == sk && c->batch == b && c->heads_q == hq &&
                    c->heads_kv == hk && c->layout == cell.layout && c->kv_dtype == cell.kv_dtype)
                    found = c;
            }
            if (!found && cell.machine && cell_count < MAX_CELLS && cell_plan(&cell, UINT32_MAX, reason, sizeof reason) == 0) {
                cells[cell_count] = cell;
                found = &cells[cell_count++];
            }
            if (found)
                ms = cell_sample(found, s->least_ms, reason, sizeof reason);
            if (found && ms >= 0) {
                found->ms[0] = ms;
                found->samples = 1;
            }
        }
        if (ms >= 0)
            printf("%s %.6f\n", found->variant, ms);
        else
            printf("error %.*s\n", (int)strcspn(reason, "\n"), reason);
        fflush(stdout);
    }
    return 0;
}

int main(int count, char **arguments)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct settings s = {.passes = {2, {GLINT_FORWARD, GLINT_BACKWARD}, {0}},
                         .dtypes = {3, {GLINT_F32, GLINT_F16, GLINT_BF16}, {0}},
                         .kv_dtypes = {1, {KV_SAME}, {0}},
                         .head_dims = {2, {64, 128}, {0}},
                         .masks = {2, {1, 2}, {0}},
                         .seqlens = {3, {128, 512, 2048}, {128, 512, 2048}},
                         .batches = {1, {1}, {0}},
                         .heads = {1, {8}, {0}},
                         .heads_kv = {1, {0}, {0}},
                         .threads = {1,
                                     {processors < 1     ? 1
                                      : processors > 256 ? 256
                                                         : processors},
                                     {0}},
                         .isas = {1, {GLINT_ISA_ANY}, {0}},
                         .reps = 7,
                         .least_ms = 20,
                         .layout = LAYOUT_BSHD};
    for (int i = 1; i < count; i++)
        s.decode |= strcmp(arguments[i], "--decode") == 0;
    if (s.decode) {
        s.passes = (struct list){1, {GLINT_FORWARD}, {0}};
        s.masks = (struct list){1, {2}, {0}}; /* bottom right: the last query sees every key */
        s.seqlens = (struct list){3, {1024, 8192, 32768}, {1024, 8192, 32768}};
        s.heads = (struct list){3, {32, 32, 8}, {8, 32, 1}};
        s.threads = (struct list){2, {1, 2}, {0}};
        s.layout = LAYOUT_BHSD;
    }
    int asked = read_options(&s, count, arguments);
    if (asked != 0)
        return asked > 0 ? EXIT_SUCCESS : 2;
    if (s.gpu) /* one machine */
        s.threads.count = s.isas.count = 1;
    /* `bazel run` starts programs in a folder of its own; the user's paths are relative to where the user is. */
    const char *here = getenv("BUILD_WORKING_DIRECTORY");
    if (here && chdir(here) != 0)
        perror(here);
    if (s.serve)
        return serve(&s);

    if (add_all(&s) != 0)
        return EXIT_FAILURE;
    if (cell_count == 0) {
        fprintf(stderr, "glint_bench: nothing to measure: no variant of this library fits these options\n");
        return EXIT_FAILURE;
    }
    if (measure(&s) != 0)
        return EXIT_FAILURE;
    for (size_t i = 0; i < cell_count; i++)
        qsort(cells[i].ms, cells[i].samples, sizeof(double), ascending);
    for (size_t i = 0; i < cell_count; i++)
        qsort(cells[i].read_ms, cells[i].samples, sizeof(double), ascending);
    for (size_t p = 0; p < peak_count; p++)
        qsort(peaks[p].flops, peaks[p].samples, sizeof(double), ascending);
    if (s.decode)
        print_decode_table();
    else
        print_table();
    if (!s.gpu && !s.decode)
        print_bars();
    if (s.queries.count > 1)
        print_queries(&s);
    if (s.policies)
        print_policies();
    if (s.scores)
        print_scores();
    if (s.page_rows.count > 0)
        print_pages();
    if (s.windows.count > 0)
        print_windows();
    if (s.ragged)
        print_ragged();
    return s.csv && write_csv(&s, s.csv) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
