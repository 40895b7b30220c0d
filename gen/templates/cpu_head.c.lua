#define GLINT_CPU_LANES ${lanes}  /* floats in a vector */
#define GLINT_CPU_ROWS ${micro_rows}   /* register tile of the products: rows */
#define GLINT_CPU_VECS ${micro_vecs}   /* by vectors */
#define GLINT_CPU_DTYPE ${dtype}
$ if dtype == "f32" then
#define GLINT_CPU_ELEMENT float
$ else
#define GLINT_CPU_ELEMENT uint16_t
$ end
$ if narrow then
#define GLINT_CPU_KV_DTYPE ${kv_dtype}
#define GLINT_CPU_KV_ELEMENT ${kv_dtype == "i8" and "int8_t" or "uint8_t"}
$ end
$ if bias_tensor then
#define GLINT_CPU_BIAS_TENSOR
$ end
$ if tree_bits then
#define GLINT_CPU_TREE
$ end
#include "lib/cpu/cpu.h"
#include "lib/cpu/gemm.h"
#include "lib/cpu/rows.h"
#include "lib/cpu/softmax.h"
