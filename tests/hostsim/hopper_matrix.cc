#include "tests/hostsim/hopper_matrix.h"

namespace sim
{

Matrix matrix_of(uint64_t descriptor)
{
    static const uint32_t spans[4] = {16, 128, 64, 32};
    const uint64_t unused = UINT64_C(0x3ff1c000c000c000); /* the bits of no field */
    Matrix matrix;

    matrix.start = (uint32_t)(descriptor & 0x3fff) << 4;
    matrix.leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4;
    matrix.stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    matrix.base = (uint32_t)(descriptor >> 49 & 7);
    matrix.span = spans[descriptor >> 62];
    matrix.right = (descriptor & unused) == 0;
    return matrix;
}

/* Atoms are 8 rows of `span` bytes. Within, chunks of 16 bytes are permuted by the row, which is what bits 7 and up of
 * the address say, less the base offset where atoms do not begin at a multiple of their size. */
uint32_t matrix_address(const Matrix &matrix, bool mn_major, uint32_t bytes, uint32_t i, uint32_t k)
{
    const uint32_t per_row = matrix.span / bytes;
    uint32_t address = matrix.start;

    if (matrix.span == 16) /* either way: 128 bytes of 8 rows; K-major rows are along k */
        return mn_major ? address + i / 8 * matrix.stride + k / 8 * matrix.leading + k % 8 * 16 + i % 8 * bytes
                        : address + i / 8 * matrix.stride + k / per_row * matrix.leading + i % 8 * 16 + k % per_row * bytes;
    if (mn_major)
        address += i / per_row * matrix.leading + i % per_row * bytes + k / 8 * matrix.stride + k % 8 * matrix.span;
    else
        address += i / 8 * matrix.stride + i % 8 * matrix.span + k * bytes;
    return address ^ (((address >> 7) - matrix.base) & (matrix.span / 16 - 1)) << 4;
}

} // namespace sim
