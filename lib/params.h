/* What a GPU kernel is given, and how it is launched: shared by the kernels of every GPU family, by the launch code and by the
 * simulator. Plain C that nvcc reads too; host and device agree on every byte. No kernel takes anything but one of these two structs.
 *
 * A variant is one cubin an architecture, made from one emitted file. Its kernels are launched one after another on one stream, as
 * listed in its struct glint_gpu_kernel, all with the same parameter struct. Grids are one-dimensional; blocks find their place from
 * blockIdx.x and the struct. A grid of zero blocks is not launched. */
#ifndef GLINT_PARAMS_H
#define GLINT_PARAMS_H

#include <stdint.h>

/* A tensor of shape [batch, heads, seqlen, head_dim]: element strides, head_dim contiguous. Address and strides are multiples of
 * 16 bytes, except where an extent is 1. */
struct glint_gpu_view {
    void *address;
    int64_t batch, head, row;
};

/* Both passes. mask_offset: query i sees key j iff j <= i + mask_offset (glint_mask_offset); kernels without a mask ignore it.
 * `section` sets the order of blocks: that many consecutive (batch, head) pairs are worked on together, and within a section the
 * longest blocks of every pair come first. 1 walks one head after another. See glint_gpu_section and glint_backward_layout. */
struct glint_gpu_shape {
    int32_t batch, heads_q, heads_kv, group; /* group = heads_q / heads_kv */
    int32_t seqlen_q, seqlen_k;
    int32_t mask_offset;
    int32_t section;
    float softmax_scale;
    float scale_log2; /* softmax_scale * log2(e): kernels work in powers of two */
};

struct glint_forward_params {
    struct glint_gpu_view q, k, v, o;
    float *lse; /* [batch, heads_q, seqlen_q], natural logarithm */
    struct glint_gpu_shape shape;
};

struct glint_backward_params {
    struct glint_gpu_view q, k, v, o, dout, dq, dk, dv;
    const float *lse;
    struct glint_gpu_shape shape;
    /* workspace, placed by glint_backward_layout; the first kernel of the variant fills in what the others read */
    int64_t padded_q; /* seqlen_q rounded up to GLINT_GPU_ROW_PAD */
    float *lse_log2;  /* [batch * heads_q, padded_q]: lse * log2(e); +inf for a row that sees no key or lies past the end */
    float *delta;     /* [batch * heads_q, padded_q]: rowsum(dO * O); 0 past the end */
    float *
        dq_sum; /* fused: [batch * heads_q, padded_q, head_dim rounded up to 16] partial sums in the kernel's own order; else NULL */
    uint32_t
        *turn; /* fused: [0] blocks that have begun; [1 + ...]: [batch * heads_q, padded_q / tile_m] keys whose blocks have added
                         theirs; else NULL */
    /* The query heads of a key head are walked over by `parts` blocks, part_heads by each (the last one may have fewer). With more than
     * one part (fused) they add to dK and dV one after another: */
    int32_t parts, part_heads;
    float
        *key_sum; /* [batch * heads_kv, key blocks, 2 * tile_n, head_dim rounded up to 16], in the kernel's own order; else NULL */
    uint32_t *key_turn; /* [batch * heads_kv, key blocks, warps] parts whose warp has added its own; else NULL */
};

#define GLINT_GPU_ROW_PAD 128

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
    uint32_t part_heads, parts_from; /* fused: see glint_gpu_part_heads */
};

/* How many bytes of K and V, or of Q and dO, a section should touch: about half of a data-centre L2, so that the blocks that run
 * together read them from there. */
#define GLINT_GPU_SECTION_BYTES (INT64_C(28) << 20)

/* Forward: (batch, query head) pairs of a section. Without a mask every block costs the same, and the blocks of one head should be
 * neighbours; with one, the longest blocks of many heads come first. `seqlen` is the longer of the two. */
