/* Bits of rows of a CPU, as bits.txt keeps them: no compiler, and no change that means to change none, makes others.
 *
 * bits bits.txt judges the rows that run here; without an argument it prints their lines. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

/* Queries and keys of a sequence: beyond whole tiles, and fewer than one. */
static const int64_t shapes[][2] = {{5, 9}, {81, 133}, {145, 549}, {1, 777}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static uint64_t fnv(uint64_t sum, const void *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ ((const unsigned char *)memory)[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* A number of all that the row writes for a shape. */
static uint64_t bits_of(const struct glint_context *context, const struct glint_variant_info *info, uint32_t row, int shape)
{
    struct glint_problem p;
    struct call c;
    const bool backward = info->pass == GLINT_BACKWARD;
    glint_problem_bshd(&p, (enum glint_dtype)info->dtype, 2, shapes[shape][0], shapes[shape][1], 4, 2, info->head_dim);
    serve_cache(&p, info);
    p.mask = row_mask(info, true);
    p.softmax_scale = 0.37f;
    p.softcap = strstr(info->name, "softcap") && shape != 1 ? 3.0f : 0.0f;
    p.sinks = shape == 2;
    call_make(&c, context, &p, (enum glint_pass)info->pass, (uint64_t)shape);
    /* Not those of a forward row, which is another one on another CPU. */
    for (size_t i = 0; backward && i < c.bytes[LSE] / sizeof(float); i++)
        memcpy(c.block + c.offset[LSE] + i * sizeof(float), &(float){4}, sizeof(float));
    EXPECT(glint_plan_variant(context, &p, (enum glint_pass)info->pass, row, &c.plan) == GLINT_OK, "%s", info->name);
    void *const planned = c.workspace;
    c.workspace_bytes = c.plan.workspace_bytes;
    c.workspace = aligned_memory(GLINT_WORKSPACE_ALIGNMENT, c.workspace_bytes);
    EXPECT(call_run(&c) == GLINT_OK, "%s", info->name);
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (int t = backward ? DQ : O; t <= (backward ? (int)DV : (int)LSE); t++)
        sum = fnv(sum, c.block + c.offset[t], c.bytes[t]);
    free(c.workspace);
    c.workspace = planned;
    call_free(&c);
    return sum;
}

/* Is the line one of the file's? */
static bool has(FILE *file, const char *line)
{
    char one[256];
    rewind(file);
    while (fgets(one, sizeof one, file))
        if (strcmp(one, line) == 0)
            return true;
    return false;
}

static const char *path; /* of bits.txt, or NULL */

static void rows_have_their_bits(void)
{
    void *storage;
    struct counting counting;
    struct glint_context *const context = open_context(&counting, 2, &storage);
    FILE *const file = path ? fopen(path, "r") : NULL;
    EXPECT(file || !path, "no file %s", path);
    int judged = 0, wrong = 0;
    for (uint32_t row = 0; row < glint_variant_count(); row++) {
        const struct glint_variant_info info = row_at(row);
        for (int shape = 0; row_serves(context, row) && shape < SHAPES; shape++, judged++) {
            char line[256];
            snprintf(line, sizeof line, "%s %dx%d %016" PRIx64 "\n", info.name, (int)shapes[shape][0], (int)shapes[shape][1],
                     bits_of(context, &info, row, shape));
            const bool right = file && has(file, line);
            if (!right)
                fputs(line, stdout);
            wrong += file && !right;
        }
    }
    EXPECT(judged > 0, "no row runs here");
    EXPECT(wrong == 0, "%d of %d calls have other bits than %s says, or are not in it", wrong, judged, path);
    if (file)
        fclose(file);
    free(storage);
}

static const struct contract_case cases[] = {{"rows_have_their_bits", rows_have_their_bits, 120}};

int main(int argc, char **argv)
{
    path = argc > 1 ? argv[1] : NULL;
    return contract_run("bits", cases, 1, 1, argv);
}
