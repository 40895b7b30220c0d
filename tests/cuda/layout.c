#include "tests/cuda/layout.h"

#define S(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type);
#define M(type, member, offset) _Static_assert(offsetof(struct type, member) == (offset), #type "." #member);
PARAMETER_LAYOUT(S, M)

int main(void)
{
    return 0; /* compiled, hence right */
}
