/* glint_merge and glint_append on a context of a GPU, in the simulator, against the same calls on a context of the CPU:
 * every byte of what they write, and of what lies between; in every layout, dtype and length, with NaN where nothing
 * may be read. What the kernels do wrong otherwise (races, addresses, memory that nobody wrote) the simulator finds.
 * The CPU's calls are held against the formulas in tests/contract. rows_on_device runs the same on a GPU. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/backend.h"
#include "lib/context.h"
#include "tests/contract/suite.h"
#include "tests/hostsim/driver.h"
#include "tests/hostsim/rows/gpu.h"
#include "tests/oracle/half.h"
#include "tests/support/rand.h"

static struct glint_context *open_on(uint32_t device, const struct glint_cuda_driver *driver)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    options.device = device;
    void *const storage = aligned_alloc(GLINT_CONTEXT_ALIGNMENT, (glint_context_size() + 63) / 64 * 64);
    const enum glint_status status = glint_context_init_with_driver(storage, glint_context_size(), &options, driver, &context);
    EXPECT(status == GLINT_OK, "a context on device %u gives %s", device, glint_status_name(status));
    return context;
}

static struct glint_context *cpu, *gpu;

static void open_both(void)
{
    cpu = open_on(GLINT_DEVICE_CPU, NULL);
    gpu = open_on(GLINT_DEVICE_CUDA_CURRENT, sim_driver(90));
}

static void close_both(void)
{
    EXPECT(glint_context_close(gpu) == GLINT_OK && glint_context_close(cpu) == GLINT_OK, "a context does not close");
    free(gpu);
    free(cpu);
}

/* ---- memory of both ----------------------------------------------------------------------------------------------------------------- */

/* The same bytes twice: the CPU works on the one, the GPU on the other. */
struct twin {
    unsigned char *host;
    void *device;
    size_t bytes;
};

enum { TWINS = 80, CANARY = 0xc3 };
static struct twin twins[TWINS];
static int twin_count;

static struct twin *twin_make(int64_t bytes)
{
    EXPECT(twin_count < TWINS, "too many tensors");
    struct twin *const t = &twins[twin_count++];
    t->bytes = bytes > 0 ? (size_t)bytes : 16;
    t->host = aligned_alloc(64, (t->bytes + 63) / 64 * 64);
    t->device = sim_allocate(t->bytes);
    memset(t->host, CANARY, t->bytes);
    return t;
}

static void twins_put(void)
{
    for (int i = 0; i < twin_count; i++)
        sim_put(twins[i].device, twins[i].host, twins[i].bytes);
}

static void twins_drop(void)
{
    for (int i = 0; i < twin_count; i++) {
        free(twins[i].host);
        sim_release(twins[i].device);
    }
    twin_count = 0;
}

static void twins_equal(const char *what, uint64_t seed)
{
    EXPECT(sim_findings() == 0, "%s %llu: %s", what, (unsigned long long)seed, sim_finding_text(0));
    for (int i = 0; i < twin_count; i++) {
        unsigned char *const got = malloc(twins[i].bytes);
        sim_get(got, twins[i].device, twins[i].bytes);
        for (size_t at = 0; at < twins[i].bytes; at++)
            EXPECT(got[at] == twins[i].host[at], "%s %llu: byte %zu of tensor %d is %#x, and %#x on the CPU", what,
                   (unsigned long long)seed, at, i, got[at], twins[i].host[at]);
        free(got);
    }
}

enum layout { BHSD, BSHD, PADDED, REPEATED, LAYOUTS }; /* the last for inputs */

static struct glint_strides strides_of(enum layout layout, int64_t b, int64_t h, int64_t s, int64_t columns, int64_t pad)
{
    switch (layout) {
    case BHSD: return (struct glint_strides){h * s * columns, s * columns, columns};
    case BSHD: return (struct glint_strides){s * h * columns, columns, h * columns};
    case PADDED: return (struct glint_strides){columns + pad, b * (columns + pad), h * b * (columns + pad) + 2 * pad};
    default: return (struct glint_strides){0, columns + pad, 0};
    }
}

static int64_t elements_of(const struct glint_strides *t, int64_t b, int64_t h, int64_t s, int64_t columns)
{
    return s == 0 ? 0 : (b - 1) * t->batch + (h - 1) * t->head + (s - 1) * t->row + columns;
}

/* Numbers of every size that the dtype has, its zeros, subnormals and infinities among them. */
static float number(struct rand *r)
{
    static const float odd[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-24f, 0x1p-133f, 65520.0f, -0x1.fffffep127f, INFINITY};
    return rand_below(r, 50) == 0 ? odd[rand_below(r, 8)] : rand_normal(r) * (rand_below(r, 8) == 0 ? 0x1p-14f : 1.0f);
}

/* ---- glint_merge -------------------------------------------------------------------------------------------------------------------- */

struct merging {
    struct glint_merge m[2]; /* on the CPU, on the GPU */
    struct glint_part part[2][GLINT_MAX_PARTS];
};

static struct twin *tensor(const struct glint_merge *m, const struct glint_strides *strides, int64_t columns,
                           enum glint_dtype dtype)
{
    return twin_make(elements_of(strides, m->batch, m->heads, m->seqlen, columns) * (int64_t)dtype_bytes(dtype));
}

static size_t place(const struct glint_strides *s, int64_t b, int64_t h, int64_t i)
{
    return (size_t)(b * s->batch + h * s->head + i * s->row);
}

