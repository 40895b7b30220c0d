/* How the kernels of a variant are launched: the descriptor behind glint_variant.kernel for every GPU family. The generator emits one a
 * variant (gen/gpu.lua), the launch code and the simulator read it, kernels do not.
 *
 * A variant is one cubin an architecture, made from one emitted file. Its kernels are launched one after another on one stream, as
 * listed in its struct glint_gpu_kernel, all with the same parameter struct (lib/device/params.h). A grid of zero blocks is not
 * launched. */
#ifndef GLINT_CUDA_KERNEL_H
#define GLINT_CUDA_KERNEL_H

#include <stdint.h>

/* What one thread block of a kernel owns. */
enum glint_gpu_grid {
    GLINT_GPU_QUERY_BLOCKS = 1, /* ceil(seqlen_q / rows) * heads_q * batch blocks */
    GLINT_GPU_KEY_BLOCKS = 2    /* ceil(seqlen_k / rows) * heads_kv * parts * batch blocks: see glint_gpu_part_heads */
};

/* Split: delta, then dK and dV over key blocks, then dQ over query blocks: no sum crosses blocks. Fused: delta, then all three over
 * key blocks; dQ is summed in dq_sum by one key block after another, in order, and the last one rounds it to its dtype; so are dK and dV
 * in key_sum by one part of the group after another, if there are several. tile_m divides GLINT_GPU_ROW_PAD. */
enum glint_gpu_strategy { GLINT_GPU_FORWARD = 0, GLINT_GPU_SPLIT = 1, GLINT_GPU_FUSED = 2 };

struct glint_gpu_launch {
    const char *entry;   /* the extern "C" name in the cubin */
    uint32_t grid;       /* enum glint_gpu_grid */
    uint32_t rows;       /* queries or keys that a block owns */
    uint32_t threads;    /* of a block */
    uint32_t smem_bytes; /* dynamic shared memory of a block: set as the kernel's attribute at load when above 48 KiB */
};

#define GLINT_GPU_MAX_LAUNCHES 4

struct glint_gpu_image {
    uint32_t sm;               /* SASS for exactly this: 80, 87, 90... */
    const unsigned char *data; /* a cubin, 16-byte aligned */
};

/* The descriptor behind glint_variant.kernel for a GPU family. */
struct glint_gpu_kernel {
    uint32_t strategy; /* enum glint_gpu_strategy */
    uint32_t launch_count;
    struct glint_gpu_launch launch[GLINT_GPU_MAX_LAUNCHES];
    const struct glint_gpu_image *images;
    uint32_t image_count;
    uint32_t part_heads, parts_from; /* fused: see glint_gpu_part_heads in lib/cuda/policy.h */
    uint32_t row_dim; /* numbers of a row of a tile, and of dq_sum and key_sum: head_dim, with zeros up to whole fragments */
};

#endif
