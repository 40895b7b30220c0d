/* Micro-kernels of wgmma.h: one product of every shape, type and source of a, on a shared memory filled with random operands, with
 * descriptors that the case gives; and a chain of groups. */
#include "lib/device/hopper.h"
#include "tests/hostsim/micro/micro.h"

/* In: arg 0 words of shared memory, then d, then a as registers, 128 threads side by side. Arguments from 1 on: of a, then of b: offset,
 * leading, stride, swizzle; arg 9: their base offsets, arg 10: accumulate. */
struct operands {
    const uint32_t *d;
    uint32_t ra[4];
    uint64_t a, b;
};

GLINT_DEVICE struct operands load_operands(const struct micro_params *p, const uint32_t n)
{
    const uint32_t shared = shared_base();
    struct operands o;

    for (uint32_t i = thread_index(); i < p->arg[0]; i += 128)
        st_shared_u32(shared + 4 * i, ld_relaxed_u32(p->in + i));
    fence_async_shared();
    block_sync();
    o.d = p->in + p->arg[0] + thread_index();
    for (uint32_t i = 0; i < 4; ++i)
        o.ra[i] = ld_relaxed_u32(o.d + 128 * (n / 2 + i));
    o.a = matrix_descriptor(shared + p->arg[1], p->arg[2], p->arg[3], (enum tensor_map_swizzle)p->arg[4]);
    o.b = matrix_descriptor(shared + p->arg[5], p->arg[6], p->arg[7], (enum tensor_map_swizzle)p->arg[8]);
    o.a |= (uint64_t)(p->arg[9] & 7) << 49;
    o.b |= (uint64_t)(p->arg[9] >> 4 & 7) << 49;
    return o;
}

#define WGMMA_KERNEL(name, n, product)                                                                                    \
    GLINT_KERNEL(128, 1) micro_##name(GLINT_PARAMS(struct micro_params) p)                                                \
    {                                                                                                                     \
        struct operands o = load_operands(&p, n);                                                                         \
        float d[n / 2];                                                                                                   \
                                                                                                                          \
        _Pragma("unroll") for (int i = 0; i < n / 2; ++i) d[i] = float_of(ld_relaxed_u32(o.d + 128 * i));                 \
        wgmma_hold(d, n / 2);                                                                                             \
        wgmma_hold(o.ra, 4);                                                                                              \
        wgmma_fence();                                                                                                    \
        product;                                                                                                          \
        wgmma_commit();                                                                                                   \
        wgmma_wait<0>();                                                                                                  \
        wgmma_hold(d, n / 2);                                                                                             \
        _Pragma("unroll") for (int i = 0; i < n / 2; ++i) st_global_u32(p.out + 128 * i + thread_index(), bits_of(d[i])); \
    }

