/* Kernels that use Hopper wrongly, each in one way; faults.cc says what the simulator must find. One block of 128 threads; p.in holds 4096
 * words of f16 pairs, p.map a tensor of 64 x 64 f16 in p.in with a box of 64 x 16 and swizzle 128B. Barriers lie at offset 0, tiles from 1024. */
#include "lib/device/hopper.h"
#include "tests/hostsim/micro/micro.h"

#define FAULT(name) GLINT_KERNEL(128, 1) fault_##name(GLINT_PARAMS(struct micro_params) p)

enum { TILE = 64 * 16 * 2 };

GLINT_DEVICE void fill(const struct micro_params *p, uint32_t shared)
{
    for (uint32_t i = thread_index(); i < 2048; i += 128)
        st_shared_u32(shared + 4 * i, ld_relaxed_u32(p->in + i));
}

GLINT_DEVICE void make_barriers(void)
{
    if (thread_index() == 0) {
        for (uint32_t i = 0; i < 4; ++i)
            mbarrier_init(shared_base() + 8 * i, 1);
        fence_mbarrier_init();
    }
    block_sync();
}

GLINT_DEVICE void load_tile(const struct micro_params *p, uint32_t stage, int32_t row)
{
    const int32_t at[2] = {0, row};

    mbarrier_arrive_expect(shared_base() + 8 * stage, TILE);
    tma_load(shared_base() + 1024 + stage * TILE, &p->map, 2, at, shared_base() + 8 * stage, GLINT_L2_EVICT_NORMAL);
}

GLINT_DEVICE uint64_t operand(uint32_t shared)
{
    return matrix_descriptor(shared, 16, 1024, TENSOR_MAP_SWIZZLE_128B);
}

GLINT_DEVICE void multiply(float d[4])
{
    const uint32_t tiles = shared_base() + 1024;

    wgmma_m64n8k16_f16<0, 0>(d, operand(tiles), operand(tiles), 0);
    wgmma_commit();
}

GLINT_DEVICE void show(const struct micro_params *p, const float d[4])
{
    for (uint32_t i = 0; i < 4; ++i)
        st_global_u32(p->out + 128 * i + thread_index(), bits_of(d[i]));
}

/* ---- products ----------------------------------------------------------------------------------------------------------- */

/* Right; the others differ from it in a line. */
FAULT(none)
{
    float d[4];

    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    wgmma_fence();
    multiply(d);
    wgmma_wait<0>();
    wgmma_hold(d, 4);
    show(&p, d);
}

FAULT(product_without_wgmma_fence)
{
    float d[4];

    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    multiply(d);
    wgmma_wait<0>();
    show(&p, d);
}

FAULT(product_after_a_register_was_touched)
{
    float d[4], e[4];

    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    wgmma_fence();
    multiply(d);
    for (int i = 0; i < 4; ++i)
        e[i] = 0;
    wgmma_hold(e, 4);
    multiply(e);
    wgmma_wait<0>();
    show(&p, e);
}

FAULT(stores_without_proxy_fence)
{
    float d[4];

    fill(&p, shared_base() + 1024);
    block_sync();
    wgmma_fence();
    multiply(d);
    wgmma_wait<0>();
    show(&p, d);
}

FAULT(proxy_fence_of_one_thread_only)
{
    float d[4];

    fill(&p, shared_base() + 1024);
    block_sync();
    if (thread_index() == 0)
        fence_async_shared();
    block_sync();
    wgmma_fence();
    multiply(d);
    wgmma_wait<0>();
    show(&p, d);
}

FAULT(product_without_barrier)
{
    float d[4];

    fill(&p, shared_base() + 1024);
    fence_async_shared();
    wgmma_fence();
    multiply(d);
    wgmma_wait<0>();
    show(&p, d);
}

FAULT(accumulator_written_under_way)
{
    float d[4];

    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    wgmma_fence();
    multiply(d);
    d[1] = 0;
    wgmma_wait<0>();
    show(&p, d);
}

/* Found by its answer: registers of a product under way hold NaN. */
FAULT(accumulator_read_under_way)
{
    float d[4], early[4];

    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    wgmma_fence();
    multiply(d);
    for (int i = 0; i < 4; ++i)
        early[i] = d[i];
    wgmma_wait<0>();
    show(&p, early);
}

