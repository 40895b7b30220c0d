#include "bench/cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/gpu.h"
#include "bench/peak.h"

struct word {
    const char *name;
    uint32_t value;
};
static const struct word passes[] = {{"fwd", GLINT_FORWARD}, {"bwd", GLINT_BACKWARD}, {NULL, 0}};
static const struct word dtypes[] = {{"f32", GLINT_F32}, {"f16", GLINT_F16}, {"bf16", GLINT_BF16}, {NULL, 0}};

static const struct word kv_dtypes[] = {{"same", KV_SAME}, {"i8", GLINT_I8}, {"e4m3", GLINT_E4M3}, {NULL, 0}};

static const struct word layouts[] = {{"bshd", LAYOUT_BSHD}, {"bhsd", LAYOUT_BHSD}, {NULL, 0}};

static uint32_t value_of(const struct word *words, const char *name, uint32_t missing)
{
    for (; words->name; words++)
        if (strcmp(words->name, name) == 0)
            return words->value;
    return missing;
}

static const char *name_of(const struct word *words, uint32_t value)
{
    for (; words->name; words++)
        if (words->value == value)
            return words->name;
    return "?";
}

uint32_t pass_from(const char *word)
{
    return value_of(passes, word, 0);
}
uint32_t dtype_from(const char *word)
{
    return value_of(dtypes, word, 0);
}
uint32_t kv_dtype_from(const char *word)
{
    return value_of(kv_dtypes, word, 0);
}
uint32_t layout_from(const char *word)
{
    return value_of(layouts, word, 0);
}
uint32_t isa_from(const char *word)
{
    for (uint32_t isa = 1; isa < 32; isa++)
        if (glint_isa_name(isa) && strcmp(glint_isa_name(isa), word) == 0)
            return isa;
    return strcmp(word, "best") == 0 ? GLINT_ISA_ANY : UINT32_MAX;
}
const char *pass_name(uint32_t pass)
{
    return name_of(passes, pass);
}
const char *dtype_name(uint32_t dtype)
{
    return name_of(dtypes, dtype);
}
const char *layout_name(uint32_t layout)
{
    return name_of(layouts, layout);
}
const char *isa_name(uint32_t isa)
{
    const char *name = glint_isa_name(isa);
    return name ? name : isa == GLINT_ISA_ANY ? "best" : "?";
}

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *get_memory(size_t bytes)
{
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096 + 4096);
    if (!memory) {
        fprintf(stderr, "glint_bench: no memory for %zu MB\n", bytes >> 20);
        exit(1);
    }
    return memory;
}

struct machine *machine_open(uint32_t threads, uint32_t max_isa, char *reason, size_t reason_bytes)
{
    enum { MACHINES = 32 };
    static struct machine machines[MACHINES];
    static size_t count;
    for (size_t i = 0; i < count; i++)
        if (machines[i].threads == threads && machines[i].max_isa == max_isa)
            return &machines[i];
    if (count == MACHINES) {
        snprintf(reason, reason_bytes, "more than %d pairs of threads and instruction sets", MACHINES);
        return NULL;
    }
    struct machine *m = &machines[count];
    *m = (struct machine){.threads = threads, .max_isa = max_isa};
    struct glint_pool *pool;
    size_t pool_bytes = glint_pool_size(threads), context_bytes = glint_context_size();
    enum glint_status status = glint_pool_init(get_memory(pool_bytes), pool_bytes, threads, &pool, &m->executor);
    if (status == GLINT_OK) {
        struct glint_options options = GLINT_OPTIONS_INIT;
        options.device = GLINT_DEVICE_CPU;
        options.max_isa = max_isa;
        (void)glint_permit_amx(&options); /* without it there is no AMX, and the CSV says which instruction set was used */
        options.executor = m->executor;
        status = glint_context_init(get_memory(context_bytes), context_bytes, &options, &m->context);
    }
    struct glint_device_info info = GLINT_DEVICE_INFO_INIT;
    if (status == GLINT_OK)
        status = glint_context_device(m->context, &info);
    if (status != GLINT_OK) {
        snprintf(reason, reason_bytes, "a context with %u threads: %s: %s", (unsigned)threads, glint_status_name(status),
                 glint_status_sentence(status));
        return NULL;
    }
    m->isa = info.isa;
    count++;
    return m;
}

