/* The primitives of lib/device/device.h in PTX, for nvcc (-Ilib/device/ptx). Each is one instruction, or the
 * register that it reads. */
#ifndef GLINT_DEVICE_PTX_DEVICE_IMPL_H
#define GLINT_DEVICE_PTX_DEVICE_IMPL_H

#include <stdint.h>

#define GLINT_DEVICE static __device__ __forceinline__
#define GLINT_KERNEL(threads, blocks_per_sm) extern "C" __global__ void __launch_bounds__(threads, blocks_per_sm)
#define GLINT_PARAMS(type) const __grid_constant__ type

/* ---- where am I -------------------------------------------------------------------------------------------------- */

GLINT_DEVICE uint32_t thread_index(void)
{
    return threadIdx.x;
}

/* The same, read anew at each call: what follows from it is computed again rather than kept in registers. */
GLINT_DEVICE uint32_t thread_index_anew(void)
{
    uint32_t index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
}

GLINT_DEVICE uint32_t lane_index(void)
{
    return threadIdx.x & 31u;
}

/* The same in every lane, and known to be so by the compiler: branches on it are uniform. */
GLINT_DEVICE uint32_t warp_index(void)
{
    return __shfl_sync(0xffffffffu, threadIdx.x >> 5, 0);
}

/* Read anew at each call, so that what follows from it can be computed twice rather than kept in registers. */
GLINT_DEVICE uint32_t block_index(void)
{
    uint32_t index;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
    return index;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* All threads of the block; shared memory written before is seen after. */
GLINT_DEVICE void block_sync(void)
{
    asm volatile("bar.sync 0;" ::: "memory");
}

/* The same barrier; true in every thread iff it is true in one. */
GLINT_DEVICE bool block_any(bool condition)
{
    return __syncthreads_or(condition);
}

/* `threads` threads (a multiple of 32) that use barrier `id` (1 ... 15). */
GLINT_DEVICE void named_sync(uint32_t id, uint32_t threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* The same barrier as named_sync; true in every thread of it iff it is true in one. */
GLINT_DEVICE bool named_any(uint32_t id, uint32_t threads, bool condition)
{
    uint32_t any;
    asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %3, 0; barrier.cta.red.or.pred q, %1, %2, p; selp.u32 %0, 1, 0, q; }"
                 : "=r"(any)
                 : "r"(id), "r"(threads), "r"((uint32_t)condition)
                 : "memory");
    return any != 0;
}

/* Counts this warp in at barrier `id` without waiting for the others. */
GLINT_DEVICE void named_arrive(uint32_t id, uint32_t threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* ---- mbarrier ---- */
/* Eight bytes of shared memory, aligned to 8. A phase ends when as many arrivals have come as init said (and, on
 * Hopper, every byte that was expected has landed); the next one then begins by itself. Phases are numbered from 0,
 * and waits name a phase by its parity: parity p waits until the newest phase of parity p has ended, where before
 * phase 0 an odd one counts as ended. hopper.h has more. */

/* "mbarrier.init". Before other threads of the block use it: block_sync; of the cluster, or the async proxy:
 * fence_mbarrier_init. */
GLINT_DEVICE void mbarrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* "mbarrier.arrive": one arrival, without waiting; what this thread did before is seen by those that wait for the
 * phase. */
GLINT_DEVICE void mbarrier_arrive(uint32_t barrier)
{
    asm volatile("{ .reg .b64 phase; mbarrier.arrive.shared.b64 phase, [%0]; }" ::"r"(barrier) : "memory");
}

/* "mbarrier.try_wait", or "mbarrier.test_wait" before sm_90, until the phase of this parity has ended. */
GLINT_DEVICE void mbarrier_wait(uint32_t barrier, uint32_t parity)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred p; $again%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra $again%=; }" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
#else
    asm volatile("{ .reg .pred p; $again%=: mbarrier.test_wait.parity.shared.b64 p, [%0], %1; @!p bra $again%=; }" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
#endif
}

GLINT_DEVICE void warp_sync(void)
{
    __syncwarp();
}