FAULT(wait_one_group_early)
{
    float d[4], e[4];

    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    wgmma_fence();
    multiply(d);
    multiply(e);
    wgmma_wait<1>();
    show(&p, e);
    wgmma_wait<0>();
}

FAULT(accumulator_held_under_way)
{
    float d[4];

    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    wgmma_fence();
    multiply(d);
    wgmma_hold(d, 4);
    wgmma_wait<0>();
    show(&p, d);
}

FAULT(operand_registers_written_under_way)
{
    float d[4];
    uint32_t a[4] = {0, 0, 0, 0};

    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    wgmma_fence();
    wgmma_m64n8k16_f16_ra<0>(d, a, operand(shared_base() + 1024), 0);
    wgmma_commit();
    a[2] = 0x3c003c00;
    wgmma_wait<0>();
    show(&p, d);
}

FAULT(operand_overwritten_under_way)
{
    float d[4];

    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    wgmma_fence();
    multiply(d);
    block_sync();
    st_shared_u32(shared_base() + 1024 + 4 * thread_index(), 0);
    wgmma_wait<0>();
    show(&p, d);
}

FAULT(operand_beyond_shared_memory)
{
    float d[4];

    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    wgmma_fence();
    wgmma_m64n8k16_f16<0, 0>(d, operand(shared_base() + 1024), operand(shared_base() + 65536), 0);
    wgmma_commit();
    wgmma_wait<0>();
    show(&p, d);
}

/* ---- copies and mbarriers -------------------------------------------------------------------------------------------------- */

FAULT(tile_read_without_wait)
{
    make_barriers();
    if (thread_index() == 0)
        load_tile(&p, 0, 0);
    block_sync();
    st_global_u32(p.out + thread_index(), ld_shared_u32(shared_base() + 1024 + 4 * thread_index()));
    mbarrier_wait(shared_base(), 0);
}

FAULT(wrong_parity)
{
    make_barriers();
    if (thread_index() == 0)
        load_tile(&p, 0, 0);
    mbarrier_wait(shared_base(), 1);
    st_global_u32(p.out + thread_index(), ld_shared_u32(shared_base() + 1024 + 4 * thread_index()));
    mbarrier_wait(shared_base(), 0);
}

FAULT(too_few_bytes_expected)
{
    const int32_t at[2] = {0, 0};

    make_barriers();
    if (thread_index() == 0) {
        mbarrier_arrive_expect(shared_base(), TILE - 16);
        tma_load(shared_base() + 1024, &p.map, 2, at, shared_base(), GLINT_L2_EVICT_NORMAL);
    }
    mbarrier_wait(shared_base(), 0);
}

FAULT(refilled_while_read)
{
    make_barriers();
    if (thread_index() == 0)
        load_tile(&p, 0, 0);
    mbarrier_wait(shared_base(), 0);
    st_global_u32(p.out + thread_index(), ld_shared_u32(shared_base() + 1024 + 4 * thread_index()));
    if (thread_index() == 0)
        load_tile(&p, 0, 16);
    mbarrier_wait(shared_base(), 1);
}

FAULT(barrier_used_before_others_know)
{
    if (thread_index() == 0) {
        mbarrier_init(shared_base(), 128);
        fence_mbarrier_init();
        st_global_u32(p.out, 1);
    }
    while (thread_index() != 0 && ld_relaxed_u32(p.out) == 0)
        ;
    mbarrier_arrive(shared_base());
    mbarrier_wait(shared_base(), 0);
}

FAULT(barrier_unknown_to_the_copy)
{
    if (thread_index() == 0)
        mbarrier_init(shared_base(), 1);
    block_sync();
    if (thread_index() == 0)
        load_tile(&p, 0, 0);
    mbarrier_wait(shared_base(), 0);
}

FAULT(one_arrival_too_many)
{
    make_barriers();
    if (thread_index() == 0) {
        mbarrier_expect(shared_base(), 16);
        mbarrier_arrive(shared_base());
        mbarrier_arrive(shared_base());
    }
}

FAULT(barrier_stored_to)
{
    make_barriers();
    if (thread_index() == 0)
        st_shared_u32(shared_base(), 0);
}

FAULT(nobody_arrives)
{
    make_barriers();
    mbarrier_wait(shared_base(), 0);
}

FAULT(tile_within_sixteen_bytes)
{
    const int32_t at[2] = {3, 0};

    make_barriers();
    if (thread_index() == 0) {
        mbarrier_arrive_expect(shared_base(), TILE);
        tma_load(shared_base() + 1024, &p.map, 2, at, shared_base(), GLINT_L2_EVICT_NORMAL);
    }
    mbarrier_wait(shared_base(), 0);
}