/* Memory where the machine's kernels look for it. */
static void *machine_memory(struct machine *m, size_t bytes)
{
    return m->device ? gpu_memory(m, bytes) : get_memory(bytes);
}

static void machine_release(struct machine *m, void *memory)
{
    if (m->device)
        gpu_release(m, memory);
    else
        free(memory);
}

/* Pages of a sequence. */
static int64_t pages_of(const struct cell *c)
{
    return (c->seqlen_k + c->page_rows - 1) / c->page_rows;
}

static void *words_of(struct machine *m, const int32_t *words, size_t count)
{
    void *const memory = machine_memory(m, count * sizeof *words);
    if (m->device)
        gpu_put(m, memory, words, count * sizeof *words);
    else
        memcpy(memory, words, count * sizeof *words);
    return memory;
}

/* Every page once, in an order that follows no rule, and full lengths. */
static void make_table(struct cell *c, int64_t pages)
{
    int32_t *const words = get_memory((size_t)(pages + c->batch) * sizeof *words);
    uint64_t state = 1;
    for (int64_t i = 0; i < pages; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const int64_t at = (int64_t)((state >> 33) % (uint64_t)(i + 1));
        words[i] = words[at];
        words[at] = (int32_t)i;
    }
    for (int64_t b = 0; b < c->batch; b++)
        words[pages + b] = (int32_t)c->seqlen_k;
    c->page_table = words_of(c->machine, words, (size_t)pages);
    c->lengths = words_of(c->machine, words + pages, (size_t)c->batch);
    free(words);
}

int64_t ragged_first(const struct cell *c, int64_t b)
{
    return c->seqlen_q * b * b / c->batch;
}

static void make_first(struct cell *c)
{
    const size_t count = (size_t)c->batch + 1;
    int32_t *const first = get_memory(2 * count * sizeof *first); /* of queries, then of keys */
    for (int64_t b = 0; b <= c->batch; b++) {
        first[b] = (int32_t)(c->ragged == RAGGED_EVEN ? b * c->seqlen_q : ragged_first(c, b));
        first[count + (size_t)b] = (int32_t)(c->ragged == RAGGED_EVEN ? b * c->seqlen_k : ragged_first(c, b));
    }
    c->first = words_of(c->machine, first, 2 * count);
    free(first);
}

