/* Micro-kernels of device.h: each runs one primitive on the words that it is given and stores what comes out, bit for bit. They are
 * compiled by nvcc, whose results are the golden files, and by the simulator, whose results must be the same. */
#include "lib/device/device.h"
#include "tests/hostsim/micro/micro.h"

GLINT_DEVICE uint32_t global_warp(void)
{
    return block_index() * 4 + warp_index();
}

/* ---- mma.sync: a warp a product. In: a, b, c as 10 words a lane; out: 4 ---------------------------------------------------- */

#define MMA_KERNEL(name)                                                      \
    GLINT_KERNEL(128, 1) micro_##name(GLINT_PARAMS(struct micro_params) p)    \
    {                                                                         \
        const uint32_t *in = p.in + global_warp() * 320 + lane_index();       \
        uint32_t *out = p.out + global_warp() * 128 + lane_index();           \
        uint32_t a[4];                                                        \
        float d[4];                                                           \
                                                                              \
        for (int i = 0; i < 4; ++i) {                                         \
            a[i] = ld_relaxed_u32(in + 32 * i);                               \
            d[i] = float_of(ld_relaxed_u32(in + 32 * (6 + i)));               \
        }                                                                     \
        name(d, a, ld_relaxed_u32(in + 32 * 4), ld_relaxed_u32(in + 32 * 5)); \
        for (int i = 0; i < 4; ++i)                                           \
            st_global_u32(out + 32 * i, bits_of(d[i]));                       \
    }
MMA_KERNEL(mma_m16n8k16_bf16)
MMA_KERNEL(mma_m16n8k16_f16)
MMA_KERNEL(mma_m16n8k8_tf32)

/* ---- ldmatrix: 1024 words into shared memory, then a row address a lane from the input -------------------------------------- */

#define LDMATRIX_KERNEL(name)                                             \
    GLINT_KERNEL(32, 1) micro_##name(GLINT_PARAMS(struct micro_params) p) \
    {                                                                     \
        const uint32_t shared = shared_base(), lane = lane_index();       \
        uint32_t r[4];                                                    \
                                                                          \
        for (uint32_t i = lane; i < 1024; i += 32)                        \
            st_shared_u32(shared + 4 * i, ld_relaxed_u32(p.in + i));      \
        block_sync();                                                     \
        name(r, shared + ld_relaxed_u32(p.in + 1024 + lane) % 256 * 16);  \
        for (int i = 0; i < 4; ++i)                                       \
            st_global_u32(p.out + 32 * i + lane, r[i]);                   \
    }
LDMATRIX_KERNEL(ldmatrix_x4)
LDMATRIX_KERNEL(ldmatrix_x4_trans)

/* ---- one number in, one out: a thread a number ------------------------------------------------------------------------------ */

#define NUMBER_KERNEL(name, inputs, expression)                            \
    GLINT_KERNEL(128, 1) micro_##name(GLINT_PARAMS(struct micro_params) p) \
    {                                                                      \
        const uint32_t at = block_index() * 128 + thread_index();          \
        uint32_t x[3] = {0, 0, 0};                                         \
                                                                           \
        for (int i = 0; i < inputs; ++i)                                   \
            x[i] = ld_relaxed_u32(p.in + at * inputs + i);                 \
        st_global_u32(p.out + at, expression);                             \
    }
NUMBER_KERNEL(ex2, 1, bits_of(ex2(float_of(x[0]))))
NUMBER_KERNEL(lg2, 1, bits_of(lg2(float_of(x[0]))))
NUMBER_KERNEL(to_tf32, 1, to_tf32(float_of(x[0])))
NUMBER_KERNEL(nearest_tf32, 1, nearest_tf32(float_of(x[0])))
NUMBER_KERNEL(pack_bf16, 2, pack_bf16(float_of(x[0]), float_of(x[1])))
NUMBER_KERNEL(pack_f16, 2, pack_f16(float_of(x[0]), float_of(x[1])))
NUMBER_KERNEL(low_bf16, 1, bits_of(low_bf16(x[0])))
NUMBER_KERNEL(high_bf16, 1, bits_of(high_bf16(x[0])))
NUMBER_KERNEL(low_f16, 1, bits_of(low_f16(x[0])))
NUMBER_KERNEL(high_f16, 1, bits_of(high_f16(x[0])))
NUMBER_KERNEL(fma_bf16x2, 3, fma_bf16x2(x[0], x[1], x[2]))
NUMBER_KERNEL(fma_f16x2, 3, fma_f16x2(x[0], x[1], x[2]))

