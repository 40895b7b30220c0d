/* case IN OUT: one problem through the C API, from a file and into one. attention.py writes the one and reads the
 * other.
 *
 *   IN    a line of `name=value` words, as in struct glint_problem, and then, in the machine's order of bytes, the
 *         tensors: Q, K, V, and with lengths=1 seqlens_k. All are [batch, heads, seqlen, head_dim] or, with
 *         layout=bshd, [batch, seqlen, heads, head_dim]
 *   OUT   O, laid out as Q is, and LSE [batch, heads_q, seqlen_q]
 *
 * Exit status: 0 done; 3 refused by glint_plan, with its explanation on standard output; 1 anything else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/glint.h"

static int fail(const char *what)
{
    fprintf(stderr, "case: %s\n", what);
    return 1;
}

static double number(const char *line, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = line; (at = strstr(at, name)) != NULL; at += length)
        if ((at == line || at[-1] == ' ') && at[length] == '=')
            return strtod(at + length + 1, NULL);
    return 0;
}

int main(int count, char **arguments)
{
    static char line[1024], text[4096];
    FILE *in = count == 3 ? fopen(arguments[1], "rb") : NULL;
    if (!in || !fgets(line, sizeof line, in))
        return fail("case IN OUT");

    struct glint_problem p;
    (strstr(line, "layout=bshd") ? glint_problem_bshd : glint_problem_bhsd)(
        &p, (enum glint_dtype)number(line, "dtype"), (int64_t)number(line, "batch"), (int64_t)number(line, "seqlen_q"),
        (int64_t)number(line, "seqlen_k"), (int64_t)number(line, "heads_q"), (int64_t)number(line, "heads_kv"),
        (int64_t)number(line, "head_dim"));
    p.mask = (uint32_t)number(line, "mask");
    p.softmax_scale = (float)number(line, "softmax_scale");
    p.window_left = (int64_t)number(line, "window_left");
    p.window_right = (int64_t)number(line, "window_right");
    p.lengths = (uint32_t)number(line, "lengths");
    p.softcap = (float)number(line, "softcap");

    const size_t bytes = p.dtype == GLINT_F32 ? 4 : 2;
    const size_t q_bytes = (size_t)(p.batch * p.heads_q * p.seqlen_q * p.head_dim) * bytes;
    const size_t k_bytes = (size_t)(p.batch * p.heads_kv * p.seqlen_k * p.head_dim) * bytes;
    const size_t lse_bytes = (size_t)(p.batch * p.heads_q * p.seqlen_q) * sizeof(float),
                 lengths_bytes = (size_t)p.batch * sizeof(int32_t);
    void *q = malloc(q_bytes), *k = malloc(k_bytes), *v = malloc(k_bytes), *o = malloc(q_bytes), *lse = malloc(lse_bytes);
    int32_t *lengths = malloc(lengths_bytes);
    void *storage = aligned_alloc(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
    if (!q || !k || !v || !o || !lse || !lengths || !storage)
        return fail("no memory");
    if (fread(q, 1, q_bytes, in) != q_bytes || fread(k, 1, k_bytes, in) != k_bytes || fread(v, 1, k_bytes, in) != k_bytes ||
        (p.lengths == GLINT_LENGTHS_DEVICE && fread(lengths, 1, lengths_bytes, in) != lengths_bytes) || fgetc(in) != EOF)
        return fail("the file does not have the bytes that its first line says");
    fclose(in);

    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU;
    struct glint_context *context;
    struct glint_plan plan;
    if (glint_context_init(storage, glint_context_size(), &options, &context) != GLINT_OK)
        return fail("glint_context_init");
    if (glint_plan(context, &p, GLINT_FORWARD, &plan) != GLINT_OK) {
        glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL);
        fputs(text, stdout);
        return 3;
    }
    const size_t room = (plan.workspace_bytes + GLINT_WORKSPACE_ALIGNMENT) / GLINT_WORKSPACE_ALIGNMENT * GLINT_WORKSPACE_ALIGNMENT;
    void *workspace = aligned_alloc(GLINT_WORKSPACE_ALIGNMENT, room);
    struct glint_tensors tensors = GLINT_TENSORS_INIT;
    tensors.q = q;
    tensors.k = k;
    tensors.v = v;
    tensors.o = o;
    tensors.lse = lse;
    tensors.seqlens_k = p.lengths == GLINT_LENGTHS_DEVICE ? lengths : NULL;
    const enum glint_status status =
        workspace ? glint_forward(&plan, &tensors, workspace, plan.workspace_bytes, NULL) : GLINT_WORKSPACE_TOO_SMALL;
    if (status != GLINT_OK)
        return fail(glint_status_sentence(status));

    FILE *out = fopen(arguments[2], "wb");
    if (!out || fwrite(o, 1, q_bytes, out) != q_bytes || fwrite(lse, 1, lse_bytes, out) != lse_bytes || fclose(out) != 0)
        return fail("cannot write");
    free(q);
    free(k);
    free(v);
    free(o);
    free(lse);
    free(lengths);
    free(workspace);
    free(storage);
    return 0;
}