int cell_plan(struct cell *c, uint32_t row, char *reason, size_t reason_bytes)
{
    struct glint_problem problem;
    (c->layout == LAYOUT_BHSD ? glint_problem_bhsd : glint_problem_bshd)(
        &problem, (enum glint_dtype)c->dtype, c->batch, c->seqlen_q, c->seqlen_k, c->heads_q, c->heads_kv, c->head_dim);
    if (c->ragged) {
        const int64_t rows = c->batch * c->seqlen_q, rows_k = c->batch * c->seqlen_k;
        const int64_t longest = rows - ragged_first(c, c->batch - 1);
        (c->layout == LAYOUT_BHSD ? glint_problem_bhsd : glint_problem_bshd)(&problem, (enum glint_dtype)c->dtype, 1, rows, rows_k,
                                                                             c->heads_q, c->heads_kv, c->head_dim);
        problem.batch = c->batch;
        problem.lengths = GLINT_LENGTHS_RAGGED;
        problem.rows_q = rows;
        problem.rows_k = c->page_rows > 0 ? 0 : rows_k;
        problem.seqlen_q = c->ragged == RAGGED_EVEN ? c->seqlen_q : longest;
        problem.seqlen_k = c->ragged == RAGGED_EVEN ? c->seqlen_k : longest;
    }
    if (c->causal)
        problem.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    if (c->window > 0) {
        problem.mask = GLINT_MASK_BAND_BOTTOM_RIGHT;
        problem.window_left = c->window - 1;
    }
    problem.softcap = c->softcap;
    problem.sinks = c->sinks;
    if (c->page_rows > 0) {
        const int64_t d = c->head_dim, rows = c->page_rows;
        problem.lengths = c->ragged ? GLINT_LENGTHS_RAGGED : GLINT_LENGTHS_DEVICE;
        problem.page_rows = rows;
        problem.pages_per_sequence = pages_of(c);
        problem.pages = c->batch * problem.pages_per_sequence;
        problem.k = problem.v = c->layout == LAYOUT_BHSD ? (struct glint_strides){c->heads_kv * rows * d, rows * d, d}
                                                         : (struct glint_strides){c->heads_kv * rows * d, d, c->heads_kv * d};
    }
    problem.kv_dtype = c->kv_dtype;
    problem.kv_scales = c->kv_dtype == GLINT_I8     ? GLINT_SCALES_ROW
                        : c->kv_dtype == GLINT_E4M3 ? GLINT_SCALES_HEAD
                                                    : GLINT_SCALES_NONE;
    enum glint_pass pass = (enum glint_pass)c->pass;
    const struct glint_context *context = c->machine->context;
    enum glint_status status = row == UINT32_MAX ? glint_plan(context, &problem, pass, &c->plan)
                                                 : glint_plan_variant(context, &problem, pass, row, &c->plan);
    if (status != GLINT_OK) {
        glint_explain(context, &problem, pass, reason, reason_bytes, NULL);
        return -1;
    }
    struct glint_variant_info info = GLINT_VARIANT_INFO_INIT;
    if (glint_variant_at(c->plan.variant, &info) != GLINT_OK)
        return -1;
    c->variant = info.name;
    size_t rows = (size_t)(c->batch * c->heads_q * c->seqlen_q);
    c->o = machine_memory(c->machine, rows * c->head_dim * sizeof(float));
    c->lse = machine_memory(c->machine, rows * sizeof(float));
    if (c->page_rows > 0)
        make_table(c, problem.pages);
    if (c->ragged)
        make_first(c);
    return 0;
}

/* A float in [-1, 1) in storage of the dtype. f16: the significand is cut, and below 2^-14 becomes 0: good enough for
 * timing. */
static void store(void *to, size_t index, uint32_t dtype, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == GLINT_F32) {
        memcpy((float *)to + index, &value, sizeof value);
        return;
    }
    if (dtype == GLINT_I8 || dtype == GLINT_E4M3) { /* any bytes but e4m3's NaN */
        ((uint8_t *)to)[index] = (uint8_t)(bits >> 8);
        if (dtype == GLINT_E4M3 && (bits >> 8 & 0x7f) == 0x7f)
            ((uint8_t *)to)[index] = 0;
        return;
    }
    uint32_t half = bits >> 16;
    if (dtype == GLINT_F16) {
        uint32_t exponent = bits >> 23 & 255;
        half = exponent < 113 ? 0 : (bits >> 16 & 0x8000) | ((exponent - 112) << 10) | (bits >> 13 & 0x3ff);
    }
    uint16_t word = (uint16_t)half;
    memcpy((uint16_t *)to + index, &word, sizeof word);
}

/* Memory that all cells share; it grows when a larger cell comes. */
struct shared {
    void *memory;
    size_t elements; /* or bytes */
};

static void *shared_scratch(struct machine *m, struct shared *shared, size_t bytes)
{
    if (shared->elements < bytes) {
        machine_release(m, shared->memory);
        shared->memory = machine_memory(m, bytes);
        shared->elements = bytes;
        if (!m->device)
            memset(shared->memory, 0, bytes);
    }
    return shared->memory;
}

static void *shared_input(struct machine *m, struct shared *shared, size_t elements, uint32_t dtype, uint64_t seed)
{
    if (shared->elements >= elements)
        return shared->memory;
    const size_t bytes = elements * sizeof(float);
    void *const numbers = get_memory(bytes);
    uint64_t state = seed;
    for (size_t i = 0; i < elements; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        store(numbers, i, dtype, (float)(state >> 40) * 0x1p-23F - 1);
    }
    machine_release(m, shared->memory);
    shared->memory = numbers;
    if (m->device) {
        shared->memory = machine_memory(m, bytes);
        gpu_put(m, shared->memory, numbers, bytes);
        free(numbers);
    }
    shared->elements = elements;
    return shared->memory;
}

