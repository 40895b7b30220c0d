/* C = A B or C += A B for float32 matrices, on the caller's executor. Not attention: the projections and the MLP of the
 * model. */
#ifndef EXAMPLES_COMMON_MATMUL_H
#define EXAMPLES_COMMON_MATMUL_H

#include <stddef.h>

#include "lib/glint.h"

/* Element (i, j) is data[i * row + j * column]: swapping the two strides transposes. */
struct matrix {
    const float *data;
    size_t row, column;
};

/* Bytes of scratch that matmul needs for an executor of this concurrency. */
size_t matmul_scratch_bytes(uint32_t concurrency);

/* c[m][n], rows of n contiguous floats, = (or += when `add`) a[m][k] b[k][n]. The sum over k runs in one fixed order,
 * so the result does not depend on the number of threads. `scratch` is aligned to 64 bytes. */
void matmul(const struct glint_executor *executor, float *c, struct matrix a, struct matrix b, size_t m, size_t n, size_t k,
            int add, float *scratch);

#endif