/* True in every lane iff it is true in one. */
GLINT_DEVICE bool warp_any(bool condition)
{
    return __any_sync(0xffffffffu, condition);
}

GLINT_DEVICE float shfl_xor(float value, uint32_t lane_mask)
{
    return __shfl_xor_sync(0xffffffffu, value, (int)lane_mask);
}

/* Writes of this thread before are seen by the whole device before its writes after. */
GLINT_DEVICE void fence_device(void)
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

/* A kernel may be launched before the one that it depends on has ended (since sm_90, where the launch allows it):
 * until then it may not touch global memory. One that is waited for says when all its blocks are far enough for
 * that; otherwise it is at their end. */
GLINT_DEVICE void await_predecessors(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

GLINT_DEVICE void admit_successors(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

/* Address of the kernel's dynamic shared memory, aligned to 1024 bytes. */
GLINT_DEVICE uint32_t shared_base(void)
{
    extern __shared__ __align__(1024) unsigned char glint_shared[];
    return (uint32_t)__cvta_generic_to_shared(glint_shared);
}

GLINT_DEVICE void st_shared_u32(uint32_t address, uint32_t value)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

GLINT_DEVICE void st_shared_f32(uint32_t address, float value)
{
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

GLINT_DEVICE void st_shared_f32x2(uint32_t address, float x, float y)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

GLINT_DEVICE void st_shared_u32x4(uint32_t address, const uint32_t v[4])
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
}

GLINT_DEVICE uint32_t ld_shared_u32(uint32_t address)
{
    uint32_t value;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

GLINT_DEVICE float ld_shared_f32(uint32_t address)
{
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
    return value;
}

GLINT_DEVICE void ld_shared_f32x2(float v[2], uint32_t address)
{
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v[0]), "=f"(v[1]) : "r"(address) : "memory");
}

GLINT_DEVICE void ld_shared_u32x4(uint32_t v[4], uint32_t address)
{
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(address)
                 : "memory");
}

/* Four 8x8 matrices of 16-bit elements. Lane l gives the address of row l & 7 of matrix l >> 3, and receives of
 * matrix i the elements (l >> 2, 2 (l & 3)) and (l >> 2, 2 (l & 3) + 1) in r[i], the first in the low half. */
GLINT_DEVICE void ldmatrix_x4(uint32_t r[4], uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}

/* "ldmatrix", .trans: each lane receives its elements of the transposed matrices. */
GLINT_DEVICE void ldmatrix_x4_trans(uint32_t r[4], uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}

/* ---- asynchronous copies ----------------------------------------------------------------------------------------- */

/* 16 bytes from global to shared memory, past L1; zeros when !inside (the source is then not read). Complete, for
 * this thread, after the cp_async_wait that covers its group. */
GLINT_DEVICE void cp_async_16(uint32_t shared, const void *global, bool inside)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(__cvta_generic_to_global(global)),
                 "r"(inside ? 16u : 0u)
                 : "memory");
}

/* As cp_async_16, for bytes that are not read again soon: L2 evicts them before others. */
GLINT_DEVICE void cp_async_16_once(uint32_t shared, const void *global, bool inside)
{
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(shared),
                 "l"(__cvta_generic_to_global(global)), "r"(inside ? 16u : 0u), "l"(0x12f0000000000000ull)
                 : "memory");
}

/* 4 bytes, for arrays that are not aligned to 16. */
GLINT_DEVICE void cp_async_4(uint32_t shared, const void *global, bool inside)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(__cvta_generic_to_global(global)),
                 "r"(inside ? 4u : 0u)
                 : "memory");
}

