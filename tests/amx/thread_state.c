/* What a call leaves of the tiles that a thread had configured, and when glint_plan takes a row for AMX. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/glint.h"
#include "tests/amx/instructions.h"

static int failures;

#define EXPECT(condition, ...)                                                                    \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition), printf(__VA_ARGS__), puts(""); \
            failures++;                                                                           \
        }                                                                                         \
    } while (0)

static _Alignas(64) unsigned char storage[1 << 14];

static void in_turn(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument)
{
    (void)user;
    for (uint32_t i = 0; i < count; i++)
        body(argument, i);
}

static struct glint_context *opened(uint32_t amx, uint32_t max_isa, uint32_t concurrency)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    options.device = GLINT_DEVICE_CPU;
    options.amx = amx;
    options.max_isa = max_isa;
    options.executor = (struct glint_executor){sizeof options.executor, concurrency, in_turn, NULL};
    EXPECT(glint_context_size() <= sizeof storage && glint_context_init(storage, sizeof storage, &options, &context) == GLINT_OK,
           "a context");
    return context;
}

enum { MOST_ROWS = 1100 };

/* A problem of row i. Decode takes few queries, and splits more keys than a chunk has where there are several
 * threads. */
static struct glint_problem problem_of(const struct glint_variant_info *info)
{
    struct glint_problem p;
    const bool decode = info->queries_up_to > 0;
    glint_problem_bshd(&p, (enum glint_dtype)info->dtype, 1, decode ? 3 : 70, decode ? 2 * info->tile_n + 6 : 70, 1, 1,
                       info->head_dim);
    EXPECT(p.seqlen_k <= MOST_ROWS, "%s has more keys than there is memory for", info->name);
    p.mask = (info->features & GLINT_FEATURE_LEFT_BOUND) != 0    ? GLINT_MASK_BAND_TOP_LEFT
             : (info->features & GLINT_FEATURE_RIGHT_BOUND) != 0 ? GLINT_MASK_CAUSAL_TOP_LEFT
                                                                 : GLINT_MASK_NONE;
    if (p.mask == GLINT_MASK_BAND_TOP_LEFT)
        p.window_left = 9;
    return p;
}

static void call(const struct glint_context *context, uint32_t row, const struct glint_variant_info *info)
{
    struct glint_problem p = problem_of(info);
    struct glint_plan plan;
    const enum glint_status planned = glint_plan_variant(context, &p, (enum glint_pass)info->pass, row, &plan);
    EXPECT(planned == GLINT_OK, "%s: %s", info->name, glint_status_name(planned));
    if (planned != GLINT_OK)
        return;
    const size_t bytes = (size_t)MOST_ROWS * info->head_dim * 2;
    unsigned char *memory = aligned_alloc(256, (9 * bytes + 255) / 256 * 256),
                  *workspace = aligned_alloc(256, (plan.workspace_bytes + 255) / 256 * 256);
    float lse[70];
    if (!memory || !workspace)
        abort();
    memset(memory, 0, 9 * bytes);
    memset(lse, 0, sizeof lse);
    const struct glint_tensors t = {.struct_size = sizeof t,
                                    .q = memory,
                                    .k = memory + bytes,
                                    .v = memory + 2 * bytes,
                                    .o = memory + 3 * bytes,
                                    .lse = lse,
                                    .dout = memory + 4 * bytes,
                                    .dq = memory + 5 * bytes,
                                    .dk = memory + 6 * bytes,
                                    .dv = memory + 7 * bytes};
    const enum glint_status status = info->pass == GLINT_FORWARD ? glint_forward(&plan, &t, workspace, plan.workspace_bytes, NULL)
                                                                 : glint_backward(&plan, &t, workspace, plan.workspace_bytes, NULL);
    EXPECT(status == GLINT_OK, "%s: %s", info->name, glint_status_name(status));
    free(workspace);
    free(memory);
}

int main(void)
{
    static const unsigned char zeros[64];
    unsigned char mine[64] = {1}, after[64];
    mine[16] = 12, mine[48] = 3; /* tile 0: 3 rows of 12 bytes */
    mine[16 + 14] = 64, mine[48 + 7] = 16;
    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        struct glint_variant_info info = GLINT_VARIANT_INFO_INIT;
        EXPECT(glint_variant_at(i, &info) == GLINT_OK && info.isa == GLINT_ISA_X86_64_AMX && info.math == GLINT_MATH_BF16, "row %u",
               i);
        const struct glint_context *context;
        for (uint32_t concurrency = 1; concurrency <= 2; concurrency++) {
            context = opened(1, GLINT_ISA_ANY, concurrency);
            emulated_release();
            call(context, i, &info);
            emulated_save(after);
            EXPECT(memcmp(after, zeros, 64) == 0, "%s leaves tiles configured", info.name);
            emulated_configure(mine);
            call(context, i, &info);
            emulated_save(after);
            EXPECT(memcmp(after, mine, 64) == 0, "%s leaves another configuration than it found", info.name);
        }

        /* Without the option or below the cap the row is not there, whatever the CPU has. */
        const struct glint_problem p = problem_of(&info);
        struct glint_plan plan;
        for (int which = 0; which < 2; which++) {
            context = which == 0 ? opened(0, GLINT_ISA_ANY, 1) : opened(1, GLINT_ISA_X86_64_V4, 1);
            EXPECT(glint_variant_available(context, i) == GLINT_NOT_ON_DEVICE, "%s", info.name);
            EXPECT(glint_plan(context, &p, (enum glint_pass)info.pass, &plan) == GLINT_NOT_ON_DEVICE, "%s", info.name);
        }
    }
    emulated_release();
    printf("%u rows, %d failures\n", glint_variant_count(), failures);
    return failures != 0;
}
