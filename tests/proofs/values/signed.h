/* For lib/cpu/geometry.c, which asks about overflow of both types: of a signed result the functions of fc.h with a
 * limit of their own. */
#ifndef VALUES_SIGNED_H
#define VALUES_SIGNED_H
#include <limits.h>
#include <stdint.h>

/*@ requires natural: 0 <= a && 0 <= b;
    requires \valid(result);
    assigns *result \from a, b;
    assigns \result \from a, b;
    behavior fits:
      assumes a * b <= LONG_MAX;
      ensures \result == 0 && \initialized(result) && *result == a * b;
    behavior leaves:
      assumes a * b > LONG_MAX;
      ensures \result == 1 && \initialized(result);
    complete behaviors; disjoint behaviors; */
_Bool signed_mul(int64_t a, int64_t b, int64_t *result);

#undef __builtin_mul_overflow
#define __builtin_mul_overflow(a, b, r)                                                        \
    ((__typeof__(*(r)))-1 < 0 ? signed_mul((int64_t)(a), (int64_t)(b), (int64_t *)(void *)(r)) \
                              : fc_mul((uint64_t)(a), (uint64_t)(b), (uint64_t *)(void *)(r)))

#endif