/* Closes the group of copies begun since the last one; an empty group counts too. */
GLINT_DEVICE void cp_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most `groups` (a constant, 0 ... 11) of the newest groups are still under way. */
GLINT_DEVICE void cp_async_wait(const int groups)
{
    switch (groups) {
    case 0: asm volatile("cp.async.wait_group 0;" ::: "memory"); break;
    case 1: asm volatile("cp.async.wait_group 1;" ::: "memory"); break;
    case 2: asm volatile("cp.async.wait_group 2;" ::: "memory"); break;
    case 3: asm volatile("cp.async.wait_group 3;" ::: "memory"); break;
    case 4: asm volatile("cp.async.wait_group 4;" ::: "memory"); break;
    case 5: asm volatile("cp.async.wait_group 5;" ::: "memory"); break;
    case 6: asm volatile("cp.async.wait_group 6;" ::: "memory"); break;
    case 7: asm volatile("cp.async.wait_group 7;" ::: "memory"); break;
    case 8: asm volatile("cp.async.wait_group 8;" ::: "memory"); break;
    case 9: asm volatile("cp.async.wait_group 9;" ::: "memory"); break;
    case 10: asm volatile("cp.async.wait_group 10;" ::: "memory"); break;
    default: asm volatile("cp.async.wait_group 11;" ::: "memory"); break;
    }
}

/* ---- global memory ----------------------------------------------------------------------------------------------- */

GLINT_DEVICE void ld_global_u32x4(uint32_t v[4], const void *global)
{
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "l"(__cvta_generic_to_global(global)));
}

GLINT_DEVICE void st_global_u32x4(void *global, const uint32_t v[4])
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(global)), "r"(v[0]), "r"(v[1]),
                 "r"(v[2]), "r"(v[3])
                 : "memory");
}

GLINT_DEVICE void st_global_u32(void *global, uint32_t value)
{
    asm volatile("st.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(global)), "r"(value) : "memory");
}

GLINT_DEVICE void st_global_f32x2(void *global, float x, float y)
{
    asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(global)), "f"(x), "f"(y) : "memory");
}

GLINT_DEVICE float ld_global_f32(const float *global)
{
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(__cvta_generic_to_global(global)) : "memory");
    return value;
}

GLINT_DEVICE void st_global_f32(float *global, float value)
{
    asm volatile("st.global.f32 [%0], %1;" ::"l"(__cvta_generic_to_global(global)), "f"(value) : "memory");
}

/* Past L1: data that other blocks wrote during this launch. */
GLINT_DEVICE float ld_global_cg_f32(const float *global)
{
    float value;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(value) : "l"(__cvta_generic_to_global(global)) : "memory");
    return value;
}

/* Two floats, of an address that is a multiple of 8. */
GLINT_DEVICE void ld_global_f32x2(float v[2], const void *global)
{
    asm volatile("ld.global.v2.f32 {%0, %1}, [%2];" : "=f"(v[0]), "=f"(v[1]) : "l"(__cvta_generic_to_global(global)) : "memory");
}

/* 16 bits, the others 0; the lower 16 bits of a value. */
GLINT_DEVICE uint32_t ld_global_u16(const void *global)
{
    uint32_t value;
    asm volatile("ld.global.u16 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(global)) : "memory");
    return value;
}

GLINT_DEVICE void st_global_u16(void *global, uint32_t value)
{
    asm volatile("st.global.u16 [%0], %1;" ::"l"(__cvta_generic_to_global(global)), "r"(value) : "memory");
}

/* *global += value, without a result. */
GLINT_DEVICE void red_global_add_f32(float *global, float value)
{
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(__cvta_generic_to_global(global)), "f"(value) : "memory");
}

/* Four floats of each of `threads` threads, in an order of its own: the same for the three functions, private to a
 * kernel, and such that a warp's accesses are to neighbours. Since sm_90 one instruction adds all four. */
#if __CUDA_ARCH__ >= 900
GLINT_DEVICE float *slot_of_four(float *base, uint32_t thread)
{
    return base + thread * 4;
}

GLINT_DEVICE void red_four(float *slot, const float v[4], const uint32_t threads)
{
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(slot)), "f"(v[0]),
                 "f"(v[1]), "f"(v[2]), "f"(v[3])
                 : "memory");
}

GLINT_DEVICE void st_four(float *slot, const float v[4], const uint32_t threads)
{
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(slot)), "f"(v[0]), "f"(v[1]), "f"(v[2]),
                 "f"(v[3])
                 : "memory");
}

GLINT_DEVICE void ld_four(float v[4], const float *slot, const uint32_t threads)
{
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "l"(__cvta_generic_to_global(slot))
                 : "memory");
}
#else
GLINT_DEVICE float *slot_of_four(float *base, uint32_t thread)
{
    return base + thread;
}