#define EACH_ROW(m, b, h, i)                     \
    for (int64_t b = 0; b < (m)->batch; b++)     \
        for (int64_t h = 0; h < (m)->heads; h++) \
            for (int64_t i = 0; i < (m)->seqlen; i++)

/* Finite numbers, but for LSE: a row in four of a part sees nothing there. */
static void merge_make(struct merging *x, uint32_t parts, int64_t batch, int64_t heads, int64_t seqlen, int64_t head_dim,
                       enum glint_dtype dtype, uint64_t seed)
{
    struct rand r = rand_stream(seed, 3);
    struct glint_merge m = GLINT_MERGE_INIT;
    m.dtype = dtype;
    m.parts = parts;
    m.batch = batch;
    m.heads = heads;
    m.seqlen = seqlen;
    m.head_dim = head_dim;
    m.o_strides = strides_of((enum layout)rand_below(&r, REPEATED), batch, heads, seqlen, head_dim, 8);
    m.lse_strides = strides_of((enum layout)rand_below(&r, REPEATED), batch, heads, seqlen, 1, 1);
    for (uint32_t p = 0; p < parts; p++) {
        const enum glint_dtype of_part = rand_below(&r, 2) ? dtype : (enum glint_dtype)(GLINT_F32 + rand_below(&r, 3));
        const struct glint_strides o = strides_of((enum layout)rand_below(&r, LAYOUTS), batch, heads, seqlen, head_dim, 8);
        const struct glint_strides l = strides_of((enum layout)rand_below(&r, LAYOUTS), batch, heads, seqlen, 1, 1);
        struct twin *const to = tensor(&m, &o, head_dim, of_part), *const tl = tensor(&m, &l, 1, GLINT_F32);
        for (size_t i = 0; i < to->bytes / dtype_bytes(of_part); i++) {
            const float v = number(&r);
            dtype_store(of_part, to->host + i * dtype_bytes(of_part), isinf(v) ? 1.0f : v > 60000.0f || v < -60000.0f ? -0.0f : v);
        }
        for (size_t i = 0; i < tl->bytes / sizeof(float); i++)
            ((float *)(void *)tl->host)[i] =
                rand_below(&r, 4) == 0 ? -INFINITY : 4 * rand_normal(&r) + (float)rand_below(&r, 3) * 30;
        x->part[0][p] = (struct glint_part){to->host, (float *)(void *)tl->host, o, l, of_part, 0};
        x->part[1][p] = (struct glint_part){to->device, tl->device, o, l, of_part, 0};
    }
    struct twin *const o = tensor(&m, &m.o_strides, head_dim, dtype), *const lse = tensor(&m, &m.lse_strides, 1, GLINT_F32);
    struct twin *const sinks = rand_below(&r, 2) ? twin_make(heads * 4) : NULL;
    for (int64_t h = 0; sinks && h < heads; h++)
        ((float *)(void *)sinks->host)[h] = h % 3 == 2 ? -INFINITY : 6 * rand_normal(&r);
    x->m[0] = x->m[1] = m;
    for (int i = 0; i < 2; i++) {
        x->m[i].part = x->part[i];
        x->m[i].o = i == 0 ? (void *)o->host : o->device;
        x->m[i].lse = i == 0 ? (float *)(void *)lse->host : lse->device;
        x->m[i].sinks = !sinks ? NULL : i == 0 ? (float *)(void *)sinks->host : sinks->device;
    }
}

static void merge_both(const struct merging *x, const char *what, uint64_t seed)
{
    twins_put();
    sim_seed(seed + 1);
    const enum glint_status on_cpu = glint_merge(cpu, &x->m[0], NULL), on_gpu = glint_merge(gpu, &x->m[1], gpu_stream());
    EXPECT(on_cpu == GLINT_OK && on_gpu == GLINT_OK, "%s %llu: %s on the CPU, %s on the GPU", what, (unsigned long long)seed,
           glint_status_name(on_cpu), glint_status_name(on_gpu));
    twins_equal(what, seed);
}

/* Every number of parts; rows that fill no block, many in a block, and more than a block's threads; more blocks than
 * the device holds. */
static void merge_bits(void)
{
    static const int64_t dims[] = {8, 24, 64, 96, 128, 264};
    static struct merging x;
    open_both();
    for (uint64_t seed = 0; seed < 80; seed++) {
        struct rand r = rand_stream(seed, 8);
        const uint32_t parts = seed < GLINT_MAX_PARTS ? 1 + (uint32_t)seed : 1 + (uint32_t)rand_below(&r, 5);
        merge_make(&x, parts, 1 + rand_below(&r, 3), 1 + rand_below(&r, 3), seed % 40 == 9 ? 0 : 1 + rand_below(&r, 12),
                   dims[rand_below(&r, 6)], (enum glint_dtype)(GLINT_F32 + seed % 3), seed);
        merge_both(&x, "merge", seed);
        twins_drop();
    }
    merge_make(&x, 2, 2, 5, 7, 1032, GLINT_BF16, 500); /* 70 rows of 129 chunks, 64 blocks of 128 threads */
    merge_both(&x, "merge of long rows", 500);
    twins_drop();
    merge_make(&x, 3, 1, 2, 2100, 16, GLINT_F16, 501); /* 4200 rows, 64 in a block */
    merge_both(&x, "merge of many rows", 501);
    twins_drop();
    close_both();
}