/* Inputs of a cell, by tensor (Q, K, V, dO) and dtype: every cell of a dtype has the same, or the first of them. */
static void *input(const struct cell *c, size_t tensor)
{
    static struct shared inputs[4][KV_SAME];
    const int of_keys = tensor == 1 || tensor == 2;
    const uint32_t dtype = of_keys && c->kv_dtype ? c->kv_dtype : c->dtype;
    const int64_t keys = c->page_rows > 0 ? pages_of(c) * c->page_rows : c->seqlen_k;
    const int64_t rows = c->batch * (of_keys ? c->heads_kv * keys : c->heads_q * c->seqlen_q);
    return shared_input(c->machine, &inputs[tensor][dtype], (size_t)rows * c->head_dim, dtype, tensor + 1);
}

/* Scales for 8-bit K and V, some hundredths each. */
static const float *scales(const struct cell *c)
{
    static struct shared numbers;
    const size_t before = numbers.elements,
                 needed = (size_t)(c->batch * c->heads_kv * (c->page_rows > 0 ? pages_of(c) * c->page_rows : c->seqlen_k));
    float *const memory = shared_input(c->machine, &numbers, needed, GLINT_F32, 9);
    for (size_t i = 0; i < numbers.elements && numbers.elements > before; i++)
        memory[i] = 0.01F * (memory[i] + 2);
    return memory;
}

/* One call, as often as it is asked for. */
struct call {
    const struct glint_plan *plan;
    struct glint_tensors tensors;
    void *workspace, *stream;
};

static enum glint_status call_again(void *what)
{
    const struct call *c = what;
    return (c->plan->pass == GLINT_FORWARD ? glint_forward : glint_backward)(c->plan, &c->tensors, c->workspace,
                                                                             c->plan->workspace_bytes, c->stream);
}

/* The forward pass of a backward cell, so that O and LSE belong to its inputs. */
static enum glint_status prepare(struct cell *c, const struct glint_tensors *tensors, struct shared *workspace)
{
    struct glint_plan forward;
    struct machine *const m = c->machine;
    enum glint_status status = glint_plan(m->context, &c->plan.problem, GLINT_FORWARD, &forward);
    if (status != GLINT_OK)
        return status;
    void *memory = shared_scratch(m, workspace, forward.workspace_bytes + 1);
    return glint_forward(&forward, tensors, memory, forward.workspace_bytes, m->stream);
}

/* Averaged over as many calls as last `least_ms`, by this machine's clock; negative when one is refused. */
static double cpu_time(struct call *call, double least_ms)
{
    double start = seconds_now(), took = 0;
    size_t calls = 0;
    while (took < least_ms) {
        if (call_again(call) != GLINT_OK)
            return -1;
        calls++;
        took = 1e3 * (seconds_now() - start);
    }
    return took / (double)calls;
}

