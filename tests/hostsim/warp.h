/* Warp-wide instructions, as the PTX ISA defines them. */
#ifndef GLINT_HOSTSIM_WARP_H
#define GLINT_HOSTSIM_WARP_H

#include "tests/hostsim/engine.h"

namespace sim
{

float warp_shuffle_xor(float value, uint32_t lane_mask, Site site);
uint32_t warp_first(uint32_t value, Site site); /* lane 0's */
bool warp_any(bool condition, Site site);
void warp_sync(Site site);

/* "ldmatrix", .m8n8.x4.b16. */
void load_matrices(uint32_t r[4], uint32_t row, bool transposed, Site site);

enum class Element { bf16, f16, tf32 };

/* "mma", m16n8k16 of 16-bit elements or m16n8k8 of tf32, float32 sums. */
void multiply(Element element, float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, Site site);

} // namespace sim

#endif
