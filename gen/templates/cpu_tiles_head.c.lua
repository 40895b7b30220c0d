#define GLINT_CPU_LANES ${lanes} /* floats in a vector */
#define GLINT_CPU_ROWS ${micro_rows}
#define GLINT_CPU_VECS ${micro_vecs}
#define GLINT_CPU_DTYPE bf16
#define GLINT_CPU_ELEMENT uint16_t

enum {
    HEAD_DIM = ${head_dim},
    DIM = ${(head_dim + 31) // 32 * 32}, /* filled up to whole tiles */
    TILE_M = ${tile_m}, /* queries */
    TILE_N = ${tile_n}, /* keys */
};
#include "lib/cpu/cpu.h"
#include "lib/cpu/${products}.h"
$ if capped then
#include "lib/cpu/softcap.h"
$ end

#define GLINT_FAR (INT64_C(1) << 40) /* beyond every row */
$ if capped then

/* Scores are capped before they are multiplied by softmax_scale: cap tanh(scale s / cap) = scale c tanh(s / c) with c =
 * cap / scale. */
static float softcap_of_scores(const struct glint_problem *p)
{
    const float cap = p->softcap / __builtin_fabsf(p->softmax_scale);
    return p->softcap == 0.0f ? 0.0f : cap < 0x1p120f ? cap : 0x1p120f;
}
$ end