double cell_sample(struct cell *c, double least_ms, char *reason, size_t reason_bytes)
{
    static struct shared outputs[4], workspace, sinks;
    struct machine *const m = c->machine;
    size_t q = (size_t)(c->batch * c->heads_q * c->seqlen_q) * c->head_dim,
           k = (size_t)(c->batch * c->heads_kv * c->seqlen_k) * c->head_dim;
    struct call call = {.plan = &c->plan, .tensors = GLINT_TENSORS_INIT, .stream = m->stream};
    struct glint_tensors *const t = &call.tensors;
    t->q = input(c, 0);
    t->k = input(c, 1);
    t->v = input(c, 2);
    t->o = c->o;
    if (c->kv_dtype)
        t->k_scale = t->v_scale = scales(c);
    t->lse = c->lse;
    enum glint_status status = GLINT_OK;
    if (c->page_rows > 0) {
        t->page_table = c->page_table;
        t->seqlens_k = c->lengths;
    }
    if (c->ragged)
        t->first_q = c->first;
    if (c->ragged && c->page_rows == 0)
        t->first_k = t->first_q + c->batch + 1;
    if (c->sinks)
        t->sinks = shared_input(m, &sinks, (size_t)c->heads_q, GLINT_F32, 9);
    if (c->sinks && c->pass == GLINT_BACKWARD)
        t->dsinks = shared_scratch(m, &outputs[3], (size_t)c->heads_q * sizeof(float));
    if (c->pass == GLINT_BACKWARD) {
        t->dout = input(c, 3);
        t->dq = shared_scratch(m, &outputs[0], q * sizeof(float));
        t->dk = shared_scratch(m, &outputs[1], k * sizeof(float));
        t->dv = shared_scratch(m, &outputs[2], k * sizeof(float));
        if (!c->ready)
            status = prepare(c, t, &workspace);
    }
    call.workspace = shared_scratch(m, &workspace, c->plan.workspace_bytes + 1);
    /* One call unmeasured: caches, page tables and the branch predictor see this cell, not the one before. A long call
     * needs it once. */
    int long_call = c->samples > 0 && c->ms[0] > least_ms;
    if (status == GLINT_OK && !long_call)
        status = call_again(&call);
    c->ready = 1;
    double ms = -1;
    if (status == GLINT_OK) {
        ms = m->device ? gpu_time(m, least_ms, call_again, &call) : cpu_time(&call, least_ms);
        status = ms < 0 ? call_again(&call) : GLINT_OK; /* for its name */
    }
    if (ms < 0)
        snprintf(reason, reason_bytes, "%s: %s: %s", c->variant, glint_status_name(status), glint_status_sentence(status));
    return ms;
}

double cell_flops(const struct cell *c)
{
    double flops = 4.0 * (double)c->batch * (double)c->heads_q * (double)c->seqlen_q * (double)c->seqlen_k * (double)c->head_dim;
    double q = (double)c->seqlen_q, k = (double)c->seqlen_k;
    if (c->ragged == RAGGED_UNEVEN) {
        double pairs = 0; /* over those of equal lengths */
        for (int64_t b = 0; b < c->batch; b++) {
            const double length = (double)(ragged_first(c, b + 1) - ragged_first(c, b));
            pairs += length * length / (q * k * (double)c->batch);
        }
        flops *= pairs;
    }
    double seen = !c->causal ? 1 : q <= k ? 1 - q / (2 * k) : k / (2 * q);
    if (c->window > 0 && q <= k) { /* the first queries may see fewer keys than the window has */
        const double fewer = (double)c->window > k - q ? (double)c->window - (k - q) : 0;
        seen = (q * (double)c->window - fewer * fewer / 2) / (q * k);
    }
    return flops > 0 ? flops * seen * (c->pass == GLINT_BACKWARD ? 2.5 : 1) : 0;
}

double cell_tiles(const struct cell *c)
{
    struct glint_variant_info info = GLINT_VARIANT_INFO_INIT;
    double tiles = 0;
    if (glint_variant_at(c->plan.variant, &info) != GLINT_OK)
        return 0;
    for (int64_t first = 0; first < c->seqlen_q; first += info.tile_m) {
        const int64_t behind = first + info.tile_m < c->seqlen_q ? first + info.tile_m : c->seqlen_q,
                      offset = c->seqlen_k - c->seqlen_q;
        const int64_t from = c->window > 0 && first + offset >= c->window ? first + offset - c->window + 1 : 0,
                      to = behind + offset;
        if (to > from)
            tiles += (double)((to - 1) / info.tile_n - from / info.tile_n + 1);
    }
    return tiles;
}

double cell_kv_bytes(const struct cell *c)
{
    return 2.0 * (double)(c->batch * c->heads_kv * c->seqlen_k) * (double)c->head_dim *
           (c->kv_dtype             ? 1
            : c->dtype == GLINT_F32 ? 4
                                    : 2);
}

double cell_read_sample(const struct cell *c, double least_ms)
{
    const struct machine *const m = c->machine;
    if (m->device)
        return 0;
    const size_t bytes = (size_t)cell_kv_bytes(c) / 2;
    return read_ms((enum glint_isa)m->isa, &m->executor, input(c, 1), input(c, 2), bytes, 1e-3 * least_ms);
}
