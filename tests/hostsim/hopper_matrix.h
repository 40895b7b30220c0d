/* Matrix operands in shared memory: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout". */
#ifndef GLINT_HOSTSIM_HOPPER_MATRIX_H
#define GLINT_HOSTSIM_HOPPER_MATRIX_H

#include <cstdint>

namespace sim
{

/* "Matrix Descriptor Format". */
struct Matrix {
    uint32_t start, leading, stride; /* bytes */
    uint32_t span;                   /* bytes of a row of an atom: 16, 32, 64, 128 */
    uint32_t base;
    bool right;
};
Matrix matrix_of(uint64_t descriptor);

/* The shared address of element (i, k), i along m or n; `bytes` of an element. */
uint32_t matrix_address(const Matrix &matrix, bool mn_major, uint32_t bytes, uint32_t i, uint32_t k);

} // namespace sim

#endif