/* A part's O where it sees no key is not read, whatever it holds; where no part sees one, O is 0. */
static void merge_of_nothing(void)
{
    static struct merging x;
    open_both();
    for (uint64_t seed = 0; seed < 12; seed++) {
        merge_make(&x, 1 + (uint32_t)seed % 4, 1, 2, 6, 40, (enum glint_dtype)(GLINT_F32 + seed % 3), seed);
        for (uint32_t p = 0; p < x.m[0].parts; p++) {
            const struct glint_part *const part = &x.part[0][p];
            EACH_ROW(&x.m[0], b, h, i)
            if (seed % 2 == 0 || part->lse[place(&part->lse_strides, b, h, i)] == -INFINITY) {
                ((float *)(uintptr_t)part->lse)[place(&part->lse_strides, b, h, i)] = -INFINITY;
                for (int64_t d = 0; d < 40 && part->o_strides.row > 0; d++) /* rows of its own */
                    dtype_store((enum glint_dtype)part->dtype,
                                (unsigned char *)(uintptr_t)part->o +
                                    (place(&part->o_strides, b, h, i) + (size_t)d) * dtype_bytes((enum glint_dtype)part->dtype),
                                NAN);
            }
        }
        merge_both(&x, "merge of nothing", seed);
        for (size_t at = 0; seed % 2 == 0 && at < 40; at++) /* the first row */
            EXPECT(dtype_load((enum glint_dtype)x.m[0].dtype,
                              (const char *)x.m[0].o + at * dtype_bytes((enum glint_dtype)x.m[0].dtype)) == 0.0f,
                   "O is not 0");
        twins_drop();
    }
    close_both();
}

/* O and LSE in the place of a part's, the first or the last. */
static void merge_in_place(void)
{
    static struct merging x;
    open_both();
    for (uint64_t seed = 0; seed < 12; seed++) {
        merge_make(&x, 2 + (uint32_t)seed % 3, 2, 2, 9, 8 * (int64_t)(1 + seed), (enum glint_dtype)(GLINT_F32 + seed % 3), seed);
        for (int on = 0; on < 2; on++) {
            struct glint_part *const part = &x.part[on][seed % 2 ? 0 : x.m[on].parts - 1];
            part->dtype = x.m[on].dtype;
            part->o = x.m[on].o;
            part->lse = x.m[on].lse;
            part->o_strides = x.m[on].o_strides;
            part->lse_strides = x.m[on].lse_strides;
        }
        EACH_ROW(&x.m[0], b, h, i)
        {
            unsigned char *const row =
                (unsigned char *)x.m[0].o + place(&x.m[0].o_strides, b, h, i) * dtype_bytes((enum glint_dtype)x.m[0].dtype);
            for (int64_t d = 0; d < x.m[0].head_dim; d++)
                dtype_store((enum glint_dtype)x.m[0].dtype, row + (size_t)d * dtype_bytes((enum glint_dtype)x.m[0].dtype),
                            (float)(d - 7));
            x.m[0].lse[place(&x.m[0].lse_strides, b, h, i)] = (float)(i - 4);
        }
        merge_both(&x, "merge in place", seed);
        twins_drop();
    }
    close_both();
}

/* NaN and infinities in O, in LSE and in a sink reach what they reach on the CPU; NaN may have other bits. */
static void merge_special(void)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 0x1.fffffep127f};
    static struct merging x;
    open_both();
    for (uint64_t seed = 0; seed < 24; seed++) {
        struct rand r = rand_stream(seed, 5);
        merge_make(&x, 1 + (uint32_t)seed % 3, 1, 2, 8, 16, (enum glint_dtype)(GLINT_F32 + seed % 3), seed);
        for (int put = 0; put < 6; put++) {
            const struct glint_part *const part = &x.part[0][rand_below(&r, x.m[0].parts)];
            const enum glint_dtype dtype = (enum glint_dtype)part->dtype;
            const size_t o = place(&part->o_strides, 0, rand_below(&r, 2), rand_below(&r, 8)) + (size_t)rand_below(&r, 16);
            const size_t lse = place(&part->lse_strides, 0, rand_below(&r, 2), rand_below(&r, 8));
            if (put < 4)
                dtype_store(dtype, (unsigned char *)(uintptr_t)part->o + o * dtype_bytes(dtype), odd[rand_below(&r, 5)]);
            else
                ((float *)(uintptr_t)part->lse)[lse] = odd[rand_below(&r, 4)];
        }
        if (x.m[0].sinks && seed % 4 == 0)
            ((float *)(uintptr_t)x.m[0].sinks)[0] = odd[rand_below(&r, 2)];
        twins_put();
        EXPECT(glint_merge(cpu, &x.m[0], NULL) == GLINT_OK && glint_merge(gpu, &x.m[1], NULL) == GLINT_OK, "seed %llu",
               (unsigned long long)seed);
        EXPECT(sim_findings() == 0, "%s", sim_finding_text(0));
        EACH_ROW(&x.m[0], b, h, i)
        for (int64_t d = 0; d <= 16; d++) {
            const enum glint_dtype dtype = d < 16 ? (enum glint_dtype)x.m[0].dtype : GLINT_F32;
            const size_t at = d < 16 ? (place(&x.m[0].o_strides, b, h, i) + (size_t)d) * dtype_bytes(dtype)
                                     : place(&x.m[0].lse_strides, b, h, i) * sizeof(float);
            unsigned char got[4];
            sim_get(got, (const unsigned char *)(d < 16 ? x.m[1].o : x.m[1].lse) + at, dtype_bytes(dtype));
            const unsigned char *const want = (const unsigned char *)(d < 16 ? x.m[0].o : x.m[0].lse) + at;
            EXPECT(memcmp(got, want, dtype_bytes(dtype)) == 0 || (isnan(dtype_load(dtype, got)) && isnan(dtype_load(dtype, want))),
                   "seed %llu, row %lld, column %lld: %g, and %g on the CPU", (unsigned long long)seed, (long long)i, (long long)d,
                   (double)dtype_load(dtype, got), (double)dtype_load(dtype, want));
        }
        twins_drop();
    }
    close_both();
}

