#include "tests/cuda/layout.h"

#define S(type, bytes) static_assert(sizeof(struct type) == (bytes), #type);
#define M(type, member, offset) static_assert(offsetof(struct type, member) == (offset), #type "." #member);
PARAMETER_LAYOUT(S, M)

/* An offset of the device's own code generator, not only of its front end. */
extern "C" __global__ void glint_layout(const __grid_constant__ struct glint_gpu_call params, unsigned *out)
{
    *out = *params.key_turn;
}
