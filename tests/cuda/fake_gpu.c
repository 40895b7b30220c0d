/* The fake driver grown into a GPU that pretends: memory, streams, graphs and events over host memory, and kernels that
 * fill their outputs with a pattern of their inputs instead of computing attention. Linked with on_device.c it shows
 * that those checks pass where they should and fail where they should: FAKE_GPU_FAULT names one thing that goes wrong
 * (the table `faults` below). With FAKE_GPU_IDLE=1 kernels do nothing, and quickly. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/device.h"
#include "tests/cuda/fake_driver.h"

enum { INVALID_VALUE = 1, GRAPH_NODES = 64, TOTAL = 1 << 30 };

struct node {
    bool is_set; /* else a launch */
    struct fake_set set;
    struct fake_launch launch;
};
struct CUgraph_st {
    int count;
    struct node nodes[GRAPH_NODES];
};
struct CUgraphExec_st {
    struct CUgraph_st graph;
};

static struct CUstream_st *capturing;
static struct CUgraph_st captured;
static unsigned long launched;
static size_t used;

static const struct {
    const char *name, *what;
} faults[] = {
    {"leak", "a launch keeps device memory"},
    {"heap", "a launch keeps host memory"},
    {"replay", "a replay does not read the inputs again"},
    {"stale", "a replay has the lengths of the first call"},
    {"workspace", "an output depends on what the workspace held"},
    {"output", "an element of an output is not written"},
    {"outside", "a byte behind an output is written"},
    {"flicker", "every 100th launch gives another bit"},
    {"slow", "a launch takes 20 microseconds"},
    {"deaf", "a launch that faulted is not heard of"},
    {"counter", "words that kernels count in are not cleared"},
};
static bool in_replay;
static bool broken; /* a kernel has read an address that nobody has mapped */

static bool has_fault(const char *name)
{
    const char *fault = getenv("FAKE_GPU_FAULT");
    return fault && strcmp(fault, name) == 0;
}

/* ---- kernels ---- */

static int64_t row_bytes; /* head_dim * bytes of an element: from the row stride, as on_device.c lays tensors out */

static unsigned char *row_of(const struct glint_gpu_view *view, int64_t element, int64_t batch, int64_t head, int64_t row)
{
    return (unsigned char *)view->address + element * (batch * view->batch + head * view->head + row * view->row);
}

/* to = the bytes of one tensor, changed by a byte of another, so that both matter. */
static void mix(const struct glint_gpu_view *to, const struct glint_gpu_view *from, const unsigned char *other,
                const struct glint_gpu_shape *s, int heads, int rows, unsigned char extra)
{
    const int64_t element = 2;
    row_bytes = element * to->head;
    for (int b = 0; b < s->batch; b++)
        for (int h = 0; h < heads; h++)
            for (int r = 0; r < rows; r++)
                for (int64_t i = has_fault("output") && r == 0; i < row_bytes; i++)
                    row_of(to, element, b, h, r)[i] = (unsigned char)((row_of(from, element, b, h, r)[i] ^ other[i]) + extra);
    if (has_fault("outside") && rows > 0)
        row_of(to, element, s->batch - 1, heads - 1, rows - 1)[row_bytes] = 1;
}

