/* Which row glint_plan takes on a CPU that has AVX-512 BF16: that for it where it is fast, else the one of AVX-512, if
 * the table has one. A plan of either row is made on request. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/glint.h"

extern uint32_t slow_isas; /* probe.c */

static int failures;

#define EXPECT(condition, ...)                                                                    \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition), printf(__VA_ARGS__), puts(""); \
            failures++;                                                                           \
        }                                                                                         \
    } while (0)

static _Alignas(64) unsigned char storage[1 << 14];

static struct glint_context *opened(uint32_t max_isa)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    options.device = GLINT_DEVICE_CPU;
    options.max_isa = max_isa;
    EXPECT(glint_context_size() <= sizeof storage && glint_context_init(storage, sizeof storage, &options, &context) == GLINT_OK,
           "a context");
    if (context == NULL)
        exit(1);
    return context;
}

/* Of the forward pass, which both instruction sets have at head_dim 64, and AVX-512 BF16 alone at 128. */
static void choice(bool slow, uint32_t max_isa, int64_t head_dim, uint32_t expected, const char *said)
{
    slow_isas = slow ? 1u << GLINT_ISA_X86_64_BF16 : 0;
    const struct glint_context *const context = opened(max_isa);
    struct glint_device_info device = GLINT_DEVICE_INFO_INIT;
    struct glint_problem p;
    struct glint_plan plan;
    struct glint_variant_info row = GLINT_VARIANT_INFO_INIT;
    char text[4096];
    glint_problem_bshd(&p, GLINT_BF16, 1, 100, 100, 2, 2, head_dim);
    p.mask = head_dim == 64 ? GLINT_MASK_CAUSAL_TOP_LEFT : GLINT_MASK_NONE;
    const bool has = max_isa == GLINT_ISA_ANY;
    EXPECT(glint_context_device(context, &device) == GLINT_OK &&
               device.isa == (has && !slow ? GLINT_ISA_X86_64_BF16 : GLINT_ISA_X86_64_V4),
           "slow %d, cap %u: isa %u", slow, max_isa, device.isa);
    const enum glint_status status = glint_plan(context, &p, GLINT_FORWARD, &plan);
    EXPECT(status == (expected != 0 ? GLINT_OK : GLINT_NOT_ON_DEVICE), "slow %d, cap %u, head_dim %d: %s", slow, max_isa,
           (int)head_dim, glint_status_name(status));
    if (status == GLINT_OK) {
        EXPECT(glint_variant_at(plan.variant, &row) == GLINT_OK && row.isa == expected, "slow %d, cap %u, head_dim %d: %s", slow,
               max_isa, (int)head_dim, row.name);
        EXPECT(glint_explain(context, &p, GLINT_FORWARD, text, sizeof text, NULL) == GLINT_OK && strstr(text, said) != NULL, "%s",
               text);
    }

    for (uint32_t i = 0; i < glint_variant_count(); i++) {
        const bool there = glint_variant_at(i, &row) == GLINT_OK && (has || row.isa == GLINT_ISA_X86_64_V4);
        EXPECT(glint_variant_available(context, i) == (there ? GLINT_OK : GLINT_NOT_ON_DEVICE), "slow %d, cap %u: %s", slow,
               max_isa, row.name);
        if (there && row.pass == GLINT_FORWARD && row.head_dim == head_dim)
            EXPECT(glint_plan_variant(context, &p, GLINT_FORWARD, i, &plan) == GLINT_OK && plan.variant == i, "%s", row.name);
    }
}

int main(void)
{
    choice(false, GLINT_ISA_ANY, 64, GLINT_ISA_X86_64_BF16,
           "taken before fwd_bf16_d64_causal_softcap__cpu_x86_64_v4_m64n96, of a lower instruction set");
    choice(true, GLINT_ISA_ANY, 64, GLINT_ISA_X86_64_V4,
           "Not taken: fwd_bf16_d64_causal_softcap__cpu_x86_64_bf16_m64n256, as this CPU is not known to run it faster");
    choice(true, GLINT_ISA_ANY, 128, GLINT_ISA_X86_64_BF16, "fwd_bf16_d128_none_softcap__cpu_x86_64_bf16_m64n256");
    for (int slow = 0; slow < 2; slow++) {
        choice(slow == 1, GLINT_ISA_X86_64_V4, 64, GLINT_ISA_X86_64_V4, "as it is above glint_options.max_isa");
        choice(slow == 1, GLINT_ISA_X86_64_V4, 128, 0, "");
    }
    printf("%d failures\n", failures);
    return failures != 0;
}