/* ---- warps and barriers ------------------------------------------------------------------------------------------------- */

/* shfl.sync.bfly, every mask from 0 to 31. */
GLINT_KERNEL(32, 1) micro_shfl_xor(GLINT_PARAMS(struct micro_params) p)
{
    const float mine = float_of(ld_relaxed_u32(p.in + lane_index()));

    for (uint32_t mask = 0; mask < 32; ++mask)
        st_global_u32(p.out + 32 * mask + lane_index(), bits_of(shfl_xor(mine, mask)));
}

/* vote.any of each bit of a word, and barrier.red.or of each bit, where only one warp's threads may have it. */
GLINT_KERNEL(128, 1) micro_votes(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t mine = ld_relaxed_u32(p.in + thread_index());
    uint32_t warp = 0, block = 0;

    for (uint32_t bit = 0; bit < 32; ++bit) {
        warp |= (uint32_t)warp_any(mine >> bit & 1) << bit;
        block |= (uint32_t)block_any(mine >> bit & 1) << bit;
    }
    st_global_u32(p.out + 2 * thread_index(), warp);
    st_global_u32(p.out + 2 * thread_index() + 1, block);
}

/* barrier.red.or of each bit of a word among two warps of four, on a barrier of their own; the pairs meet on another between bits now and then. */
GLINT_KERNEL(128, 1) micro_named_any(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t mine = ld_relaxed_u32(p.in + thread_index()), pair = warp_index() / 2;
    uint32_t any = 0;

    for (uint32_t bit = 0; bit < 32; ++bit) {
        any |= (uint32_t)named_any(1 + pair, 64, mine >> bit & 1) << bit;
        if (bit % 8 == 7)
            named_sync(3, 128);
    }
    st_global_u32(p.out + thread_index(), any);
}

/* Warps 1 ... 3 are a pipeline round warp 0: each round, warp 0 stores a value per lane, arrives, and waits for the sum of the others. */
GLINT_KERNEL(128, 1) micro_named_barriers(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t shared = shared_base(), lane = lane_index(), warp = warp_index();

    for (uint32_t round = 0; round < 8; ++round) {
        const uint32_t buffer = shared + round % 2 * 512 + lane * 4;
        if (warp == 0) {
            st_shared_u32(buffer, ld_relaxed_u32(p.in + round * 32 + lane));
            named_arrive(1 + round % 2, 128);
            named_sync(3, 128);
            uint32_t sum = 0;
            for (uint32_t other = 1; other < 4; ++other)
                sum += ld_shared_u32(buffer + other * 128);
            st_global_u32(p.out + round * 32 + lane, sum);
        } else {
            named_sync(1 + round % 2, 128);
            st_shared_u32(buffer + warp * 128, ld_shared_u32(buffer) * (warp + round));
            named_arrive(3, 128);
        }
    }
}

/* ---- cp.async: each thread copies 16 or 4 bytes or zeros in four groups, and reads them back one wait after another ----------- */