/* The sentences are those of the CPU, but that rows lie at multiples of 16 bytes and that there is a stream. */
static void merge_refusals(void)
{
    static struct merging x;
    char text[2][512];
    open_both();
    merge_make(&x, 2, 2, 2, 3, 64, GLINT_BF16, 6);
    for (int wrong = 0; wrong < 12; wrong++) {
        enum glint_status status[2];
        for (int on = 0; on < 2; on++) {
            struct glint_merge m = x.m[0];
            struct glint_part part[2] = {x.part[0][0], x.part[0][1]};
            m.part = part;
            switch (wrong) {
            case 0: m.parts = 33; break;
            case 1: m.head_dim = 12; break;
            case 2: m.heads = 0; break;
            case 3: m.dtype = GLINT_I8; break;
            case 4: m.seqlen = -1; break;
            case 5: part[1].o = NULL; break;
            case 6: part[1].lse_strides.row = -1; break;
            case 7: m.o_strides.row = 8; break;
            case 8: m.lse = (float *)(void *)((char *)m.lse + 2); break;
            case 9:
                part[0].o = (const char *)m.o + 16;
                part[0].dtype = m.dtype;
                break;
            case 10: part[1].reserved = 1; break;
            default: m.o_strides.batch = INT64_C(1) << 62; break;
            }
            status[on] = glint_explain_merge(on ? gpu : cpu, &m, NULL, text[on], sizeof text[on], NULL);
            EXPECT(glint_merge(on ? gpu : cpu, &m, NULL) == status[on], "wrong %d: explained otherwise", wrong);
        }
        EXPECT(status[0] == status[1] && status[0] != GLINT_OK && strcmp(text[0], text[1]) == 0, "wrong %d: \"%s\" and \"%s\"",
               wrong, text[0], text[1]);
    }
    struct glint_merge m = x.m[1];
    m.o = (char *)m.o + 8;
    EXPECT(glint_explain_merge(gpu, &m, NULL, text[0], sizeof text[0], NULL) == GLINT_TENSOR_MISALIGNED &&
               strstr(text[0], "The address of merge.o must be a multiple of 16 bytes; it is 8 past one.") != NULL,
           "%s", text[0]);
    m = x.m[1];
    m.o_strides = (struct glint_strides){1000, 404, 100};
    EXPECT(glint_explain_merge(gpu, &m, NULL, text[0], sizeof text[0], NULL) == GLINT_STRIDE_MISALIGNED &&
               strstr(text[0], "merge.o_strides.head is 404; on this device it must be a multiple of 8 elements.") != NULL,
           "%s", text[0]);
    m.o_strides = x.m[1].o_strides;
    struct glint_part part[2] = {x.part[1][0], x.part[1][1]};
    part[1].dtype = GLINT_F32;
    part[1].o_strides = (struct glint_strides){0, 66, 0};
    m.part = part;
    EXPECT(glint_explain_merge(gpu, &m, NULL, text[0], sizeof text[0], NULL) == GLINT_STRIDE_MISALIGNED &&
               strstr(text[0], "merge.part[1].o_strides.head is 66; on this device it must be a multiple of 4 elements.") != NULL,
           "%s", text[0]);
    EXPECT(glint_explain_merge(gpu, &x.m[1], &m, text[0], sizeof text[0], NULL) == GLINT_OK, "with a stream: %s", text[0]);
    EXPECT(glint_explain_merge(cpu, &x.m[0], &m, text[0], sizeof text[0], NULL) == GLINT_BAD_STREAM, "%s", text[0]);
    twins_drop();
    close_both();
}

/* ---- glint_append ------------------------------------------------------------------------------------------------------------------- */

struct appending {
    struct glint_plan plan;
    struct glint_append a[2]; /* on the CPU, on the GPU */
    struct glint_tensors t[2];
    struct twin *fault;
};

enum { MOST_DIM = 528 };

static struct glint_plan plan_of(enum glint_dtype dtype, int64_t batch, int64_t seqlen_q, int64_t seqlen_k, int64_t heads_q,
                                 int64_t heads_kv)
{
    struct glint_problem p;
    struct glint_plan plan;
    glint_problem_bshd(&p, dtype == GLINT_F16 ? GLINT_BF16 : dtype, batch, seqlen_q, seqlen_k, heads_q, heads_kv, 72);
    p.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    p.lengths = GLINT_LENGTHS_DEVICE;
    const enum glint_status status = glint_plan(gpu, &p, GLINT_FORWARD, &plan);
    EXPECT(status == GLINT_OK, "glint_plan gives %s", glint_status_name(status));
    plan.problem.dtype = dtype; /* the spec has no f16; a backend's append reads the plan's problem alone */
    return plan;
}

/* Elements of a row of 8 bits, of the kinds that the formulas in glint.h tell apart, in turns: zeros, ties of int8 and
 * of e4m3, scales that are subnormal or just above that, the largest numbers, infinities and NaN. */
