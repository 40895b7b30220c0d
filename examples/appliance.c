/* The shortest honest host of Glint: what a firmware does at power-on and for each request. All memory is one static array; after
 * start-up nothing is allocated and nothing can end the process. Requests are lines on standard input, such as
 *     forward 128 128 8 64 causal        pass, seqlen_q, seqlen_k, heads, head_dim, none | causal
 * and each gets one line of answer, also when it is refused. The tensors hold a fixed pattern; a real host would fill them in. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/glint.h"

static _Alignas(GLINT_WORKSPACE_ALIGNMENT) unsigned char memory[64u << 20];
static size_t used;

/* The next `bytes` of memory, or NULL when they are not there. */
static void *take(size_t bytes)
{
    size_t step = (bytes + GLINT_WORKSPACE_ALIGNMENT - 1) / GLINT_WORKSPACE_ALIGNMENT * GLINT_WORKSPACE_ALIGNMENT;
    if (bytes > sizeof memory || step > sizeof memory - used) return NULL;
    used += step;
    return memory + used - step;
}

static float *take_floats(int64_t count) { return count > (int64_t)sizeof memory ? NULL : take((size_t)count * sizeof(float)); }

static enum glint_status power_on(struct glint_context **context)
{
    size_t bytes = glint_context_size();
    void *storage = take(bytes);
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU; /* the tensors below are in host memory */
    enum glint_status status = storage ? glint_context_init(storage, bytes, &options, context) : GLINT_STORAGE_TOO_SMALL;
    if (status != GLINT_OK) return status;
    size_t kept = used; /* the self test's memory is free again afterwards */
    struct glint_selftest_result result = {.struct_size = sizeof result};
    status = glint_selftest_size(*context, &bytes);
    if (status == GLINT_OK) {
        void *scratch = take(bytes);
        status = scratch ? glint_selftest(*context, scratch, bytes, NULL, &result) : GLINT_WORKSPACE_TOO_SMALL;
    }
    used = kept;
    printf("self test: %u variants, %u failed, worst error %.2f of what is allowed\n", (unsigned)result.variants_run,
           (unsigned)result.variants_failed, (double)result.worst_error);
    return status;
}

static void fill(float *x, int64_t count, float phase)
{
    for (int64_t i = 0; i < count; i++) x[i] = sinf(phase + 0.37F * (float)i);
}

/* Runs one planned request in the memory that is left, and prints its answer. */
static enum glint_status serve(const struct glint_plan *forward, const struct glint_plan *backward)
{
    const struct glint_problem *p = &forward->problem;
    int64_t q = p->heads_q * p->seqlen_q * p->head_dim, k = p->heads_kv * p->seqlen_k * p->head_dim;
    size_t bytes = forward->workspace_bytes;
    if (backward && backward->workspace_bytes > bytes) bytes = backward->workspace_bytes;
    struct glint_tensors t = GLINT_TENSORS_INIT;
    float *in[4] = {take_floats(q), take_floats(k), take_floats(k), take_floats(q)}, *o = take_floats(q);
    float *dq = take_floats(q), *dk = take_floats(k), *dv = take_floats(k);
    void *workspace = take(bytes);
    t.lse = take_floats(p->heads_q * p->seqlen_q);
    if (!in[0] || !in[1] || !in[2] || !in[3] || !o || !dq || !dk || !dv || !t.lse || !workspace) {
        printf("refused: the request does not fit into %zu bytes\n", sizeof memory);
        return GLINT_OK;
    }
    for (int i = 0; i < 4; i++) fill(in[i], i == 1 || i == 2 ? k : q, (float)i);
    t.q = in[0], t.k = in[1], t.v = in[2], t.dout = in[3], t.o = o, t.dq = dq, t.dk = dk, t.dv = dv;
    enum glint_status status = glint_forward(forward, &t, workspace, bytes, NULL);
    if (status == GLINT_OK && backward) status = glint_backward(backward, &t, workspace, bytes, NULL);
    if (status != GLINT_OK) return status;
    double sum = 0;
    for (int64_t i = 0; i < q; i++) sum += (double)(backward ? dq[i] : o[i]);
    printf("done: sum of %s = %.6f, workspace %zu bytes\n", backward ? "dq" : "o", sum, bytes);
    return GLINT_OK;
}

/* A request that a human or a peer got wrong must cost one line of explanation, never the process. */
static void answer(const struct glint_context *context, const char *line)
{
    char pass[16], mask[16], text[512];
    long long sq, sk, heads, head_dim;
    struct glint_problem problem;
    struct glint_plan forward, backward;
    if (sscanf(line, "%15s %lld %lld %lld %lld %15s", pass, &sq, &sk, &heads, &head_dim, mask) != 6) {
        printf("refused: expected: forward|backward seqlen_q seqlen_k heads head_dim none|causal\n");
        return;
    }
    int wants_backward = strcmp(pass, "backward") == 0;
    glint_problem_bshd(&problem, GLINT_F32, 1, sq, sk, heads, heads, head_dim);
    if (strcmp(mask, "causal") == 0) problem.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    enum glint_pass asked = GLINT_FORWARD;
    enum glint_status status = glint_plan(context, &problem, asked, &forward);
    if (status == GLINT_OK && wants_backward) status = glint_plan(context, &problem, asked = GLINT_BACKWARD, &backward);
    if (status != GLINT_OK) {
        glint_explain(context, &problem, asked, text, sizeof text, NULL);
        printf("refused: %s\n%s\n", glint_status_name(status), text);
        return;
    }
    size_t kept = used;
    status = serve(&forward, wants_backward ? &backward : NULL);
    used = kept; /* a request's tensors live until its answer */
    if (status != GLINT_OK) printf("failed: %s: %s\n", glint_status_name(status), glint_status_sentence(status));
}

int main(void)
{
    struct glint_context *context = NULL;
    enum glint_status status = power_on(&context);
    if (status != GLINT_OK) {
        printf("not starting: %s: %s\n", glint_status_name(status), glint_status_sentence(status));
        return 1;
    }
    char line[128];
    while (fgets(line, sizeof line, stdin)) answer(context, line);
    return glint_context_close(context) == GLINT_OK ? 0 : 1;
}
