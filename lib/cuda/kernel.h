/* How the kernels of a variant are launched: what glint_variant.kernel is the index of for every GPU family. The
 * generator emits one a variant (gen/gpu.lua), the launch code and the simulator read it, kernels do not. Its parts are
 * found by indexes: no table holds a pointer, so all of them are read-only data as they are linked.
 *
 * A variant is one cubin an architecture, made from one emitted file. Its kernels are launched one after another on one
 * stream, as listed in its struct glint_gpu_kernel, all with the same parameters. A grid of zero blocks is not
 * launched.
 *
 * What a family asks for, in its record of the variant (gen/gpu.lua):
 *
 *   it wants                 it says         and then
 *   a block a tile           nothing more
 *   persistent blocks        blocks_per_sm   at most multiprocessors * blocks_per_sm blocks come: `blocks` of the call.
 *                                            Block b takes tiles b, b + blocks, ..., or all count tiles in the words
 *                                            below
 *   clusters                 cluster         the grid is whole clusters; blocks of the last one may find no tile. The
 *                                            kernel is a GLINT_CLUSTER_KERNEL
 *   to begin before what is  dependent = 1   the kernel waits (griddepcontrol.wait) before it touches global memory. A
 *   ahead of it has ended                    driver that does not know the attribute starts it when that has ended
 *   tensor maps              maps, in order  they are behind the call: struct glint_gpu_forward_maps or
 *                                            glint_gpu_backward_maps of lib/device/hopper_call.h
 *   lengths on the device    lengths = 1     `sequences` of the call; a row without such a launch is for lengths of the
 *                                            host alone
 *   ragged sequences         lengths = 2     `sequences` of the call
 *   K and V in pages         pages = 1,      `pages` of the call. Decode has no lengths = 1: it always reads them
 *                            lengths = 1 or 2
 *   the sinks' gradient      sinks = 1       the kernel is left out where a problem has no sinks
 *   a bias's gradient        dbias = 1       the kernel is left out where a problem does not ask for dBias
 *   words that begin as 0    zero_words      `words` of the call, the first of the workspace; they are cleared in the
 *                                            stream, ahead of the first kernel
 *
 * The parameter of a kernel is struct glint_gpu_call of lib/device/call.h. A step's is struct glint_gpu_step of
 * lib/device/hopper_call.h: its kernels are for all kinds of sequences, and for pages. Decode's is struct
 * glint_decode_params of lib/device/decode.h.
 *
 * A driver without the entry for clusters or maps does not run the row; the plan takes another. Maps are made at each
 * call, on the host, for the addresses of that call: nothing is allocated, and a CUDA graph keeps them with the launch.
 * The simulator's driver does all of it (tests/hostsim/driver.cc): nothing is switched on for it. */
#ifndef GLINT_CUDA_KERNEL_H
#define GLINT_CUDA_KERNEL_H

#include <stdint.h>

#include "lib/device/tensor_map.h"
#include "lib/variant.h"

/* What one thread block of a kernel owns: its tile. */
enum glint_gpu_grid {
    GLINT_GPU_QUERY_BLOCKS = 1, /* ceil(seqlen_q / rows) * heads_q * batch tiles */
    GLINT_GPU_KEY_BLOCKS = 2,   /* ceil(seqlen_k / rows) * heads_kv * parts * batch tiles: see glint_gpu_part_heads */
    GLINT_GPU_DECODE_ITEMS = 3, /* parts of the keys of tiles of rows, several a block: see struct glint_decode_layout */
    GLINT_GPU_DECODE_MERGE = 4, /* 16 columns of two rows; none where a block folds all keys of its rows */
    GLINT_GPU_QUERY_HEADS = 5,  /* a query head, of all sequences: heads_q tiles */
    GLINT_GPU_STEP_PLAN = 6,    /* one block: see struct glint_step_layout */
    GLINT_GPU_STEP_UNITS = 7,   /* persistent blocks, which take what the plan says */
    GLINT_GPU_STEP_MERGE = 8,   /* 32 columns of 16 rows at a time; none where no sequence's keys are ever shared out */
    GLINT_GPU_BIAS_TILES = 9,   /* rows x rows elements of dBias, or all that a dimension that is shared has; times parts */
    GLINT_GPU_BIAS_SUMS = 10    /* such tiles, where there are parts: see glint_gpu_bias_parts */
};

/* Split: delta, then dK and dV over key blocks, then dQ over query blocks: no sum crosses blocks. Fused: delta, then
 * all three over key blocks; dQ is summed in dq_sum by one key block after another, in order, and the last one rounds
 * it to its dtype; so are dK and dV in key_sum by one part of the group after another, if there are several. tile_m
 * divides GLINT_GPU_ROW_PAD.
 *
 * Decode: forward for few queries. Tiles are of rows of a key head, (query, query head) pairs, and their keys are
 * shared out to blocks, which leave results that the second kernel folds (lib/device/decode.h). How many blocks there
 * are follows from the layout, not from `rows`.
 *
 * Step: forward for any number of queries of every kind of sequences, linear or in pages. A first kernel reads the
 * lengths and shares the work out, the second one computes, and the last one folds what several blocks have of a row
 * (lib/device/step.h). */
enum glint_gpu_strategy {
    GLINT_GPU_FORWARD = 0,
    GLINT_GPU_SPLIT = 1,
    GLINT_GPU_FUSED = 2,
    GLINT_GPU_DECODE = 3,
    GLINT_GPU_STEP = 4
};