static void narrow_row(float *x, int64_t d, struct rand *r)
{
    const int kind = (int)rand_below(r, 12);
    for (int64_t i = 0; i < d; i++) {
        const float sign = rand_below(r, 2) ? -1.0f : 1.0f;
        switch (kind) {
        case 0: x[i] = 0.0f * sign; break;
        case 1: x[i] = i == 0 ? -127.0f : (float)rand_below(r, 254) - 126.5f; break;
        case 2: x[i] = i == 0 ? 448.0f : sign * ldexpf((float)(2 * rand_below(r, 16) + 17), (int)rand_below(r, 20) - 13); break;
        case 3: x[i] = rand_normal(r) * 0x1p-130f; break;
        case 4: x[i] = rand_normal(r) * 0x1p-119f; break;
        case 5: x[i] = sign * 0x1.fffffep127f; break;
        case 6: x[i] = sign * ldexpf(1.0f + (float)rand_below(r, 4096) * 0x1p-12f, (int)rand_below(r, 276) - 149); break;
        default: x[i] = rand_normal(r); break;
        }
    }
    if (kind == 7)
        x[rand_below(r, d)] = rand_below(r, 2) ? INFINITY : -INFINITY;
    if (kind == 8)
        x[rand_below(r, d)] = rand_below(r, 2) ? NAN : -NAN;
}

/* `narrow`: for rows of 8 bits. */
static void new_rows(const void **host, const void **device, struct glint_strides *strides, const struct glint_problem *p,
                     enum glint_dtype dtype, bool narrow, struct rand *r)
{
    const bool ragged = p->lengths == GLINT_LENGTHS_RAGGED;
    const int64_t batch = ragged ? 1 : p->batch, rows = ragged ? p->rows_q : p->seqlen_q;
    *strides = strides_of((enum layout)rand_below(r, LAYOUTS), batch, p->heads_kv, rows, p->head_dim, 8);
    struct twin *const t = twin_make(elements_of(strides, batch, p->heads_kv, rows, p->head_dim) * (int64_t)dtype_bytes(dtype));
    for (size_t i = 0; i < t->bytes / dtype_bytes(dtype); i++)
        dtype_store(dtype, t->host + i * dtype_bytes(dtype), number(r));
    for (int64_t row = 0; narrow && row < batch * p->heads_kv * rows; row++) {
        float x[MOST_DIM];
        const int64_t at =
            row / (p->heads_kv * rows) * strides->batch + row / rows % p->heads_kv * strides->head + row % rows * strides->row;
        narrow_row(x, p->head_dim, r);
        for (int64_t i = 0; i < p->head_dim; i++)
            dtype_store(dtype, t->host + (size_t)(at + i) * dtype_bytes(dtype), x[i]);
    }
    *host = t->host;
    *device = t->device;
}

static int32_t length(struct rand *r, int64_t bound)
{
    static const int32_t wild[] = {-1, -7, INT32_MIN, INT32_MAX};
    return rand_below(r, 8) == 0 ? wild[rand_below(r, 4)] : (int32_t)rand_below(r, bound + (rand_below(r, 6) == 0 ? 4 : 1));
}

static int32_t *words(struct twin *t)
{
    return (int32_t *)(void *)t->host;
}

/* K or V of the cache, and its scales, which lie as enum glint_scales says. */
static struct twin *cache(struct glint_strides *strides, int64_t units, int64_t rows, const struct glint_problem *p, struct rand *r)
{
    const int64_t element = p->kv_dtype != 0 ? 1 : (int64_t)dtype_bytes((enum glint_dtype)p->dtype);
    *strides = strides_of((enum layout)rand_below(r, REPEATED), units, p->heads_kv, rows, p->head_dim, p->kv_dtype != 0 ? 16 : 8);
    return twin_make(elements_of(strides, units, p->heads_kv, rows, p->head_dim) * element);
}

static struct twin *scales(int64_t units, int64_t rows, const struct glint_problem *p, struct rand *r)
{
    static const float odd[] = {0.0f, -0.0f, 0x1p-149f, 0x1p-130f, -2.0f, 0x1p127f, INFINITY, -INFINITY, NAN};
    const int64_t count = p->kv_scales == GLINT_SCALES_ROW    ? units * p->heads_kv * rows
                          : p->kv_scales == GLINT_SCALES_HEAD ? p->heads_kv
                                                              : 1;
    struct twin *const t = twin_make(count * 4);
    for (int64_t i = 0; i < count && p->kv_scales != GLINT_SCALES_ROW; i++) {
        const float scale = rand_below(r, 3) ? expf(2.0f * rand_normal(r)) : odd[rand_below(r, 9)];
        memcpy(t->host + 4 * i, &scale, 4);
    }
    return t;
}

/* Where ragged sequences begin, some of them empty, with rows of no sequence before the first and behind the last.
 * `wild`: first rows that are none, before the tensor and beyond it, and sequences that begin before the last one has
 * ended. */
static void first_rows(int32_t *first, int64_t batch, int64_t rows, bool wild, struct rand *r)
{
    static const int32_t none[] = {-1, INT32_MIN, INT32_MAX};
    int64_t at = rand_below(r, 3);
    for (int64_t b = 0; b <= batch; b++) {
        first[b] = (int32_t)(at < rows ? at : rows);
        at += rand_below(r, 4) == 0 ? 0 : 1 + rand_below(r, 8);
    }
    for (int64_t b = 0; wild && b <= batch; b++)
        if (rand_below(r, 12) == 0)
            first[b] = rand_below(r, 2) ? none[rand_below(r, 3)] : (int32_t)rand_below(r, rows + 9);
}