FAULT(store_before_the_tensor)
{
    const int32_t at[2] = {0, -1};

    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    if (thread_index() == 0) {
        tma_store(&p.map, 2, at, shared_base() + 1024);
        bulk_commit();
        bulk_wait<0>();
    }
}

FAULT(store_without_proxy_fence)
{
    fill(&p, shared_base() + 1024);
    block_sync();
    if (thread_index() == 0) {
        bulk_store(p.out, shared_base() + 1024, 1024);
        bulk_commit();
        bulk_wait<0>();
    }
}

FAULT(source_overwritten_under_way)
{
    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    if (thread_index() == 0) {
        bulk_store(p.out, shared_base() + 1024, 1024);
        bulk_commit();
        bulk_store(p.out + 256, shared_base() + 1024, 1024);
        bulk_commit();
        bulk_wait_read<1>();
        st_shared_u32(shared_base() + 1024, 0);
        bulk_wait<0>();
    }
}

FAULT(ends_under_a_store)
{
    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    if (thread_index() == 0) {
        bulk_store(p.out, shared_base() + 1024, 1024);
        bulk_commit();
    }
}

FAULT(misaligned_tile)
{
    const int32_t at[2] = {0, 0};

    make_barriers();
    if (thread_index() == 0) {
        mbarrier_arrive_expect(shared_base(), TILE);
        tma_load(shared_base() + 1024 + 64, &p.map, 2, at, shared_base(), GLINT_L2_EVICT_NORMAL);
    }
    mbarrier_wait(shared_base(), 0);
}

FAULT(copy_beyond_the_allocation)
{
    make_barriers();
    if (thread_index() == 0) {
        mbarrier_arrive_expect(shared_base(), 1024);
        bulk_load(shared_base() + 1024, p.in + 4096 - 128, 1024, shared_base());
    }
    mbarrier_wait(shared_base(), 0);
}

/* ---- global memory ------------------------------------------------------------------------------------------------------ */

GLINT_DEVICE void clear_tile(void)
{
    for (uint32_t i = thread_index(); i < TILE / 4; i += 128)
        st_shared_u32(shared_base() + 1024 + 4 * i, 0);
    fence_async_shared();
    block_sync();
}

GLINT_DEVICE void store_to_the_tensor(const struct micro_params *p)
{
    st_global_u32((uint32_t *)p->in + thread_index(), 0);
}

FAULT(tile_loaded_without_proxy_fence)
{
    store_to_the_tensor(&p);
    fence_async_shared();
    make_barriers();
    if (thread_index() == 0)
        load_tile(&p, 0, 0);
    mbarrier_wait(shared_base(), 0);
}

FAULT(tile_stored_without_proxy_fence)
{
    const int32_t at[2] = {0, 0};

    store_to_the_tensor(&p);
    clear_tile();
    if (thread_index() == 0) {
        tma_store(&p.map, 2, at, shared_base() + 1024);
        bulk_commit();
        bulk_wait<0>();
    }
}

FAULT(tile_added_without_proxy_fence)
{
    const int32_t at[2] = {0, 0};

    store_to_the_tensor(&p);
    clear_tile();
    if (thread_index() == 0) {
        tma_reduce_add(&p.map, 2, at, shared_base() + 1024);
        bulk_commit();
        bulk_wait<0>();
    }
}

FAULT(stored_tile_read_before_its_wait)
{
    const int32_t at[2] = {0, 0};

    fill(&p, shared_base() + 1024);
    fence_async_shared();
    block_sync();
    if (thread_index() == 0) {
        tma_store(&p.map, 2, at, shared_base() + 1024);
        bulk_commit();
        bulk_wait_read<0>();
        st_global_u32(p.out, ld_relaxed_u32(p.in));
        bulk_wait<0>();
    }
}

FAULT(tensor_written_under_a_load)
{
    make_barriers();
    if (thread_index() == 0)
        load_tile(&p, 0, 0);
    block_sync();
    store_to_the_tensor(&p);
    mbarrier_wait(shared_base(), 0);
}

/* ---- registers ---------------------------------------------------------------------------------------------------------- */

FAULT(registers_given_upwards)
{
    registers_give<24>();
    registers_give<40>();
}
