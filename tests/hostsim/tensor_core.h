/* The arithmetic of the tensor cores of Hopper, bit for bit as an H200 does it (tests/hostsim/micro: no difference in
 * any of the products recorded there, of mma.sync and of wgmma).
 *
 * One element of d is the sum of c and k products: 16 of bf16 or f16, 8 of tf32. Products are exact. All terms are
 * brought to the greatest exponent among them (of a product: the sum of its factors' exponents, whatever their
 * fractions), where each keeps 25 bits behind the point, the rest being cut off; then they are added, without any more
 * loss, and the sum is cut off to 24 bits. Denormals are numbers like any other. NaN is 0x7fffffff; what is zero or too
 * small is +0. What is too large is an infinity.
 *
 * So against the exact sum an element is off by less than (k + 1) 2^-25 of the power of two of its greatest term, and
 * 2^-23 of itself. */
#ifndef GLINT_HOSTSIM_TENSOR_CORE_H
#define GLINT_HOSTSIM_TENSOR_CORE_H

#include <cstdint>

#include "tests/hostsim/warp.h"

namespace sim
{

enum { TENSOR_CORE_COLUMNS = 256 };

/* d += a b. Elements are given by their bits: a[m * k + i], b[i * n + j], both of `element` (tf32: as a float), d[m * n
 * + j] a float's. k is 16, or 8 for tf32; n at most TENSOR_CORE_COLUMNS, and at most 16 rows. */
void tensor_core(Element element, uint32_t rows, uint32_t n, const uint32_t *a, const uint32_t *b, uint32_t *d);

/* The same, an element after the other as it says above: slow. */
void tensor_core_by_definition(Element element, uint32_t rows, uint32_t n, const uint32_t *a, const uint32_t *b, uint32_t *d);

} // namespace sim

#endif