/* page_rows 0: linear. kv_dtype and kv_scales as a problem's. `wild`: lengths, first rows and pages that are none among
 * the others. Ragged with more sequences than a warp has lanes, now and then. */
static void append_make(struct appending *x, enum glint_dtype dtype, uint32_t kv_dtype, uint32_t kv_scales, int64_t page_rows,
                        bool ragged, bool wild, uint64_t seed)
{
    static const int64_t narrow_dims[] = {16, 64, 80, 128, MOST_DIM};
    struct rand r = rand_stream(seed, 9);
    const int64_t batch = ragged && seed % 3 == 1 ? 30 + rand_below(&r, 70) : 1 + rand_below(&r, 5), heads = 1 + rand_below(&r, 3),
                  seqlen_q = seed % 11 == 5 ? 0 : 1 + rand_below(&r, 9);
    x->plan = plan_of(dtype, batch, seqlen_q, 40, heads * (1 + rand_below(&r, 2)), heads);
    struct glint_problem *const p = &x->plan.problem;
    const enum glint_dtype from = rand_below(&r, 2) ? dtype : GLINT_F32;
    p->head_dim = p->head_dim_v = kv_dtype != 0 ? narrow_dims[rand_below(&r, 5)] : p->head_dim;
    p->kv_dtype = kv_dtype;
    p->kv_scales = kv_scales;
    p->lengths = ragged ? GLINT_LENGTHS_RAGGED : p->lengths;
    p->rows_q = !ragged || seed % 13 == 7 ? 0 : 1 + rand_below(&r, 6 * batch);
    p->page_rows = page_rows;
    p->pages_per_sequence = page_rows == 0 ? 0 : (40 + page_rows - 1) / page_rows + 1;
    p->pages = page_rows == 0 ? 0 : batch * p->pages_per_sequence + 2;
    p->pages += page_rows > 0 && p->pages % 7 == 0; /* 7 i + 1 of the table names each page once */
    const int64_t units = page_rows > 0 ? p->pages : batch, rows = page_rows > 0 ? page_rows : 40;
    struct twin *const k = cache(&p->k, units, rows, p, &r), *const v = cache(&p->v, units, rows, p, &r);
    struct twin *const k_scale = kv_dtype != 0 ? scales(units, rows, p, &r) : NULL;
    struct twin *const v_scale = kv_dtype != 0 ? scales(units, rows, p, &r) : NULL;
    struct twin *const seqlens_q = rand_below(&r, 3) ? twin_make(batch * 4) : NULL, *const seqlens_k = twin_make(batch * 4);
    struct twin *const table = page_rows > 0 ? twin_make(batch * p->pages_per_sequence * 4) : NULL;
    struct twin *const first_q = ragged ? twin_make((batch + 1) * 4) : NULL;
    if (ragged)
        first_rows(words(first_q), batch, p->rows_q, wild, &r);
    x->fault = rand_below(&r, 4) ? twin_make(4) : NULL;
    for (int64_t b = 0; b < batch; b++) {
        const int32_t keys = wild ? length(&r, 40) : (int32_t)rand_below(&r, 41);
        words(seqlens_k)[b] = keys;
        if (seqlens_q)
            words(seqlens_q)[b] = wild ? length(&r, seqlen_q) : (int32_t)rand_below(&r, (keys < seqlen_q ? keys : seqlen_q) + 1);
    }
    for (int64_t i = 0; table && i < batch * p->pages_per_sequence; i++)
        words(table)[i] = wild && rand_below(&r, 9) == 0
                              ? (int32_t)(rand_below(&r, 2) ? p->pages + rand_below(&r, 9) : -1 - rand_below(&r, 9))
                              : (int32_t)((i * 7 + 1) % p->pages);
    if (x->fault)
        words(x->fault)[0] = -1;
    for (int on = 0; on < 2; on++) {
        x->a[on] = (struct glint_append)GLINT_APPEND_INIT;
        x->a[on].dtype = from;
        x->t[on] = (struct glint_tensors)GLINT_TENSORS_INIT;
        x->t[on].k = on ? k->device : (void *)k->host;
        x->t[on].v = on ? v->device : (void *)v->host;
        x->t[on].first_q = !first_q ? NULL : on ? first_q->device : words(first_q);
        x->t[on].seqlens_q = !seqlens_q ? NULL : on ? seqlens_q->device : words(seqlens_q);
        x->t[on].seqlens_k = on ? seqlens_k->device : words(seqlens_k);
        x->t[on].page_table = !table ? NULL : on ? table->device : words(table);
        x->t[on].k_scale = !k_scale ? NULL : on ? k_scale->device : (float *)(void *)k_scale->host;
        x->t[on].v_scale = !v_scale ? NULL : on ? v_scale->device : (float *)(void *)v_scale->host;
        x->t[on].fault = !x->fault ? NULL : on ? x->fault->device : (uint32_t *)(void *)x->fault->host;
    }
    struct glint_strides s[2];
    new_rows(&x->a[0].k, &x->a[1].k, &s[0], p, from, kv_dtype != 0, &r);
    new_rows(&x->a[0].v, &x->a[1].v, &s[1], p, from, kv_dtype != 0, &r);
    for (int on = 0; on < 2; on++) {
        x->a[on].k_strides = s[0];
        x->a[on].v_strides = s[1];
    }
}

