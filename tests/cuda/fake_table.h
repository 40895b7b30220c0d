/* A dispatch table of GPU rows for the fake driver: one row for each thing that can be told apart when kernels are
 * loaded or launched. Defines glint_variants; link it with the core and without a generated table. */
#ifndef GLINT_TESTS_FAKE_TABLE_H
#define GLINT_TESTS_FAKE_TABLE_H

/* Indexes of glint_variants. */
enum fake_row {
    FAKE_MAPS_BACKWARD, /* backward, bf16, head_dim 128: sm_90a only; persistent, dependent launches, maps, words that begin as 0 */
    FAKE_FUSED,         /* backward, causal, fused, two query heads a part from FAKE_PARTS_FROM on: sm_80 and sm_90 */
    FAKE_SPLIT,         /* backward, no mask, split: sm_80 and sm_90 */
    FAKE_DECODE,        /* decode, bf16, head_dim 256, dependent launches: sm_80 and sm_90 */
    FAKE_MAPS_WINDOW,   /* forward, bf16, head_dim 128, windows: sm_90a only; as the next */
    FAKE_MAPS_FORWARD,  /* forward, bf16, head_dim 128: sm_90a only; the same, and clusters; one more kernel for ragged sequences */
    FAKE_ONLY_120,      /* forward, bf16: sm_120 only */
    FAKE_BOTH,          /* forward, head_dim 128, a dependent launch: sm_90 and sm_90a */
    FAKE_MUCH_SHARED,   /* forward, head_dim 256, 160 KiB of shared memory: sm_80 and sm_90 */
    FAKE_CAUSAL,        /* forward, causal: sm_80, sm_86, sm_87 and sm_90 */
    FAKE_PLAIN,         /* forward, no mask: sm_80 and sm_90 */
    FAKE_CAPPED,        /* forward, no mask, a softcap: sm_80 and sm_90 */
    FAKE_LOCAL,         /* forward, f32, uses local memory: sm_80 and sm_90 */
    FAKE_OF_CPU,        /* forward, f32, of the CPU, with the number that FAKE_PLAIN's kernel has among a GPU's */
    FAKE_ROWS
};

/* Indexes of glint_gpu_kernels. */
enum fake_kernel {
    FAKE_KERNEL_FUSED,
    FAKE_KERNEL_SPLIT,
    FAKE_KERNEL_DECODE,
    FAKE_KERNEL_ONLY,
    FAKE_KERNEL_MUCH,
    FAKE_KERNEL_CAUSAL,
    FAKE_KERNEL_PLAIN,
    FAKE_KERNEL_CAPPED,
    FAKE_KERNEL_LOCAL,
    FAKE_KERNEL_MAPS_FORWARD,
    FAKE_KERNEL_MAPS_BOTH,
    FAKE_KERNEL_MAPS_BACKWARD,
    FAKE_KERNEL_BOTH,
    FAKE_KERNEL_BEHIND, /* of a row behind the table */
    /* no row has these */
    FAKE_KERNEL_CLUSTERS,   /* forward, clusters of four */
    FAKE_KERNEL_KEYS,       /* fused, without a grid over the queries */
    FAKE_KERNEL_PERSISTENT, /* fused, persistent */
    FAKE_KERNEL_TWO_A_SM,   /* decode, two blocks a multiprocessor */
    FAKE_KERNEL_SPANS       /* and four after it: 1 to 5 tiles in the first spans of a step */
};

enum { FAKE_PARTS_FROM = 50 };

#endif
