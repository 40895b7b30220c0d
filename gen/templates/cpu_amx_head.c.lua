#define GLINT_CPU_LANES ${lanes} /* floats in a vector */
#define GLINT_CPU_DTYPE bf16
#define GLINT_CPU_ELEMENT uint16_t

enum {
    HEAD_DIM = ${head_dim},
    DIM = ${(head_dim + 31) // 32 * 32}, /* filled up to whole tiles */
    TILE_M = ${tile_m}, /* queries */
    TILE_N = ${tile_n}, /* keys */
};
#include "lib/cpu/cpu.h"
#include "lib/cpu/amx.h"

#define GLINT_FAR (INT64_C(1) << 40) /* beyond every row */

/* Scores are multiplied by the size of softmax_scale, in powers of two; the sign is that of Q, and so is a 0. */
static float log2_scale(const struct glint_problem *p)
{
    return p->softmax_scale == 0.0f ? 1.0f : __builtin_fabsf(p->softmax_scale) * 0x1.715476p+0f;
}