GLINT_KERNEL(64, 1) micro_cp_async(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t shared = shared_base(), thread = thread_index();
    const uint32_t *in = p.in + 64 + thread * 80;
    const uint32_t inside = ld_relaxed_u32(p.in + thread);
    const uint32_t mine = shared + thread * 320;

    for (uint32_t i = 0; i < 80; ++i)
        st_shared_u32(mine + 4 * i, 0xdeadbeef);
    for (uint32_t group = 0; group < 4; ++group) {
        for (uint32_t i = 0; i < 4; ++i) {
            cp_async_16(mine + (group * 4 + i) * 16, in + (group * 4 + i) * 4, inside >> (group * 4 + i) & 1);
            cp_async_4(mine + 256 + (group * 4 + i) * 4, in + 64 + group * 4 + i, inside >> (16 + group * 4 + i) & 1);
        }
        cp_async_commit();
    }
    for (uint32_t group = 0; group < 4; ++group) {
        switch (group) {
        case 0: cp_async_wait(3); break;
        case 1: cp_async_wait(2); break;
        case 2: cp_async_wait(1); break;
        default: cp_async_wait(0); break;
        }
        for (uint32_t i = 0; i < 4; ++i) {
            uint32_t v[4];
            ld_shared_u32x4(v, mine + (group * 4 + i) * 16);
            for (uint32_t j = 0; j < 4; ++j)
                st_global_u32(p.out + thread * 80 + (group * 4 + i) * 4 + j, v[j]);
            st_global_u32(p.out + thread * 80 + 64 + group * 4 + i, ld_shared_u32(mine + 256 + (group * 4 + i) * 4));
        }
    }
}

/* Copies of what is not read again soon, in twelve groups: a wait may leave so many. */
GLINT_KERNEL(64, 1) micro_cp_async_once(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t shared = shared_base(), thread = thread_index();
    const uint32_t *in = p.in + 64 + thread * 48;
    const uint32_t inside = ld_relaxed_u32(p.in + thread);
    const uint32_t mine = shared + thread * 192;

    for (uint32_t i = 0; i < 48; ++i)
        st_shared_u32(mine + 4 * i, 0xdeadbeef);
    for (uint32_t group = 0; group < 12; ++group) {
        cp_async_16_once(mine + group * 16, in + group * 4, inside >> group & 1);
        cp_async_commit();
    }
#pragma unroll
    for (int group = 0; group < 12; ++group) {
        cp_async_wait(11 - group);
        for (uint32_t i = 0; i < 4; ++i)
            st_global_u32(p.out + thread * 48 + (uint32_t)group * 4 + i, ld_shared_u32(mine + ((uint32_t)group * 4 + i) * 4));
    }
}

/* ---- launches that may begin before the one ahead of them has ended: each takes what all blocks of that have left ------------------ */

GLINT_KERNEL(64, 1) micro_dependents(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t blocks = p.arg[0], half = blocks * 64, number = p.arg[11]; /* of the launch */
    const uint32_t other = (block_index() + 1) % blocks * 64 + (thread_index() ^ 5);
    uint32_t *const from = p.out + number % 2 * half, *const to = p.out + (number + 1) % 2 * half;
    uint32_t sum = 0;

    admit_successors();
    await_predecessors();
    /* Longer than the next launch takes to come here. */
    for (uint32_t i = 0; i < p.arg[1]; ++i)
        sum = sum * 5 + ld_relaxed_u32(from + (other + i * 64) % half);
    st_global_u32(to + block_index() * 64 + thread_index(), sum + ld_relaxed_u32(p.in + number));
}

/* ---- loads and stores, every width ------------------------------------------------------------------------------------------ */

GLINT_KERNEL(32, 1) micro_memory(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t mine = shared_base() + lane_index() * 64;
    const uint32_t *in = p.in + lane_index() * 16;
    uint32_t *out = p.out + lane_index() * 16;
    uint32_t v[4], w[4];
    float pair[2];

    ld_global_u32x4(v, in);
    st_shared_u32x4(mine, v);
    st_shared_f32x2(mine + 16, ld_global_f32((const float *)in + 4), ld_global_cg_f32((const float *)in + 5));
    st_shared_f32(mine + 24, ld_global_f32((const float *)in + 6));
    st_shared_u32(mine + 28, ld_acquire_u32(in + 7));
    warp_sync();
    ld_shared_u32x4(w, mine + 16);
    st_global_u32x4(out, w);
    ld_shared_f32x2(pair, mine);
    st_global_f32x2(out + 4, pair[0], pair[1]);
    st_global_f32((float *)out + 6, ld_shared_f32(mine + 8));
    st_release_u32(out + 7, ld_shared_u32(mine + 12));
    st_global_u32x4(out + 8, v);
    st_global_u32x4(out + 12, w);
}

