/* Included ahead of every file that Frama-C reads (-include): what C11 and GCC have and Frama-C 25 has not.
 *
 * Two functions stand for __builtin_mul_overflow and __builtin_add_overflow with a result of 64 bits, unsigned,
 * or signed with FC_SIGNED. Then callers must show that operands are not negative. Another is __builtin_ctzll. */
#ifndef FC_H
#define FC_H
#include <limits.h>

#define _Alignas(x)
#define _Alignof(x) 16

#ifdef FC_SIGNED
#define FC_NUMBER long
#define FC_MOST LONG_MAX
#else
#define FC_NUMBER unsigned long
#define FC_MOST ULONG_MAX
#endif

#ifdef FC_ANY /* any operands, where a contract says what is written and no more */
/*@ assigns *result; */
_Bool fc_mul(FC_NUMBER a, FC_NUMBER b, FC_NUMBER *result);
/*@ assigns *result; */
_Bool fc_add(FC_NUMBER a, FC_NUMBER b, FC_NUMBER *result);
#else
/*@ requires natural: 0 <= a && 0 <= b;
    requires \valid(result);
    assigns *result, \result \from a, b;
    behavior fits:
      assumes a * b <= FC_MOST;
      ensures \result == 0 && \initialized(result) && *result == a * b && 0 <= *result <= FC_MOST;
    behavior leaves:
      assumes a * b > FC_MOST;
      ensures \result == 1 && \initialized(result);
    complete behaviors; disjoint behaviors; */
_Bool fc_mul(FC_NUMBER a, FC_NUMBER b, FC_NUMBER *result);

/*@ requires natural: 0 <= a && 0 <= b;
    requires \valid(result);
    assigns *result, \result \from a, b;
    behavior fits:
      assumes a + b <= FC_MOST;
      ensures \result == 0 && \initialized(result) && *result == a + b && 0 <= *result <= FC_MOST;
    behavior leaves:
      assumes a + b > FC_MOST;
      ensures \result == 1 && \initialized(result);
    complete behaviors; disjoint behaviors; */
_Bool fc_add(FC_NUMBER a, FC_NUMBER b, FC_NUMBER *result);
#endif

/*@ requires x != 0;
    assigns \nothing;
    ensures 0 <= \result <= 63;
    ensures x == 16 ==> \result == 4;
    ensures x == 32 ==> \result == 5;
    ensures x == 64 ==> \result == 6;
    ensures x == 128 ==> \result == 7;
    ensures x == 256 ==> \result == 8; */
int fc_ctz(unsigned long x);

#define __builtin_ctzll(x) fc_ctz(x)
#define __builtin_ctz(x) fc_ctz(x)

#ifdef FC_PLAN /* a plan is cleared, and takes a backend's words, byte by byte: which bytes says its type here */
#include "lib/glint.h"
#include <string.h>
/*@ assigns *plan; */
void fc_clear(struct glint_plan *plan);
/*@ assigns to[0 .. 29]; */
void fc_words(uint64_t *to, const uint64_t *from);
#define memset(plan, value, bytes) fc_clear(plan)
#define memcpy(to, from, bytes) fc_words(to, from)
#endif

#ifdef FC_DEVICE /* what a header of the device calls; memory of the device holds any numbers */
#include "lib/device/call.h"
#include <stdbool.h>
#define GLINT_DEVICE static
#define Call struct glint_gpu_call
/*@ assigns \nothing;
    ensures \result == (a < b ? a : b); */
int min(int a, int b);
/*@ assigns \nothing;
    ensures \result == (a < b ? b : a); */
int max(int a, int b);
/*@ assigns \nothing; */
uint32_t ld_relaxed_u32(const uint32_t *address);
/*@ assigns \nothing; */
int32_t int_at(const int32_t *array, int32_t index);
#endif
#define __builtin_mul_overflow(a, b, r) fc_mul(a, b, r)
#define __builtin_add_overflow(a, b, r) fc_add(a, b, r)
#endif