static void carry_out(const struct fake_launch *l)
{
    if (getenv("FAKE_GPU_IDLE"))
        return;
    if ((uintptr_t)l->params.call.q.address == UINT64_C(1) << 46) {
        broken = !has_fault("deaf");
        fake.fault_entry = broken ? FAKE_launch : -1;
        fake.fault_at = fake.calls[FAKE_launch];
        fake.fault_result = GLINT_CU_ILLEGAL_ADDRESS;
        fake.fault_forever = true;
        return;
    }
    unsigned char extra = has_fault("flicker") && launched % 100 == 50;
    launched++;
    const bool maps_forward = strcmp(l->entry, "maps_forward") == 0, maps_backward = strcmp(l->entry, "maps_dq") == 0;
    const uint32_t *words = maps_forward || maps_backward ? l->params.call.words : NULL;
    if (words)
        extra = (unsigned char)(extra + *words);
    if (maps_forward || strcmp(l->entry, "plain") == 0 || strcmp(l->entry, "capped") == 0 || strcmp(l->entry, "causal") == 0 ||
        strcmp(l->entry, "much") == 0 || strcmp(l->entry, "both") == 0) {
        const struct glint_gpu_call *p = &l->params.call;
        mix(&p->o, &p->q, p->k.address, &p->shape, p->shape.heads_q, p->shape.seqlen_q, extra);
        for (int i = 0; i < p->shape.batch * p->shape.heads_q * p->shape.seqlen_q; i++)
            p->lse[i] = p->shape.softmax_scale;
    } else if (strcmp(l->entry, l->params.decode.level == GLINT_DECODE_ROW ? "decode" : "decode_merge") == 0) {
        const struct glint_decode_params *p = &l->params.decode;
        static unsigned char first;
        unsigned char lengths = 0;
        for (int i = 0; i < p->shape.batch && p->sequences.seqlens_k; i++)
            lengths = (unsigned char)(lengths * 31 + p->sequences.seqlens_k[i] +
                                      (p->sequences.seqlens_q ? 7 * p->sequences.seqlens_q[i] : 0));
        first = first ? first : lengths;
        extra = (unsigned char)(extra + (has_fault("stale") && in_replay ? first : lengths));
        mix(&p->o, &p->q, p->k.address, &p->shape, p->shape.heads_q, p->shape.seqlen_q, extra);
        for (int i = 0; i < p->shape.batch * p->shape.heads_q * p->shape.seqlen_q; i++)
            p->lse[i] = p->shape.softmax_scale;
    } else if (maps_backward || strcmp(l->entry, "split_dq") == 0 || strcmp(l->entry, "fused_dq") == 0) {
        const struct glint_gpu_call *p = &l->params.call;
        if (has_fault("workspace"))
            extra = *(unsigned char *)p->delta;
        mix(&p->dq, &p->dout, p->k.address, &p->shape, p->shape.heads_q, p->shape.seqlen_q, extra);
        mix(&p->dk, &p->k, p->dout.address, &p->shape, p->shape.heads_kv, p->shape.seqlen_k, 0);
        mix(&p->dv, &p->v, p->dout.address, &p->shape, p->shape.heads_kv, p->shape.seqlen_k, 0);
    }
}

static void wait_for(double seconds)
{
    struct timespec from, now;
    timespec_get(&from, TIME_UTC);
    do
        timespec_get(&now, TIME_UTC);
    while ((double)(now.tv_sec - from.tv_sec) + 1e-9 * (double)(now.tv_nsec - from.tv_nsec) < seconds);
}

static void execute(const struct fake_launch *l)
{
    if (has_fault("leak"))
        used += 512;
    if (has_fault("heap") && !malloc(64))
        exit(EXIT_FAILURE);
    if (has_fault("slow"))
        wait_for(20e-6);
    if (capturing && l->stream == capturing) {
        if (captured.count < GRAPH_NODES)
            captured.nodes[captured.count++] = (struct node){.launch = *l};
        return;
    }
    carry_out(l);
}

static void carry_out_set(const struct fake_set *set)
{
    for (size_t i = 0; i < set->words && !has_fault("counter"); i++)
        set->to[i] = set->value;
}

static void execute_set(const struct fake_set *set)
{
    if (capturing && set->stream == capturing) {
        if (captured.count < GRAPH_NODES)
            captured.nodes[captured.count++] = (struct node){.is_set = true, .set = *set};
        return;
    }
    carry_out_set(set);
}

/* ---- entries that only tests use ---- */

static glint_cu_result driver_version(int *version)
{
    *version = 0;
    return 0;
}

static glint_cu_result device_name(char *name, int bytes, glint_cu_device device)
{
    snprintf(name, (size_t)bytes, "a pretended GPU %d", device);
    return 0;
}

static glint_cu_result context_set(glint_cu_context context)
{
    fake_set_current(context);
    return 0;
}

static glint_cu_result context_synchronize(void)
{
    return broken ? GLINT_CU_ILLEGAL_ADDRESS : fake_current() ? 0 : 201;
}

static glint_cu_result memory_info(size_t *free_bytes, size_t *total_bytes)
{
    *total_bytes = TOTAL;
    *free_bytes = TOTAL - used;
    return 0;
}

static glint_cu_result memory_alloc(glint_cu_address *address, size_t bytes)
{
    void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    *address = (glint_cu_address)(uintptr_t)memory;
    return memory ? 0 : 2;
}

static glint_cu_result memory_free(glint_cu_address address)
{
    free((void *)(uintptr_t)address);
    return 0;
}

static glint_cu_result memory_set(glint_cu_address address, unsigned char value, size_t bytes, glint_cu_stream stream)
{
    (void)stream;
    memset((void *)(uintptr_t)address, value, bytes);
    return 0;
}