/* Halves of words, each stored by another lane than its neighbour, and pairs of floats. */
GLINT_KERNEL(32, 1) micro_halves(GLINT_PARAMS(struct micro_params) p)
{
    const uint16_t *in = (const uint16_t *)p.in;
    uint16_t *out = (uint16_t *)p.out;
    const uint32_t lane = lane_index();
    float pair[2];

    st_global_u16(out + lane, ld_global_u16(in + 2 * lane + 1) * 3);
    st_global_u16(out + 32 + (lane ^ 5), ld_global_u16(in + lane) + 0x50000u);
    ld_global_f32x2(pair, p.in + 32 + 2 * lane);
    st_global_f32x2(p.out + 32 + 2 * lane, pair[1], pair[0]);
}

/* ---- atomics: additions to words of one's own (denormals, infinities), and to shared ones that are exact in any order --------- */

GLINT_KERNEL(128, 1) micro_atomics(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t thread = block_index() * 128 + thread_index();
    float four[4], back[4];

    red_global_add_f32((float *)p.out + thread, float_of(ld_relaxed_u32(p.in + thread)));
    float *slot = slot_of_four((float *)p.out + 3600 + block_index() * 512, thread_index()); /* in an order that is not compared */
    for (int i = 0; i < 4; ++i)
        four[i] = float_of(ld_relaxed_u32(p.in + 512 + 4 * thread + i));
    st_four(slot, four, 128);
    red_four(slot, four, 128);
    fence_device();
    ld_four(back, slot, 128);
    for (int i = 0; i < 4; ++i)
        st_global_u32(p.out + 512 + 4 * thread + i, bits_of(back[i]));
    red_global_add_f32((float *)p.out + 2560, (float)(thread % 7));
    st_global_u32(p.out + 2561 + thread, atom_global_add_u32(p.out + 3073 + thread, thread * 3));
    atom_global_add_u32(p.out + 3585, thread);
}

/* ---- where am I --------------------------------------------------------------------------------------------------------- */

/* Each index, the thread's a second time too, and the word of input that it names. */
GLINT_KERNEL(96, 1) micro_indices(GLINT_PARAMS(struct micro_params) p)
{
    uint32_t *out = p.out + (block_index() * 96 + thread_index()) * 4;

    st_global_u32(out, thread_index_anew());
    block_sync();
    st_global_u32(out + 1, lane_index() | warp_index() << 8 | block_index() << 16);
    st_global_u32(out + 2, ld_relaxed_u32(p.in + block_index() * 96 + thread_index_anew()));
    st_global_u32(out + 3, ld_relaxed_u32(p.in + block_index() * 96 + thread_index_anew() % 32 * 3));
}

/* ---- phases ------------------------------------------------------------------------------------------------------------- */

/* `lanes` lanes of the warp arrive: all, each for what it did itself, or some, after the others, for what the warp did. */
GLINT_DEVICE void arrive(uint32_t barrier, uint32_t lanes)
{
    if (lanes < 32)
        warp_sync();
    if (lane_index() < lanes)
        mbarrier_arrive(barrier);
}

/* As the backward pass of sm80 has them: warps 0 and 1 each give 32 words a step to a partner, warp 2 or 3, by a phase whose parity is the
 * step's, and the block meets at the end of the step. Arguments: steps, lanes that arrive. */
GLINT_KERNEL(128, 1) micro_phase_steps(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t shared = shared_base(), lane = lane_index(), pair = warp_index() % 2;
    const uint32_t phase = shared + pair * 8, words = shared + 128 + pair * 128;
    const bool gives = warp_index() < 2;
    uint32_t sum = 0;

    if (thread_index() == 0) {
        mbarrier_init(shared, p.arg[1]);
        mbarrier_init(shared + 8, p.arg[1]);
    }
    block_sync();
    for (uint32_t step = 0; step < p.arg[0]; ++step) {
        if (gives) {
            st_shared_u32(words + lane * 4, ld_relaxed_u32(p.in + step * 64 + pair * 32 + lane));
            arrive(phase, p.arg[1]);
        } else {
            mbarrier_wait(phase, step & 1);
            sum = sum * 31 + ld_shared_u32(words + (lane + step) % 32 * 4);
        }
        block_sync();
    }
    if (!gives)
        st_global_u32(p.out + pair * 32 + lane, sum);
}

