/* The shortest honest host of Glint: what a firmware does at power-on and for each request, on the CPU or, with the
 * argument `cuda`, on a GPU. All memory is taken at the start. Requests are lines on standard input, such as
 *     forward 128 128 8 64 causal        pass, seqlen_q, seqlen_k, heads, head_dim, none | causal
 * and each gets one line of answer, also when it is refused. The tensors hold a fixed pattern in place of a host's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "examples/common/memory.h"
#include "lib/glint.h"

static _Alignas(GLINT_WORKSPACE_ALIGNMENT) unsigned char array[64u << 20];
static struct memory memory = {array, array, sizeof array, 0, {0}};

static enum glint_status power_on(struct glint_context **context, int on_gpu)
{
    size_t bytes = glint_context_size();
    void *storage = memory_take(&memory, bytes); /* in host memory in any case */
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = on_gpu ? GLINT_DEVICE_CUDA_CURRENT : GLINT_DEVICE_CPU;
    if (on_gpu && memory_open_gpu(&memory) != 0)
        return printf("%s\n", memory.gpu.reason), GLINT_NO_DEVICE;
    enum glint_status status = storage ? glint_context_init(storage, bytes, &options, context) : GLINT_STORAGE_TOO_SMALL;
    if (status != GLINT_OK)
        return status;
    size_t kept = memory.used;
    struct glint_selftest_result result = GLINT_SELFTEST_RESULT_INIT;
    status = glint_selftest_size(*context, &bytes);
    if (status == GLINT_OK)
        status = glint_selftest(*context, memory_take(&memory, bytes), bytes, NULL, &result); /* NULL is refused */
    memory.used = kept;
    printf("self test: %u variants on %s, %u failed, worst error %.2f of what is allowed\n", (unsigned)result.variants_run,
           on_gpu ? memory.gpu.name : "the CPU", (unsigned)result.variants_failed, (double)result.worst_error);
    return status;
}

/* Runs one planned request in the memory that is left, and prints its answer. `backward` may be NULL. */
static enum glint_status serve(const struct glint_plan *forward, const struct glint_plan *backward)
{
    enum tensor { Q, K, V, DOUT, O, DQ, DK, DV, TENSORS };
    const struct glint_problem *p = &forward->problem;
    size_t q = (size_t)(p->heads_q * p->seqlen_q * p->head_dim), k = (size_t)(p->heads_kv * p->seqlen_k * p->head_dim);
    const size_t floats[TENSORS] = {q, k, k, q, q, q, k, k};
    size_t bytes =
        backward && backward->workspace_bytes > forward->workspace_bytes ? backward->workspace_bytes : forward->workspace_bytes;
    void *workspace = memory_take(&memory, bytes);
    float *x[TENSORS], *lse = memory_take(&memory, (size_t)(p->heads_q * p->seqlen_q) * sizeof *lse), *host;
    int fits = workspace && lse, failed = 0;
    for (int i = 0; i < TENSORS; i++) {
        x[i] = floats[i] > memory.bytes ? NULL : memory_take(&memory, floats[i] * sizeof *x[i]);
        fits = fits && x[i];
        host = fits ? memory_host(&memory, x[i]) : NULL;
        for (size_t j = 0; fits && i <= DOUT && j < floats[i]; j++)
            host[j] = sinf((float)i + 0.37F * (float)j);
        failed |= fits && i <= DOUT && memory_put(&memory, x[i], floats[i] * sizeof *x[i]) != 0;
    }
    if (!fits)
        return printf("refused: the request does not fit into %zu bytes\n", memory.bytes), GLINT_OK;
    struct glint_tensors t = GLINT_TENSORS_INIT;
    t.q = x[Q], t.k = x[K], t.v = x[V], t.o = x[O], t.lse = lse, t.dout = x[DOUT], t.dq = x[DQ], t.dk = x[DK], t.dv = x[DV];
    enum glint_status status = failed ? GLINT_DRIVER_ERROR : glint_forward(forward, &t, workspace, bytes, NULL);
    if (status == GLINT_OK && backward)
        status = glint_backward(backward, &t, workspace, bytes, NULL);
    if (status == GLINT_OK && memory_get(&memory, x[backward ? DQ : O], q * sizeof(float)) != 0)
        status = GLINT_DRIVER_ERROR;
    host = memory_host(&memory, x[backward ? DQ : O]);
    double sum = 0;
    for (size_t i = 0; i < q; i++)
        sum += (double)host[i];
    if (status == GLINT_OK)
        printf("done: sum of %s = %.6f, workspace %zu bytes\n", backward ? "dq" : "o", sum, bytes);
    return status;
}

/* A request that a human or a peer got wrong must cost one line of explanation, never the process. */
static void answer(const struct glint_context *context, const char *line)
{
    char pass[16], mask[16], text[512];
    long long sq, sk, heads, head_dim;
    struct glint_problem problem;
    struct glint_plan forward, backward;
    int words = sscanf(line, "%15s %lld %lld %lld %lld %15s", pass, &sq, &sk, &heads, &head_dim, mask);
    int wants_backward = words == 6 && strcmp(pass, "backward") == 0, causal = words == 6 && strcmp(mask, "causal") == 0;
    if (words != 6 || (!wants_backward && strcmp(pass, "forward") != 0) || (!causal && strcmp(mask, "none") != 0)) {
        printf("refused: expected: forward|backward seqlen_q seqlen_k heads head_dim none|causal\n");
        return;
    }
    glint_problem_bshd(&problem, GLINT_F32, 1, sq, sk, heads, heads, head_dim);
    problem.mask = causal ? GLINT_MASK_CAUSAL_BOTTOM_RIGHT : GLINT_MASK_NONE;
    enum glint_pass asked = GLINT_FORWARD;
    enum glint_status status = glint_plan(context, &problem, asked, &forward);
    if (status == GLINT_OK && wants_backward)
        status = glint_plan(context, &problem, asked = GLINT_BACKWARD, &backward);
    if (status != GLINT_OK) {
        glint_explain(context, &problem, asked, text, sizeof text, NULL);
        printf("refused: %s\n", text);
        return;
    }
    size_t kept = memory.used;
    status = serve(&forward, wants_backward ? &backward : NULL);
    memory.used = kept; /* a request's tensors live until its answer */
    if (status != GLINT_OK)
        printf("failed: %s: %s\n", glint_status_name(status), glint_status_sentence(status));
}

int main(int count, char **arguments)
{
    struct glint_context *context = NULL;
    enum glint_status status = power_on(&context, count == 2 && strcmp(arguments[1], "cuda") == 0);
    if (status != GLINT_OK) {
        printf("not starting: %s: %s\n", glint_status_name(status), glint_status_sentence(status));
        return 1;
    }
    for (char line[128]; scanf(" %127[^\n]%*[^\n]", line) == 1; fflush(stdout)) /* the rest of a longer line is dropped */
        answer(context, line);
    status = glint_context_close(context);
    gpu_close(&memory.gpu);
    return status == GLINT_OK ? 0 : 1;
}