static glint_cu_result copy_to_device(glint_cu_address to, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

static glint_cu_result copy_to_host(void *to, glint_cu_address from, size_t bytes)
{
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

static char handles[16];
static int next_handle;

static glint_cu_result stream_create(glint_cu_stream *stream, unsigned int flags)
{
    (void)flags;
    *stream = (glint_cu_stream)(void *)&handles[next_handle++ % 16];
    return 0;
}

static glint_cu_result stream_destroy(glint_cu_stream stream)
{
    (void)stream;
    return 0;
}

static glint_cu_result capture_begin(glint_cu_stream stream, unsigned int mode)
{
    (void)mode;
    capturing = stream;
    captured.count = 0;
    return 0;
}

static glint_cu_result capture_end(glint_cu_stream stream, glint_cu_graph *graph)
{
    if (stream != capturing)
        return INVALID_VALUE;
    capturing = NULL;
    *graph = &captured;
    return 0;
}

static glint_cu_result graph_instantiate(glint_cu_replay *replay, glint_cu_graph graph, unsigned long long flags)
{
    (void)flags;
    *replay = aligned_alloc(_Alignof(struct CUgraphExec_st), sizeof **replay); /* a tensor map in it wants 64 bytes */
    if (!*replay)
        return 2;
    (*replay)->graph = *graph;
    return 0;
}

static glint_cu_result graph_launch(glint_cu_replay replay, glint_cu_stream stream)
{
    static int replays;
    (void)stream;
    if (has_fault("replay") && replays++ > 0)
        return 0;
    in_replay = true;
    for (int i = 0; i < replay->graph.count; i++) {
        const struct node *node = &replay->graph.nodes[i];
        if (node->is_set)
            carry_out_set(&node->set);
        else
            carry_out(&node->launch);
    }
    in_replay = false;
    return 0;
}

static glint_cu_result replay_destroy(glint_cu_replay replay)
{
    free(replay);
    return 0;
}

static glint_cu_result graph_destroy(glint_cu_graph graph)
{
    (void)graph;
    return 0;
}

/* Events remember when they were recorded: work is done by then. */
struct CUevent_st {
    struct timespec at;
};

static glint_cu_result event_create(glint_cu_event *event, unsigned int flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    return *event ? 0 : 2;
}

static glint_cu_result event_destroy(glint_cu_event event)
{
    free(event);
    return 0;
}

static glint_cu_result event_record(glint_cu_event event, glint_cu_stream stream)
{
    (void)stream;
    return timespec_get(&event->at, TIME_UTC) == TIME_UTC ? 0 : INVALID_VALUE;
}

static glint_cu_result event_synchronize(glint_cu_event event)
{
    return event->at.tv_sec != 0 ? 0 : INVALID_VALUE;
}

static glint_cu_result event_elapsed(float *milliseconds, glint_cu_event from, glint_cu_event to)
{
    *milliseconds = (float)(1e3 * (double)(to->at.tv_sec - from->at.tv_sec) + 1e-6 * (double)(to->at.tv_nsec - from->at.tv_nsec));
    return 0;
}

static void *elsewhere(const char *symbol)
{
    static const struct {
        const char *symbol;
        void (*function)(void);
    } entries[] = {
#define E(symbol, function) {#symbol, (void (*)(void))function}
        E(cuDriverGetVersion, driver_version),
        E(cuDeviceGetName, device_name),
        E(cuCtxSetCurrent, context_set),
        E(cuCtxSynchronize, context_synchronize),
        E(cuMemGetInfo_v2, memory_info),
        E(cuMemAlloc_v2, memory_alloc),
        E(cuMemFree_v2, memory_free),
        E(cuMemsetD8Async, memory_set),
        E(cuMemcpyHtoD_v2, copy_to_device),
        E(cuMemcpyDtoH_v2, copy_to_host),
        E(cuStreamCreate, stream_create),
        E(cuStreamDestroy_v2, stream_destroy),
        E(cuStreamBeginCapture_v2, capture_begin),
        E(cuStreamEndCapture, capture_end),
        E(cuGraphInstantiateWithFlags, graph_instantiate),
        E(cuGraphLaunch, graph_launch),
        E(cuGraphExecDestroy, replay_destroy),
        E(cuGraphDestroy, graph_destroy),
        E(cuEventCreate, event_create),
        E(cuEventDestroy_v2, event_destroy),
        E(cuEventRecord, event_record),
        E(cuEventSynchronize, event_synchronize),
        E(cuEventElapsedTime, event_elapsed),
#undef E
    };
    void *address = NULL;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        if (strcmp(symbol, entries[i].symbol) == 0)
            memcpy(&address, &entries[i].function, sizeof address);
    return address;
}

/* Before main: on_device.c knows nothing of a fake. */
__attribute__((constructor)) static void set_up(void)
{
    fake_reset();
    fake.devices = 2;
    fake.execute = execute;
    fake.execute_set = execute_set;
    fake.symbol_elsewhere = elsewhere;
    const char *fault = getenv("FAKE_GPU_FAULT");
    bool found = !fault;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        found = found || strcmp(fault, faults[i].name) == 0;
    if (!found)
        exit(2);
}