/* A ring of stages without any other barrier: warps 0 and 1 fill each stage with 64 words, warps 2, 3 and 4 take them, and phases go
 * there (full) and back (empty). Arguments: rounds, lanes that arrive, stages. */
GLINT_KERNEL(160, 1) micro_phase_ring(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t full = shared_base(), empty = full + 64, words = full + 128, rounds = p.arg[0], lanes = p.arg[1];
    const uint32_t thread = thread_index(), stages = p.arg[2];
    uint32_t stage = 0, parity = 0, sum = 0;

    if (thread < stages) {
        mbarrier_init(full + thread * 8, 2 * lanes);
        mbarrier_init(empty + thread * 8, 3 * lanes);
    }
    block_sync();
    for (uint32_t round = 0; round < rounds; ++round) {
        const uint32_t place = words + stage * 256;
        if (thread < 64) {
            mbarrier_wait(empty + stage * 8, parity ^ 1); /* at first that before phase 0, which counts as ended */
            st_shared_u32(place + thread * 4, ld_relaxed_u32(p.in + round * 64 + thread));
            arrive(full + stage * 8, lanes);
        } else {
            mbarrier_wait(full + stage * 8, parity);
            sum = sum * 31 + ld_shared_u32(place + thread * (round + 1) % 64 * 4);
            arrive(empty + stage * 8, lanes);
        }
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
    if (thread >= 64)
        st_global_u32(p.out + thread - 64, sum);
}

/* A block that meets by phases alone: each thread arrives 1 ... 4 times a phase, as its word says, and sees what all others wrote before.
 * Arguments: phases, arrivals of all threads together. */
GLINT_KERNEL(128, 1) micro_phase_meetings(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t barrier = shared_base(), words = barrier + 128, thread = thread_index();
    const uint32_t arrivals = ld_relaxed_u32(p.in + thread);
    uint32_t x = ld_relaxed_u32(p.in + 128 + thread);

    if (thread == 0)
        mbarrier_init(barrier, p.arg[1]);
    block_sync();
    for (uint32_t phase = 0; phase < p.arg[0]; ++phase) {
        const uint32_t place = words + (phase & 1) * 512;
        st_shared_u32(place + thread * 4, x);
        for (uint32_t i = 0; i < arrivals; ++i)
            mbarrier_arrive(barrier);
        mbarrier_wait(barrier, phase & 1);
        x = x * 31 + ld_shared_u32(place + (thread * 5 + phase * 37) % 128 * 4);
    }
    st_global_u32(p.out + thread, x);
}

/* ---- from block to block ---------------------------------------------------------------------------------------------------- */

/* Blocks take numbers as they begin; each waits for the one before it, mixes that one's words with its own, and lets the next one go on.
 * Of the output, 64 words a block, then a word that numbers the blocks and one that says how many are done. */
GLINT_KERNEL(64, 1) micro_messages(GLINT_PARAMS(struct micro_params) p)
{
    const uint32_t shared = shared_base(), thread = thread_index();
    uint32_t *turn = p.out + 8 * 64, *done = turn + 1;

    if (thread == 0)
        st_shared_u32(shared, atom_global_add_u32(turn, 1));
    block_sync();
    const uint32_t number = ld_shared_u32(shared);
    uint32_t x = ld_relaxed_u32(p.in + number * 64 + thread);

    if (number > 0) {
        while (ld_acquire_u32(done) != number)
            ;
        x += 31 * bits_of(ld_global_cg_f32((const float *)p.out + (number - 1) * 64 + (thread * 5 + 1) % 64));
    }
    st_global_u32(p.out + number * 64 + thread, x);
    fence_device();
    block_sync();
    if (thread == 0)
        st_release_u32(done, number + 1);
}