#define SHAPE(n)                                                                                             \
    WGMMA_KERNEL(wgmma_n##n##_bf16, n, (wgmma_m64n##n##k16_bf16<0, 0>(d, o.a, o.b, (int32_t)p.arg[10])))     \
    WGMMA_KERNEL(wgmma_n##n##_f16, n, (wgmma_m64n##n##k16_f16<0, 0>(d, o.a, o.b, (int32_t)p.arg[10])))       \
    WGMMA_KERNEL(wgmma_n##n##_tf32, n, (wgmma_m64n##n##k8_tf32<>(d, o.a, o.b, (int32_t)p.arg[10])))          \
    WGMMA_KERNEL(wgmma_n##n##_bf16_ra, n, (wgmma_m64n##n##k16_bf16_ra<0>(d, o.ra, o.b, (int32_t)p.arg[10]))) \
    WGMMA_KERNEL(wgmma_n##n##_f16_ra, n, (wgmma_m64n##n##k16_f16_ra<0>(d, o.ra, o.b, (int32_t)p.arg[10])))   \
    WGMMA_KERNEL(wgmma_n##n##_tf32_ra, n, (wgmma_m64n##n##k8_tf32_ra<>(d, o.ra, o.b, (int32_t)p.arg[10])))
SHAPE(8)
SHAPE(16)
SHAPE(24)
SHAPE(32)
SHAPE(40)
SHAPE(48)
SHAPE(56)
SHAPE(64)
SHAPE(72)
SHAPE(80)
SHAPE(88)
SHAPE(96)
SHAPE(104)
SHAPE(112)
SHAPE(120)
SHAPE(128)
SHAPE(136)
SHAPE(144)
SHAPE(152)
SHAPE(160)
SHAPE(168)
SHAPE(176)
SHAPE(184)
SHAPE(192)
SHAPE(200)
SHAPE(208)
SHAPE(216)
SHAPE(224)
SHAPE(232)
SHAPE(240)
SHAPE(248)
SHAPE(256)

/* Transposed operands: _nt a K-major, b MN-major, and so on. */
#define MAJORS(n, type)                                                                                           \
    WGMMA_KERNEL(wgmma_n##n##_##type##_nt, n, (wgmma_m64n##n##k16_##type<0, 1>(d, o.a, o.b, (int32_t)p.arg[10]))) \
    WGMMA_KERNEL(wgmma_n##n##_##type##_tn, n, (wgmma_m64n##n##k16_##type<1, 0>(d, o.a, o.b, (int32_t)p.arg[10]))) \
    WGMMA_KERNEL(wgmma_n##n##_##type##_tt, n, (wgmma_m64n##n##k16_##type<1, 1>(d, o.a, o.b, (int32_t)p.arg[10]))) \
    WGMMA_KERNEL(wgmma_n##n##_##type##_ra_t, n, (wgmma_m64n##n##k16_##type##_ra<1>(d, o.ra, o.b, (int32_t)p.arg[10])))
MAJORS(64, bf16)
MAJORS(64, f16)
MAJORS(192, bf16)
MAJORS(256, bf16)

/* Negated operands. */
WGMMA_KERNEL(wgmma_n64_bf16_minus_a, 64, (wgmma_m64n64k16_bf16<0, 0, -1, 1>(d, o.a, o.b, (int32_t)p.arg[10])))
WGMMA_KERNEL(wgmma_n64_bf16_minus_b, 64, (wgmma_m64n64k16_bf16<0, 0, 1, -1>(d, o.a, o.b, (int32_t)p.arg[10])))
WGMMA_KERNEL(wgmma_n64_f16_minus_both, 64, (wgmma_m64n64k16_f16<0, 0, -1, -1>(d, o.a, o.b, (int32_t)p.arg[10])))
WGMMA_KERNEL(wgmma_n64_f16_ra_minus_a, 64, (wgmma_m64n64k16_f16_ra<0, -1, 1>(d, o.ra, o.b, (int32_t)p.arg[10])))
WGMMA_KERNEL(wgmma_n64_tf32_minus_b, 64, (wgmma_m64n64k8_tf32<1, -1>(d, o.a, o.b, (int32_t)p.arg[10])))

/* Four k-steps of a 64 x 64 x 64 product into e, in two groups, round one product into d: e is read while nothing else is under way, and d
 * goes on. Steps are 32 bytes apart. */
GLINT_KERNEL(128, 1) micro_wgmma_groups(GLINT_PARAMS(struct micro_params) p)
{
    const struct operands o = load_operands(&p, 128);
    float d[32], e[32];

    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k)
        wgmma_m64n64k16_bf16<0, 0>(e, o.a + 2 * k, o.b + 2 * k, k != 0);
    wgmma_commit();
    wgmma_m64n64k16_f16<0, 0>(d, o.a, o.b, 0);
    wgmma_commit();
    wgmma_wait<1>();
    wgmma_hold(e, 32);
#pragma unroll
    for (int i = 0; i < 32; ++i)
        st_global_u32(p.out + 128 * i + thread_index(), bits_of(e[i]));
    wgmma_fence();
    wgmma_m64n64k16_f16<0, 0>(d, o.a + 2, o.b + 2, 1);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(d, 32);
#pragma unroll
    for (int i = 0; i < 32; ++i)
        st_global_u32(p.out + 128 * (32 + i) + thread_index(), bits_of(d[i]));
}

/* Negated operands of tf32, and the second operand negated beside a in registers. */
WGMMA_KERNEL(wgmma_n64_bf16_ra_minus_b, 64, (wgmma_m64n64k16_bf16_ra<0, 1, -1>(d, o.ra, o.b, (int32_t)p.arg[10])))
WGMMA_KERNEL(wgmma_n64_tf32_minus_a, 64, (wgmma_m64n64k8_tf32<-1, 1>(d, o.a, o.b, (int32_t)p.arg[10])))
WGMMA_KERNEL(wgmma_n64_tf32_ra_minus_a, 64, (wgmma_m64n64k8_tf32_ra<-1, 1>(d, o.ra, o.b, (int32_t)p.arg[10])))
WGMMA_KERNEL(wgmma_n64_tf32_ra_minus_b, 64, (wgmma_m64n64k8_tf32_ra<1, -1>(d, o.ra, o.b, (int32_t)p.arg[10])))

/* Eight groups of one product each, read one after another as each wait lets it: group i takes k-step i % 4, of a or, from the fourth on,
 * of its registers. */
GLINT_KERNEL(128, 1) micro_wgmma_waits(GLINT_PARAMS(struct micro_params) p)
{
    const struct operands o = load_operands(&p, 8);
    float d[8][4];

    wgmma_fence();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (i < 4)
            wgmma_m64n8k8_tf32<>(d[i], o.a + 2 * i, o.b + 2 * i, 0);
        else
            wgmma_m64n8k8_tf32_ra<>(d[i], o.ra, o.b + 2 * (i - 4), 0);
        wgmma_commit();
    }
#define SHOW(i)          \
    wgmma_wait<7 - i>(); \
    wgmma_hold(d[i], 4); \
    _Pragma("unroll") for (int j = 0; j < 4; ++j) st_global_u32(p.out + 128 * (4 * i + j) + thread_index(), bits_of(d[i][j]))
    SHOW(0);
    SHOW(1);
    SHOW(2);
    SHOW(3);
    SHOW(4);
    SHOW(5);
    SHOW(6);
    SHOW(7);
}
