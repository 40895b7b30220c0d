/* The CPU's cap tanh(s / cap) against double: every exponent of s, caps over their whole range, inf, NaN, zeros and
 * signs. */
#include "lib/cpu/softcap.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/contract/suite.h"

/* One score, in a lane of a vector whose other lanes hold others. (The arrays are static, as gcc 12 reads them as
 * whole vectors, and aligns the frames that AddressSanitizer watches after a return to less.) */
static float capped(float s, float cap, int lane)
{
    static float in[GLINT_CPU_LANES], out[GLINT_CPU_LANES];
    for (int i = 0; i < GLINT_CPU_LANES; i++)
        in[i] = i == lane ? s : i % 3 == 0 ? NAN : (float)(i - 4) * cap;
    glint_store(out, glint_softcap(glint_load(in), glint_softcap_of(cap)));
    return out[lane];
}

/* The same in every lane. */
static float capped_alone(float s, float cap)
{
    static float out[GLINT_CPU_LANES];
    glint_store(out, glint_softcap(glint_splat(s), glint_softcap_of(cap)));
    return out[0];
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double ulp_of(double x)
{
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
}

static const float caps[] = {0x1p-126f, 1e-30f, 0x1p-20f, 0.37f, 1, 30, 50, 1000, 1e10f, 1e30f, 0x1p124f};
enum { CAPS = sizeof caps / sizeof caps[0] };

/* Off by at most 6 ulps of the result, everywhere; the same with the sign turned. */
static void whole_range(void)
{
    double worst = 0;
    uint32_t at = 0;
    for (int c = 0; c < CAPS; c++)
        for (uint32_t bits = 0; bits < 0x7f800000u; bits += caps[c] == 1 || caps[c] == 50 ? 997 : 12347) {
            const float s = float_of(bits), got = capped(s, caps[c], (int)(bits % GLINT_CPU_LANES));
            const double exact = (double)caps[c] * tanh((double)s / (double)caps[c]),
                         error = fabs((double)got - exact) / ulp_of(exact);
            EXPECT(error <= 6, "%a under the cap %a is %a, exact %a: %g ulps", (double)s, (double)caps[c], (double)got, exact,
                   error);
            const float alone = capped_alone(s, caps[c]);
            EXPECT(memcmp(&alone, &got, sizeof got) == 0, "%a under the cap %a is %a among others, %a among its like", (double)s,
                   (double)caps[c], (double)got, (double)alone);
            EXPECT(capped(-s, caps[c], 0) == -got, "-%a under the cap %a is not -(%a)", (double)s, (double)caps[c], (double)got);
            at = error > worst ? bits : at;
            worst = fmax(worst, error);
        }
    contract_note("at most %.2f ulps, at %a", worst, (double)float_of(at));
}

/* What lies far below the cap stays as it is, zeros with their sign too; inf gives the cap, NaN stays. */
static void ends(void)
{
    for (int c = 0; c < CAPS; c++)
        for (int lane = 0; lane < GLINT_CPU_LANES; lane++) {
            const float cap = caps[c], far[] = {0.0f, -0.0f, cap * 0x1p-14f, -cap * 0x1p-20f, FLT_TRUE_MIN};
            for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
                if (!(fabsf(far[i]) < cap * 0x1p-13f))
                    continue;
                const float got = capped(far[i], cap, lane);
                EXPECT(memcmp(&got, &far[i], sizeof got) == 0, "%a under the cap %a is %a", (double)far[i], (double)cap,
                       (double)got);
            }
            EXPECT(isnan(capped(NAN, cap, lane)), "NaN under the cap %a", (double)cap);
            const float top = capped(INFINITY, cap, lane), largest = capped(FLT_MAX, cap, lane);
            EXPECT(fabs((double)top - (double)cap) <= 6 * ulp_of((double)cap) && capped(-INFINITY, cap, lane) == -top &&
                       largest == top,
                   "inf under the cap %a is %a", (double)cap, (double)top);
        }
}

static const struct contract_case cases[] = {
    {"whole_range", whole_range, 60},
    {"ends", ends, 0},
};
CONTRACT_MAIN("softcap", cases)
