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
    FAKE_LOCAL,         /* forward, f32, uses local memory: sm_80 and sm_90 */
    FAKE_ROWS
};

enum { FAKE_PARTS_FROM = 50 };

#endif
