/* The simulator's implementation of the primitives of lib/device/wgmma.h. */
#ifndef GLINT_HOSTSIM_WGMMA_IMPL_H
#define GLINT_HOSTSIM_WGMMA_IMPL_H

GLINT_DEVICE void wgmma_fence(SIM_SITE)
{
    sim::wgmma_fence(SIM_THIS);
}

GLINT_DEVICE void wgmma_commit(SIM_SITE)
{
    sim::wgmma_commit(SIM_THIS);
}

template <int groups> GLINT_DEVICE void wgmma_wait(SIM_SITE)
{
    static_assert(groups >= 0 && groups <= 7, "0 to 7");
    sim::wgmma_wait(groups, SIM_THIS);
}

GLINT_DEVICE void wgmma_hold(float d[], const int n, SIM_SITE)
{
    sim::wgmma_hold(d, n, SIM_THIS);
}

GLINT_DEVICE void wgmma_hold(uint32_t a[], const int n, SIM_SITE)
{
    sim::wgmma_hold(a, n, SIM_THIS);
}

#define GLINT_WGMMA_16(n, type)                                                                                             \
    template <int transpose_a, int transpose_b, int scale_a = 1, int scale_b = 1>                                           \
    GLINT_DEVICE void wgmma_m64n##n##k16_##type(float d[n / 2], uint64_t a, uint64_t b, int32_t accumulate, SIM_SITE)       \
    {                                                                                                                       \
        sim::wgmma({sim::Element::type, n, d, nullptr, a, b, transpose_a != 0, transpose_b != 0, scale_a < 0, scale_b < 0,  \
                    accumulate != 0},                                                                                       \
                   SIM_THIS);                                                                                               \
    }                                                                                                                       \
    template <int transpose_b, int scale_a = 1, int scale_b = 1>                                                            \
    GLINT_DEVICE void wgmma_m64n##n##k16_##type##_ra(float d[n / 2], const uint32_t a[4], uint64_t b, int32_t accumulate,   \
                                                     SIM_SITE)                                                              \
    {                                                                                                                       \
        sim::wgmma({sim::Element::type, n, d, a, 0, b, false, transpose_b != 0, scale_a < 0, scale_b < 0, accumulate != 0}, \
                   SIM_THIS);                                                                                               \
    }

#define GLINT_WGMMA_SHAPE(n, p0, p1, p2, p3, p4, p5, p6, p7, p8)                                                                  \
    GLINT_WGMMA_16(n, bf16)                                                                                                       \
    GLINT_WGMMA_16(n, f16)                                                                                                        \
    template <int scale_a = 1, int scale_b = 1>                                                                                   \
    GLINT_DEVICE void wgmma_m64n##n##k8_tf32(float d[n / 2], uint64_t a, uint64_t b, int32_t accumulate, SIM_SITE)                \
    {                                                                                                                             \
        sim::wgmma({sim::Element::tf32, n, d, nullptr, a, b, false, false, scale_a < 0, scale_b < 0, accumulate != 0}, SIM_THIS); \
    }                                                                                                                             \
    template <int scale_a = 1, int scale_b = 1>                                                                                   \
    GLINT_DEVICE void wgmma_m64n##n##k8_tf32_ra(float d[n / 2], const uint32_t a[4], uint64_t b, int32_t accumulate, SIM_SITE)    \
    {                                                                                                                             \
        sim::wgmma({sim::Element::tf32, n, d, a, 0, b, false, false, scale_a < 0, scale_b < 0, accumulate != 0}, SIM_THIS);       \
    }

#endif