GLINT_DEVICE void red_four(float *slot, const float v[4], const uint32_t threads)
{
#pragma unroll
    for (int i = 0; i < 4; ++i)
        red_global_add_f32(slot + i * threads, v[i]);
}

GLINT_DEVICE void st_four(float *slot, const float v[4], const uint32_t threads)
{
#pragma unroll
    for (int i = 0; i < 4; ++i)
        st_global_f32(slot + i * threads, v[i]);
}

GLINT_DEVICE void ld_four(float v[4], const float *slot, const uint32_t threads)
{
#pragma unroll
    for (int i = 0; i < 4; ++i)
        v[i] = ld_global_cg_f32(slot + i * threads);
}
#endif

/* Returns the value before. */
GLINT_DEVICE uint32_t atom_global_add_u32(uint32_t *global, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_global(global)), "r"(value)
                 : "memory");
    return before;
}

/* Not cached; orders nothing by itself. */
GLINT_DEVICE uint32_t ld_relaxed_u32(const uint32_t *global)
{
    uint32_t value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(global)) : "memory");
    return value;
}

GLINT_DEVICE uint32_t ld_acquire_u32(const uint32_t *global)
{
    uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(global)) : "memory");
    return value;
}

GLINT_DEVICE void st_release_u32(uint32_t *global, uint32_t value)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(global)), "r"(value) : "memory");
}

/* ---- matrix products --------------------------------------------------------------------------------------------- */

/* d += a b, a 16x16 by rows, b 16x8 by columns, d 16x8. With g = lane >> 2, q = lane & 3:
 *   a[0] (g, 2q..2q+1)  a[1] (g+8, 2q..)  a[2] (g, 2q+8..)  a[3] (g+8, 2q+8..)     b[0] (k 2q.., n g)  b[1] (k 2q+8.., n g)
 *   d[0], d[1] (g, 2q), (g, 2q+1)         d[2], d[3] (g+8, 2q), (g+8, 2q+1) */
GLINT_DEVICE void mma_m16n8k16_bf16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

GLINT_DEVICE void mma_m16n8k16_f16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* d += a b, a 16x8, b 8x8, of tf32 (a float whose low 13 bits are not read).
 *   a[0] (g, q)  a[1] (g+8, q)  a[2] (g, q+4)  a[3] (g+8, q+4)     b0 (k q, n g)  b1 (k q+4, n g)     d as above */
GLINT_DEVICE void mma_m16n8k8_tf32(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* 2^x, denormals flushed: at most 2 ulp. */
GLINT_DEVICE float ex2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

GLINT_DEVICE float lg2(float x)
{
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Two floats rounded to nearest, `low` in the low half. */
GLINT_DEVICE uint32_t pack_bf16(float low, float high)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

GLINT_DEVICE uint32_t pack_f16(float low, float high)
{
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

/* a b + c of two pairs. */
GLINT_DEVICE uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

GLINT_DEVICE uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

GLINT_DEVICE float low_bf16(uint32_t pair)
{
    return __uint_as_float(pair << 16);
}

GLINT_DEVICE float high_bf16(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

GLINT_DEVICE float low_f16(uint32_t pair)
{
    float y;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l; }" : "=f"(y) : "r"(pair));
    return y;
}

GLINT_DEVICE float high_f16(uint32_t pair)
{
    float y;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h; }" : "=f"(y) : "r"(pair));
    return y;
}

/* Rounded to the nearest tf32, of two that are as near away from zero. */
GLINT_DEVICE uint32_t to_tf32(float x)
{
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

/* Rounded to the nearest tf32; of two that are as near to the even one since sm_90, where it is one machine
 * instruction, and away from zero before. */
GLINT_DEVICE uint32_t nearest_tf32(float x)
{
#if __CUDA_ARCH__ >= 900
    uint32_t r;
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
#else
    return to_tf32(x);
#endif
}

GLINT_DEVICE uint32_t bits_of(float x)
{
    return __float_as_uint(x);
}

GLINT_DEVICE float float_of(uint32_t bits)
{
    return __uint_as_float(bits);
}

#endif
