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
    if (bytes > sizeof memory || step > sizeof memory - used)
        return NULL;
    used += step;
    return memory + used - step;
}

static enum glint_status power_on(struct glint_context **context)
{
    size_t bytes = glint_context_size();
    void *storage = take(bytes);
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU; /* the tensors below are in host memory */
    enum glint_status status = storage ? glint_context_init(storage, bytes, &options, context) : GLINT_STORAGE_TOO_SMALL;
    if (status != GLINT_OK)
        return status;
    size_t kept = used;
    struct glint_selftest_result result = GLINT_SELFTEST_RESULT_INIT;
    status = glint_selftest_size(*context, &bytes);
    if (status == GLINT_OK)
        status = glint_selftest(*context, take(bytes), bytes, NULL, &result); /* NULL, where nothing is left, is refused */
    used = kept;
    printf("self test: %u variants, %u failed, worst error %.2f of what is allowed\n", (unsigned)result.variants_run,
           (unsigned)result.variants_failed, (double)result.worst_error);
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
    void *workspace = take(bytes);
    float *x[TENSORS], *lse = take((size_t)(p->heads_q * p->seqlen_q) * sizeof *lse);
    int fits = workspace && lse;
    for (int i = 0; i < TENSORS; i++) {
        x[i] = floats[i] > sizeof memory ? NULL : take(floats[i] * sizeof *x[i]);
        fits = fits && x[i];
        for (size_t j = 0; fits && i <= DOUT && j < floats[i]; j++)
            x[i][j] = sinf((float)i + 0.37F * (float)j);
    }
    if (!fits)
        return printf("refused: the request does not fit into %zu bytes\n", sizeof memory), GLINT_OK;
    struct glint_tensors t = {sizeof t, 0, x[Q], x[K], x[V], x[O], lse, x[DOUT], x[DQ], x[DK], x[DV]};
    enum glint_status status = glint_forward(forward, &t, workspace, bytes, NULL);
    if (status == GLINT_OK && backward)
        status = glint_backward(backward, &t, workspace, bytes, NULL);
    double sum = 0;
    for (size_t i = 0; i < q; i++)
        sum += (double)x[backward ? DQ : O][i];
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
    if (sscanf(line, "%15s %lld %lld %lld %lld %15s", pass, &sq, &sk, &heads, &head_dim, mask) != 6) {
        printf("refused: expected: forward|backward seqlen_q seqlen_k heads head_dim none|causal\n");
        return;
    }
    int wants_backward = strcmp(pass, "backward") == 0;
    glint_problem_bshd(&problem, GLINT_F32, 1, sq, sk, heads, heads, head_dim);
    if (strcmp(mask, "causal") == 0)
        problem.mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    enum glint_pass asked = GLINT_FORWARD;
    enum glint_status status = glint_plan(context, &problem, asked, &forward);
    if (status == GLINT_OK && wants_backward)
        status = glint_plan(context, &problem, asked = GLINT_BACKWARD, &backward);
    if (status != GLINT_OK) {
        glint_explain(context, &problem, asked, text, sizeof text, NULL);
        printf("refused: %s\n", text);
        return;
    }
    size_t kept = used;
    status = serve(&forward, wants_backward ? &backward : NULL);
    used = kept; /* a request's tensors live until its answer */
    if (status != GLINT_OK)
        printf("failed: %s: %s\n", glint_status_name(status), glint_status_sentence(status));
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
    while (fgets(line, sizeof line, stdin))
        answer(context, line);
    return glint_context_close(context) == GLINT_OK ? 0 : 1;
}