static inline int32_t glint_gpu_section(int causal, int64_t seqlen, int64_t head_dim, int64_t element_bytes)
{
    int64_t bytes = 2 * seqlen * head_dim * element_bytes;

    if (!causal || bytes <= 0 || bytes >= GLINT_GPU_SECTION_BYTES)
        return 1;
    return (int32_t)(GLINT_GPU_SECTION_BYTES / bytes);
}

/* Warps of the block that owns keys. */
static inline uint32_t glint_gpu_key_warps(const struct glint_gpu_kernel *kernel)
{
    uint32_t warps = 0;

    for (uint32_t i = 0; i < kernel->launch_count; ++i)
        if (kernel->launch[i].grid == GLINT_GPU_KEY_BLOCKS)
            warps = kernel->launch[i].threads / 32;
    return warps;
}

/* Queries of one head that see a key, on average over the keys, rounded down: what a key block walks over for each query head. Key j is
 * seen by queries from j - mask_offset on. */
static inline int64_t glint_gpu_visible_queries(const struct glint_gpu_shape *shape)
{
    const int64_t queries = shape->seqlen_q, keys = shape->seqlen_k,
                  end = queries + shape->mask_offset; /* first key that none sees */
    const int64_t by_all = shape->mask_offset < 0 ? 0 : shape->mask_offset < keys ? shape->mask_offset : keys;
    const int64_t by_any = end < by_all ? by_all : end < keys ? end : keys;

    /* Of keys by_all ... by_any - 1 the first is seen by end - by_all queries, the last by end - by_any + 1. */
    return keys == 0 ? 0 : (by_all * queries + (by_any - by_all) * (2 * end - by_all - by_any + 1) / 2) / keys;
}

/* How many query heads a key block walks over. All of the group is the least work: dK and dV stay in registers. But blocks that are
 * `group` times longer and fewer fill the multiprocessors worse, and as key blocks take turns at dQ, all of a head's go at the pace of the one
 * that has the most to do: with a mask, what is hidden is no gain. With part_heads to a block they are as those of ungrouped heads,
 * and 2 * tile_n * head_dim floats more are added in memory by each, which takes as long as some 100 queries (10 * tile_m * tile_n *
 * head_dim FLOPs a step of tile_m queries, and 16 * tile_n * head_dim bytes once, at 2.5 TFLOP/s and 42 GB/s a multiprocessor). So it is
 * done from parts_from visible queries on. From an eighth of that on twice as many heads are taken, and above a 32nd eight times as many:
 * measured, two heads to a block are ahead of one by 5 % at 1024 visible queries and behind by 2 to 5 % from 4096 on, and ahead of eight
 * by 5 % at 512 with a mask, behind by 0 to 10 % at 256; all of sixteen take up to 25 % longer. With fewer queries, none at all among
 * them, one block takes all heads (if there is no query, no kernel clears the turns). part_heads = 0: always. The rule knows no batch and
 * no number of heads, so a sequence's result does not depend on what it is batched with. */
static inline int32_t glint_gpu_part_heads(const struct glint_gpu_shape *shape, const struct glint_gpu_kernel *kernel)
{
    const int64_t visible = glint_gpu_visible_queries(shape), from = kernel->parts_from;
    const uint64_t times = visible >= from ? 1 : visible >= from / 8 ? 2 : visible > from / 32 ? 8 : 0;
    const uint64_t heads = kernel->part_heads * times;

    return heads == 0 || heads >= (uint32_t)shape->group || shape->seqlen_q == 0 ? shape->group : (int32_t)heads;
}

/* By how many blocks the query heads of a key head are then walked over. */
static inline int32_t glint_gpu_parts(const struct glint_gpu_shape *shape, int32_t part_heads)
{
    return (shape->group - 1) / part_heads + 1;
}

/* Backward: (part, batch, key head) triples of a section: as many as have their Q and dO fit. With a mask only those of one query head are
 * counted: blocks walk over heads one after another, and a grouped head's are few and long, so that short ones must be left for the end of
 * the whole grid, not of each section. Fused: key blocks of one triple take turns at dQ, so those that run together should be of many heads,
 * but of few enough that several share what they read of Q, dO and dq_sum while it is in L2 (measured on 132 multiprocessors: 4096 / head_dim
 * heads, or more if all that they read fits; without a mask a quarter of that, as blocks of equal length keep the distance that they once
 * have). Divisions one after another, for the product can exceed 2^64; and at most all, as the split strategy multiplies it by group. */