static void append_both(struct appending *x, const char *what, uint64_t seed)
{
    twins_put();
    sim_seed(seed + 1);
    EXPECT(glint_cpu_backend.append(cpu, &x->plan, &x->a[0], &x->t[0], NULL) == GLINT_OK, "seed %llu", (unsigned long long)seed);
    EXPECT(gpu->backend->append(gpu, &x->plan, &x->a[1], &x->t[1], NULL) == GLINT_OK, "seed %llu", (unsigned long long)seed);
    EXPECT(sim_findings() == 0, "%s %llu: %s", what, (unsigned long long)seed, sim_finding_text(0));
    twins_equal(what, seed);
}

/* What is written, where, what is left out, and the word for a fault: linear and in pages, in every dtype, with lengths
 * and pages of every kind. */
static void append_bits(void)
{
    static const int64_t page_rows[] = {0, 16, 0, 32, 256};
    static struct appending x;
    uint64_t faults = 0, right = 0;
    open_both();
    for (uint64_t seed = 0; seed < 150; seed++) {
        append_make(&x, (enum glint_dtype)(GLINT_F32 + seed % 3), 0, GLINT_SCALES_NONE, page_rows[seed % 5], false, seed % 4 != 0,
                    seed);
        append_both(&x, "append", seed);
        faults += x.fault && words(x.fault)[0] != -1;
        right += x.fault && words(x.fault)[0] == -1;
        twins_drop();
    }
    EXPECT(faults > 20 && right > 20, "%llu calls with a fault, %llu without", (unsigned long long)faults,
           (unsigned long long)right);
    close_both();
}

/* Rows of 8 bits, of every kind, and their scales; also where the host's scales are zero, subnormal, infinite or
 * NaN. */
static void append_narrow(void)
{
    static const int64_t page_rows[] = {0, 16, 0, 64, 256};
    static const uint32_t kinds[][2] = {{GLINT_I8, GLINT_SCALES_ROW},
                                        {GLINT_E4M3, GLINT_SCALES_ROW},
                                        {GLINT_E4M3, GLINT_SCALES_HEAD},
                                        {GLINT_E4M3, GLINT_SCALES_TENSOR}};
    static struct appending x;
    open_both();
    for (uint64_t seed = 0; seed < 240; seed++) {
        append_make(&x, (enum glint_dtype)(GLINT_F32 + seed % 3), kinds[seed / 3 % 4][0], kinds[seed / 3 % 4][1],
                    page_rows[seed / 12 % 5], false, seed % 4 != 0, 5000 + seed);
        append_both(&x, "append in 8 bits", seed);
        twins_drop();
    }
    close_both();
}

/* New rows of ragged queries: of one sequence and of many, with first rows of every kind, in every dtype. */
static void append_ragged(void)
{
    static const uint32_t kinds[][2] = {{0, GLINT_SCALES_NONE},
                                        {GLINT_I8, GLINT_SCALES_ROW},
                                        {0, GLINT_SCALES_NONE},
                                        {GLINT_E4M3, GLINT_SCALES_ROW},
                                        {GLINT_E4M3, GLINT_SCALES_HEAD}};
    static struct appending x;
    uint64_t faults = 0, right = 0;
    open_both();
    for (uint64_t seed = 0; seed < 200; seed++) {
        append_make(&x, (enum glint_dtype)(GLINT_F32 + seed % 3), kinds[seed / 3 % 5][0], kinds[seed / 3 % 5][1],
                    16 << seed / 2 % 5, true, seed % 4 != 0, 9000 + seed);
        append_both(&x, "append of ragged queries", seed);
        faults += x.fault && words(x.fault)[0] != -1;
        right += x.fault && words(x.fault)[0] == -1;
        twins_drop();
    }
    EXPECT(faults > 20 && right > 4, "%llu calls with a fault, %llu without", (unsigned long long)faults,
           (unsigned long long)right);
    close_both();
}

/* Through the door of the API: rounding from float32, a graph's stream, what is refused and how it is said. */
static void append_call(void)
{
    static struct appending x;
    char text[512];
    open_both();
    for (uint64_t seed = 0; seed < 12; seed++) {
        append_make(&x, seed % 2 ? GLINT_BF16 : GLINT_F32, 0, GLINT_SCALES_NONE, seed % 4 < 2 ? 0 : 16, false, seed % 3 != 0,
                    1000 + seed);
        struct glint_problem p = x.plan.problem;
        EXPECT(glint_plan(gpu, &p, GLINT_FORWARD, &x.plan) == GLINT_OK, "seed %llu", (unsigned long long)seed);
        twins_put();
        EXPECT(glint_explain_append(&x.plan, &x.a[1], &x.t[1], &x, text, sizeof text, NULL) == GLINT_OK, "%s", text);
        EXPECT(glint_append(&x.plan, &x.a[1], &x.t[1], gpu_stream()) == GLINT_OK, "seed %llu", (unsigned long long)seed);
        EXPECT(glint_cpu_backend.append(cpu, &x.plan, &x.a[0], &x.t[0], NULL) == GLINT_OK, "seed %llu", (unsigned long long)seed);
        twins_equal("append by a call", seed);

        struct glint_append a = x.a[1];
        a.k = (const char *)a.k + 4;
        if (p.seqlen_q > 0)
            EXPECT(glint_explain_append(&x.plan, &a, &x.t[1], NULL, text, sizeof text, NULL) == GLINT_TENSOR_MISALIGNED &&
                       strstr(text, "The address of append.k must be a multiple of 16 bytes; it is 4 past one.") != NULL,
                   "%s", text);
        a = x.a[1];
        a.dtype = GLINT_F32;
        a.v_strides.row = 74;
        if (p.seqlen_q > 1)
            EXPECT(glint_explain_append(&x.plan, &a, &x.t[1], NULL, text, sizeof text, NULL) == GLINT_STRIDE_MISALIGNED &&
                       strstr(text, "append.v_strides.row is 74; on this device it must be a multiple of 4 elements.") != NULL,
                   "%s", text);
        twins_drop();
    }
    close_both();
}

