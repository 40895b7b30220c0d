/* What kernels fuse: where a product and a sum are written as glint_fma they are rounded once, on each instruction set
 * that can, and nowhere else. Compiled with the flags of kernels. FUSED is 1 where the instruction set has a fused
 * multiply-add, which is said by the build and not taken from lib/cpu/vector.h. */
#include "lib/cpu/vector.h"

#include "tests/contract/suite.h"

/* (1 + 2^-12)^2 is 1 + 2^-11 + 2^-24, and 1 + 2^-11 when it is rounded. What is left over says whether it was. */
static const volatile float factor = 1.0f + 0x1p-12f, less = -(1.0f + 0x1p-11f);
static const float once = 0x1p-24f;

static void named_ones_are_fused(void)
{
    const float left = glint_fma_scalar(factor, factor, less);
    EXPECT(left == (FUSED ? once : 0.0f), "a number: %a", (double)left);
    float lanes[GLINT_CPU_LANES];
    const float a = factor, b = less;
    glint_store(lanes, glint_fma(glint_splat(a), glint_splat(a), glint_splat(b)));
    for (int i = 0; i < GLINT_CPU_LANES; i++)
        EXPECT(lanes[i] == (FUSED ? once : 0.0f), "lane %d: %a", i, (double)lanes[i]);
    glint_store(lanes, glint_horner(glint_splat(-a), glint_splat(a), -b));
    for (int i = 0; i < GLINT_CPU_LANES; i++)
        EXPECT(lanes[i] == (FUSED ? -once : 0.0f), "lane %d of a product with another sign: %a", i, (double)lanes[i]);
}

static void others_are_not(void)
{
    const float a = factor, b = less;
    EXPECT(a * a + b == 0.0f, "a number: %a", (double)(a * a + b));
    float lanes[GLINT_CPU_LANES];
    const glint_vec x = glint_splat(a), y = glint_splat(b);
    glint_store(lanes, x * x + y);
    for (int i = 0; i < GLINT_CPU_LANES; i++)
        EXPECT(lanes[i] == 0.0f, "lane %d: %a", i, (double)lanes[i]);
    glint_vec sum = y;
    for (float n = factor; n < 2; n += 2) /* a loop's sum, which compilers look at by themselves */
        sum += glint_splat(n) * x;
    glint_store(lanes, sum);
    for (int i = 0; i < GLINT_CPU_LANES; i++)
        EXPECT(lanes[i] == 0.0f, "lane %d of a loop's sum: %a", i, (double)lanes[i]);
}

static const struct contract_case cases[] = {{"named_ones_are_fused", named_ones_are_fused, 0},
                                             {"others_are_not", others_are_not, 0}};
CONTRACT_MAIN("contract_fused", cases)