#define GLINT_GPU_SUFFIX_BYTES 20 /* the NUL included */

struct glint_gpu_launch {
    char suffix[GLINT_GPU_SUFFIX_BYTES]; /* the extern "C" name in the cubin is that of the struct glint_gpu_kernel, and this */
    uint32_t smem_bytes;   /* dynamic shared memory of a block: set as the kernel's attribute at load when above 48 KiB */
    uint16_t rows;         /* queries or keys of a tile */
    uint16_t threads;      /* of a block */
    uint8_t grid;          /* enum glint_gpu_grid */
    uint8_t blocks_per_sm; /* persistent: at most so many a multiprocessor; 0: a block a tile. Decode: so many run at a time */
    uint8_t cluster;       /* blocks of a cluster, 1 to 8; 0: no clusters */
    uint8_t dependent;     /* 1: programmatic dependent launch on what is ahead in the stream */
    uint8_t lengths;       /* enum glint_lengths of the problems that it is launched for; from 1 on a tile a head at least */

    /* 1: launched where K and V are in pages, in place of the launch of the same lengths, or in decode of the same
     * grid. */
    uint8_t pages;

    uint8_t sinks; /* 1: left out for a problem without sinks */
    uint8_t dbias; /* 1: left out for a problem without a gradient of its bias */
};

#define GLINT_GPU_MAX_LAUNCHES 12 /* of a kernel */

enum glint_gpu_tensor {
    GLINT_GPU_Q,
    GLINT_GPU_K,
    GLINT_GPU_V,
    GLINT_GPU_O,
    GLINT_GPU_DOUT,
    GLINT_GPU_DQ,
    GLINT_GPU_DK,
    GLINT_GPU_DV,
    GLINT_GPU_TENSORS
};

/* A tensor map: how a box of a tensor lies in shared memory. Coordinates are, innermost first,
 *     slabs = 0:  (column, row, head, batch); columns past head_dim are 0, and are not written
 *     slabs > 0:  (column in the slab, row, slab, head, batch); head_dim is a whole number of slabs of `columns`
 *                 columns
 *     packed:     (column, query head of a group, row, group, batch)
 * The box is columns x rows, of one head and batch, and of `slabs` slabs. Rows past the end are 0, and are not written.
 * Of K and V in pages a page is a batch, and a box is at most a page's rows, then of one slab. A packed box has as many
 * rows as have all heads of a group in `rows`. */
struct glint_gpu_map {
    uint8_t tensor;   /* enum glint_gpu_tensor */
    uint8_t swizzle;  /* enum tensor_map_swizzle */
    uint8_t slabs;    /* of the box */
    uint8_t packed;   /* 1: of Q, with the query heads of a group as rows: see below */
    uint16_t columns; /* of the box; their bytes are a multiple of 16 and at most those of the swizzle */
    uint16_t rows;    /* of the box, 1 to 256 */
};

#define GLINT_GPU_MAX_MAPS 12 /* of a kernel */

/* SASS for one architecture: "80", "87", "90", ... or, with what only that one has, "90a". A device of compute
 * capability X.z runs X.y for y <= z, but neither way between Tegra (8.7) and the others; "90a" runs on 9.0 alone. */
struct glint_gpu_image {
    char arch[8];
};

/* What glint_variant.kernel of a GPU family is the index of. Each first_... is an index of the table of its kind. */
struct glint_gpu_kernel {
    char name[GLINT_NAME_BYTES + 8]; /* what the names of its kernels begin with */
    uint16_t strategy;               /* enum glint_gpu_strategy */
    uint16_t launch_count, image_count;
    uint16_t map_count; /* at most GLINT_FORWARD_MAPS or GLINT_BACKWARD_MAPS; 0: the parameter has no maps */
    uint32_t first_launch, first_image, first_map;
    uint32_t part_heads, parts_from; /* fused: see glint_gpu_part_heads */
    uint32_t
        chunk_steps; /* decode: steps of tile_n keys in a chunk, a power of two; a step: tiles of tile_n keys in its first spans */
    uint32_t span_chunks;   /* decode: chunks in a span */
    uint32_t folded;        /* a step: 1 where O of the spans before is in the workspace */
    uint32_t row_dim;       /* numbers of a row of a tile, and of dq_sum and key_sum: head_dim, with zeros up to whole fragments */
    uint32_t block_keys;    /* backward: 1 where the mask has intervals, whose bounds are in the workspace */
    uint32_t zero_words;    /* forward: at the start of the workspace, 0 when the first kernel begins */
    uint32_t lengths_words; /* in place of them where a kernel that reads lengths is launched, of ragged sequences too */
};

/* Emitted with the table of variants. */
extern const struct glint_gpu_kernel glint_gpu_kernels[];
extern const struct glint_gpu_launch glint_gpu_launches[];
extern const struct glint_gpu_image glint_gpu_images[];
extern const struct glint_gpu_map glint_gpu_maps[];

/* The bytes of an image, an index of glint_gpu_images: a cubin, 16-byte aligned, or a fatbin that holds one, as
 * cuModuleLoadData takes both. */
const unsigned char *glint_gpu_image_bytes(uint32_t image);

/* The kernels of glint_merge and glint_append, which no variant has (rows.cu): one image an architecture of the table's
 * GPU rows, from this one on. A table that is written by hand may have none: the two calls then give
 * GLINT_NOT_ON_DEVICE. */
extern const uint32_t glint_gpu_rows_image, glint_gpu_rows_count;

#endif
