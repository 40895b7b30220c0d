/* Conversions between float and the 16-bit storage types, in integer arithmetic, so that no compiler or instruction set
 * is trusted. Rounding is to nearest, ties to even; NaN stays NaN, overflow gives infinity. */
#ifndef GLINT_TESTS_HALF_H
#define GLINT_TESTS_HALF_H

#include <stddef.h>
#include <stdint.h>

#include "lib/glint.h"

uint16_t half_from_float(float value);
float float_from_half(uint16_t bits);
uint16_t bfloat_from_float(float value);
float float_from_bfloat(uint16_t bits);

/* OCP FP8 E4M3FN: to nearest even; beyond the largest, 448, the largest; NaN and infinities are NaN. */
uint8_t e4m3_from_float(float value);
float float_from_e4m3(uint8_t bits);

/* The value after one store to memory of this dtype and one load. */
float dtype_round(enum glint_dtype dtype, float value);

size_t dtype_bytes(enum glint_dtype dtype);
void dtype_store(enum glint_dtype dtype, void *to, float value);
float dtype_load(enum glint_dtype dtype, const void *from);
void dtype_store_row(enum glint_dtype dtype, void *to, const float *from, int64_t count);
void dtype_load_row(enum glint_dtype dtype, float *to, const void *from, int64_t count);

/* The distance of 1 to the next number above it: 2^-23, 2^-10, 2^-7; and the smallest positive number. */
double dtype_ulp(enum glint_dtype dtype);
double dtype_smallest(enum glint_dtype dtype);
const char *dtype_name(enum glint_dtype dtype);

/* What the tensor cores read of a float32 factor: tf32, 11 significant bits and float's exponents. To nearest, ties
 * away from zero. Other arithmetic than GLINT_MATH_TF32 takes factors as they are. */
float factor_round(enum glint_math math, float value);

/* The distance of 1 to the next factor above it, of products of this dtype: 2^-10 with tf32, else dtype_ulp. */
double factor_ulp(enum glint_math math, enum glint_dtype dtype);

#endif