/* ---- far apart ---------------------------------------------------------------------------------------------------------------------- */

/* Rows more than 2^32 elements apart: of O and of a cache. */
static void far(void)
{
    enum { DIM = 72, BYTES = DIM * 4 };
    const int64_t step = INT64_C(0x100000040); /* elements; a multiple of 8 */
    const size_t bytes = (size_t)step * 4 + BYTES;
    float row[2][DIM], got[DIM], lse[2] = {1.0f, 2.0f}, got_lse[2];
    open_both();
    unsigned char *const from = sim_allocate(bytes), *const to = sim_allocate(bytes);
    float *const in = sim_allocate(sizeof lse), *const out = sim_allocate(sizeof lse);
    for (int b = 0; b < 2; b++) {
        for (int d = 0; d < DIM; d++)
            row[b][d] = (float)(b * 100 + d);
        sim_put(from + (size_t)b * (size_t)step * 4, row[b], BYTES);
    }
    sim_put(in, lse, sizeof lse);
    const struct glint_strides apart[3] = {{step, 0, 0}, {0, step, 0}, {0, 0, step}};
    for (int which = 0; which < 3; which++) {
        const struct glint_strides of_lse = {which == 0, which == 1, which == 2};
        const struct glint_part part = {from, in, apart[which], of_lse, GLINT_F32, 0};
        struct glint_merge m = GLINT_MERGE_INIT;
        m.dtype = GLINT_F32;
        m.parts = 1;
        m.batch = which == 0 ? 2 : 1;
        m.heads = which == 1 ? 2 : 1;
        m.seqlen = which == 2 ? 2 : 1;
        m.head_dim = DIM;
        m.part = &part;
        m.o = to;
        m.lse = out;
        m.o_strides = apart[which];
        m.lse_strides = of_lse;
        EXPECT(glint_merge(gpu, &m, NULL) == GLINT_OK && sim_findings() == 0, "%s",
               sim_findings() ? sim_finding_text(0) : "refused");
        sim_get(got_lse, out, sizeof got_lse);
        for (int b = 0; b < 2; b++) {
            sim_get(got, to + (size_t)b * (size_t)step * 4, BYTES);
            EXPECT(memcmp(got, row[b], BYTES) == 0 && got_lse[b] == lse[b], "merge: row %d, dimension %d", b, which);
            sim_forget(to + (size_t)b * (size_t)step * 4, BYTES);
        }
    }

    struct glint_problem p;
    struct glint_plan plan;
    int32_t *const lengths = sim_allocate(2 * sizeof *lengths);
    const int32_t keys[2] = {1, 1};
    sim_put(lengths, keys, sizeof keys);
    glint_problem_bshd(&p, GLINT_F32, 2, 1, 1, 1, 1, DIM);
    p.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    p.lengths = GLINT_LENGTHS_DEVICE;
    p.k.batch = step;
    EXPECT(glint_plan(gpu, &p, GLINT_FORWARD, &plan) == GLINT_OK, "no plan");
    void *const v = sim_allocate(2 * BYTES);
    struct glint_append a = GLINT_APPEND_INIT;
    struct glint_tensors t = GLINT_TENSORS_INIT;
    a.dtype = GLINT_F32;
    a.k = a.v = from;
    a.k_strides = a.v_strides = apart[0];
    t.k = to;
    t.v = v;
    t.seqlens_k = lengths;
    EXPECT(glint_append(&plan, &a, &t, NULL) == GLINT_OK && sim_findings() == 0, "%s",
           sim_findings() ? sim_finding_text(0) : "refused");
    for (int b = 0; b < 2; b++) {
        sim_get(got, to + (size_t)b * (size_t)step * 4, BYTES);
        EXPECT(memcmp(got, row[b], BYTES) == 0, "append: row %d of K", b);
        sim_get(got, (char *)v + b * BYTES, BYTES);
        EXPECT(memcmp(got, row[b], BYTES) == 0, "append: row %d of V", b);
    }
    void *const all[] = {from, to, in, out, lengths, v};
    for (int i = 0; i < 6; i++)
        sim_release(all[i]);
    close_both();
}

static const struct contract_case cases[] = {
    {"merge_bits", merge_bits, 0},         {"merge_of_nothing", merge_of_nothing, 0},
    {"merge_in_place", merge_in_place, 0}, {"merge_special", merge_special, 0},
    {"merge_refusals", merge_refusals, 0}, {"append_bits", append_bits, 0},
    {"append_narrow", append_narrow, 0},   {"append_ragged", append_ragged, 0},
    {"append_call", append_call, 0},       {"far", far, 0},
};
CONTRACT_MAIN("rows", cases)