static inline int32_t glint_gpu_backward_section(const struct glint_gpu_shape *shape, int32_t part_heads, uint32_t strategy,
                                                 uint32_t head_dim)
{
    const int masked = shape->mask_offset < shape->seqlen_k;
    int64_t longest = shape->seqlen_q > shape->seqlen_k ? shape->seqlen_q : shape->seqlen_k;
    int64_t fits = GLINT_GPU_SECTION_BYTES / 4 / (longest > 0 ? longest : 1) / (masked ? 1 : part_heads) / (int64_t)head_dim;
    int64_t least = strategy == GLINT_GPU_SPLIT ? 1 : (masked ? 4096 : 1024) / (int64_t)head_dim + 1;
    int64_t wanted = fits > least ? fits : least;
    int64_t all = (int64_t)shape->batch * shape->heads_kv * glint_gpu_parts(shape, part_heads);

    return (int32_t)(wanted < all ? wanted : all);
}

/* Workspace of a backward variant of the given tile: places the arrays of *params from address `base` (aligned to 256 bytes; NULL to
 * count only) and returns the bytes that they take. shape must be filled in; its section is set anew. Every product below is under 2^62
 * once the planner has checked that batch * heads_q * seqlen_q * head_dim and the number of blocks fit. */
static inline uint64_t glint_backward_layout(struct glint_backward_params *params, const struct glint_gpu_kernel *kernel,
                                             uint32_t head_dim, uint32_t tile_m, uint32_t tile_n, char *base)
{
    const uint64_t pad = GLINT_GPU_ROW_PAD, dim = (head_dim + 15) / 16 * 16;
    const struct glint_gpu_shape *shape = &params->shape;
    uint64_t heads = (uint64_t)shape->batch * (uint64_t)shape->heads_q;
    uint64_t rows = ((uint64_t)shape->seqlen_q + pad - 1) / pad * pad;
    uint64_t row_bytes = (heads * rows * sizeof(float) + 255) / 256 * 256;
    uint64_t bytes = 2 * row_bytes;

    params->part_heads = glint_gpu_part_heads(shape, kernel);
    params->parts = glint_gpu_parts(shape, params->part_heads);
    params->shape.section = glint_gpu_backward_section(shape, params->part_heads, kernel->strategy, head_dim);
    params->padded_q = (int64_t)rows;
    params->lse_log2 = (float *)(void *)base;
    params->delta = base ? (float *)(void *)(base + row_bytes) : (float *)0;
    params->dq_sum = params->key_sum = (float *)0;
    params->turn = params->key_turn = (uint32_t *)0;
    if (kernel->strategy == GLINT_GPU_FUSED) {
        uint64_t sum_bytes = heads * rows * dim * sizeof(float);

        params->dq_sum = base ? (float *)(void *)(base + bytes) : (float *)0;
        bytes += sum_bytes;
        params->turn = base ? (uint32_t *)(void *)(base + bytes) : (uint32_t *)0;
        bytes += ((1 + heads * (rows / tile_m)) * sizeof(uint32_t) + 255) / 256 * 256;
    }
    if (params->parts > 1) {
        const uint64_t blocks =
            (uint64_t)shape->batch * (uint64_t)shape->heads_kv * (((uint64_t)shape->seqlen_k + tile_n - 1) / tile_n);

        params->key_sum = base ? (float *)(void *)(base + bytes) : (float *)0;
        bytes += (blocks * 2 * tile_n * dim * sizeof(float) + 255) / 256 * 256;
        params->key_turn = base ? (uint32_t *)(void *)(base + bytes) : (uint32_t *)0;
        bytes += (blocks * glint_gpu_key_warps(kernel) * sizeof(uint32_t) + 255) / 256 * 256;
    }
    return bytes;
}

#endif
