/* The primitives of lib/device/wgmma.h in PTX, for nvcc (-Ilib/device/ptx), and the macro that makes those of one
 * shape. */
#ifndef GLINT_DEVICE_PTX_WGMMA_IMPL_H
#define GLINT_DEVICE_PTX_WGMMA_IMPL_H

/* "wgmma.fence": orders accesses to registers, and those to shared memory through the async proxy, before the
 * products after. */
GLINT_DEVICE void wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* "wgmma.commit_group": closes the group of products since the last one. */
GLINT_DEVICE void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* "wgmma.wait_group": until at most the newest `groups` (0 ... 7) groups are under way. */
template <int groups> GLINT_DEVICE void wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
}

/* No instruction: what uses d after stays after, what wrote it before stays before. */
GLINT_DEVICE void wgmma_hold(float d[], const int n)
{
#pragma unroll
    for (int i = 0; i < n; ++i)
        asm volatile("" : "+f"(d[i])::"memory");
}

/* Holds operand A's registers in the same way. */
GLINT_DEVICE void wgmma_hold(uint32_t a[], const int n)
{
#pragma unroll
    for (int i = 0; i < n; ++i)
        asm volatile("" : "+r"(a[i])::"memory");
}

/* The accumulators in the instruction's text and as its operands, for n columns. */
/* clang-format off */
#define GLINT_D_TEXT_8 "%0, %1, %2, %3"
#define GLINT_D_TEXT_16 GLINT_D_TEXT_8 ", %4, %5, %6, %7"
#define GLINT_D_TEXT_24 GLINT_D_TEXT_16 ", %8, %9, %10, %11"
#define GLINT_D_TEXT_32 GLINT_D_TEXT_24 ", %12, %13, %14, %15"
#define GLINT_D_TEXT_40 GLINT_D_TEXT_32 ", %16, %17, %18, %19"
#define GLINT_D_TEXT_48 GLINT_D_TEXT_40 ", %20, %21, %22, %23"
#define GLINT_D_TEXT_56 GLINT_D_TEXT_48 ", %24, %25, %26, %27"
#define GLINT_D_TEXT_64 GLINT_D_TEXT_56 ", %28, %29, %30, %31"
#define GLINT_D_TEXT_72 GLINT_D_TEXT_64 ", %32, %33, %34, %35"
#define GLINT_D_TEXT_80 GLINT_D_TEXT_72 ", %36, %37, %38, %39"
#define GLINT_D_TEXT_88 GLINT_D_TEXT_80 ", %40, %41, %42, %43"
#define GLINT_D_TEXT_96 GLINT_D_TEXT_88 ", %44, %45, %46, %47"
#define GLINT_D_TEXT_104 GLINT_D_TEXT_96 ", %48, %49, %50, %51"
#define GLINT_D_TEXT_112 GLINT_D_TEXT_104 ", %52, %53, %54, %55"
#define GLINT_D_TEXT_120 GLINT_D_TEXT_112 ", %56, %57, %58, %59"
#define GLINT_D_TEXT_128 GLINT_D_TEXT_120 ", %60, %61, %62, %63"
#define GLINT_D_TEXT_136 GLINT_D_TEXT_128 ", %64, %65, %66, %67"
#define GLINT_D_TEXT_144 GLINT_D_TEXT_136 ", %68, %69, %70, %71"
#define GLINT_D_TEXT_152 GLINT_D_TEXT_144 ", %72, %73, %74, %75"
#define GLINT_D_TEXT_160 GLINT_D_TEXT_152 ", %76, %77, %78, %79"
#define GLINT_D_TEXT_168 GLINT_D_TEXT_160 ", %80, %81, %82, %83"
#define GLINT_D_TEXT_176 GLINT_D_TEXT_168 ", %84, %85, %86, %87"
#define GLINT_D_TEXT_184 GLINT_D_TEXT_176 ", %88, %89, %90, %91"
#define GLINT_D_TEXT_192 GLINT_D_TEXT_184 ", %92, %93, %94, %95"
#define GLINT_D_TEXT_200 GLINT_D_TEXT_192 ", %96, %97, %98, %99"
#define GLINT_D_TEXT_208 GLINT_D_TEXT_200 ", %100, %101, %102, %103"
#define GLINT_D_TEXT_216 GLINT_D_TEXT_208 ", %104, %105, %106, %107"
#define GLINT_D_TEXT_224 GLINT_D_TEXT_216 ", %108, %109, %110, %111"
#define GLINT_D_TEXT_232 GLINT_D_TEXT_224 ", %112, %113, %114, %115"
#define GLINT_D_TEXT_240 GLINT_D_TEXT_232 ", %116, %117, %118, %119"
#define GLINT_D_TEXT_248 GLINT_D_TEXT_240 ", %120, %121, %122, %123"
#define GLINT_D_TEXT_256 GLINT_D_TEXT_248 ", %124, %125, %126, %127"
#define GLINT_D_8 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define GLINT_D_16 GLINT_D_8, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define GLINT_D_24 GLINT_D_16, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define GLINT_D_32 GLINT_D_24, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define GLINT_D_40 GLINT_D_32, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define GLINT_D_48 GLINT_D_40, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define GLINT_D_56 GLINT_D_48, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define GLINT_D_64 GLINT_D_56, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define GLINT_D_72 GLINT_D_64, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define GLINT_D_80 GLINT_D_72, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define GLINT_D_88 GLINT_D_80, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define GLINT_D_96 GLINT_D_88, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define GLINT_D_104 GLINT_D_96, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define GLINT_D_112 GLINT_D_104, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define GLINT_D_120 GLINT_D_112, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define GLINT_D_128 GLINT_D_120, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define GLINT_D_136 GLINT_D_128, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define GLINT_D_144 GLINT_D_136, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define GLINT_D_152 GLINT_D_144, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define GLINT_D_160 GLINT_D_152, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define GLINT_D_168 GLINT_D_160, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define GLINT_D_176 GLINT_D_168, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define GLINT_D_184 GLINT_D_176, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define GLINT_D_192 GLINT_D_184, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define GLINT_D_200 GLINT_D_192, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define GLINT_D_208 GLINT_D_200, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define GLINT_D_216 GLINT_D_208, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define GLINT_D_224 GLINT_D_216, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define GLINT_D_232 GLINT_D_224, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define GLINT_D_240 GLINT_D_232, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define GLINT_D_248 GLINT_D_240, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define GLINT_D_256 GLINT_D_248, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
/* clang-format on */

/* "%p" is set where the product accumulates; the operands after d are numbered n / 2, ... */
#define GLINT_WGMMA_TEXT(shape, types, n, operands, accumulate)                                                                   \
    "{ .reg .pred p; setp.ne.b32 p, %" #accumulate ", 0; wgmma.mma_async.sync.aligned." shape ".f32." types " {" GLINT_D_TEXT_##n \
        "}, " operands "; }"

/* The four functions of one shape and 16-bit type, a and b in shared memory, or a in registers (_ra). transpose: the
 * operand is MN-major; scale: -1 negates the operand. */
#define GLINT_WGMMA_16(n, type, p0, p1, p2, p3, p4, p5, p6, p7, p8)                                                           \
    template <int transpose_a, int transpose_b, int scale_a = 1, int scale_b = 1>                                             \
    GLINT_DEVICE void wgmma_m64n##n##k16_##type(float d[n / 2], uint64_t a, uint64_t b, int32_t accumulate)                   \
    {                                                                                                                         \
        asm volatile(GLINT_WGMMA_TEXT("m64n" #n "k16", #type "." #type, n,                                                    \
                                      "%" #p0 ", %" #p1 ", p, %" #p3 ", %" #p4 ", %" #p5 ", %" #p6, p2)                       \
                     : GLINT_D_##n                                                                                            \
                     : "l"(a), "l"(b), "r"(accumulate), "n"(scale_a), "n"(scale_b), "n"(transpose_a), "n"(transpose_b));      \
    }                                                                                                                         \
    template <int transpose_b, int scale_a = 1, int scale_b = 1>                                                              \
    GLINT_DEVICE void wgmma_m64n##n##k16_##type##_ra(float d[n / 2], const uint32_t a[4], uint64_t b, int32_t accumulate)     \
    {                                                                                                                         \
        asm volatile(GLINT_WGMMA_TEXT("m64n" #n "k16", #type "." #type, n,                                                    \
                                      "{%" #p0 ", %" #p1 ", %" #p2 ", %" #p3 "}, %" #p4 ", p, %" #p6 ", %" #p7 ", %" #p8, p5) \
                     : GLINT_D_##n                                                                                            \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(scale_a), "n"(scale_b),       \
                       "n"(transpose_b));                                                                                     \
    }

/* tf32: both operands K-major. */
#define GLINT_WGMMA_32(n, p0, p1, p2, p3, p4, p5, p6, p7)                                                                \
    template <int scale_a = 1, int scale_b = 1>                                                                          \
    GLINT_DEVICE void wgmma_m64n##n##k8_tf32(float d[n / 2], uint64_t a, uint64_t b, int32_t accumulate)                 \
    {                                                                                                                    \
        asm volatile(GLINT_WGMMA_TEXT("m64n" #n "k8", "tf32.tf32", n, "%" #p0 ", %" #p1 ", p, %" #p3 ", %" #p4, p2)      \
                     : GLINT_D_##n                                                                                       \
                     : "l"(a), "l"(b), "r"(accumulate), "n"(scale_a), "n"(scale_b));                                     \
    }                                                                                                                    \
    template <int scale_a = 1, int scale_b = 1>                                                                          \
    GLINT_DEVICE void wgmma_m64n##n##k8_tf32_ra(float d[n / 2], const uint32_t a[4], uint64_t b, int32_t accumulate)     \
    {                                                                                                                    \
        asm volatile(GLINT_WGMMA_TEXT("m64n" #n "k8", "tf32.tf32", n,                                                    \
                                      "{%" #p0 ", %" #p1 ", %" #p2 ", %" #p3 "}, %" #p4 ", p, %" #p6 ", %" #p7, p5)      \
                     : GLINT_D_##n                                                                                       \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(scale_a), "n"(scale_b)); \
    }

#define GLINT_WGMMA_SHAPE(n, p0, p1, p2, p3, p4, p5, p6, p7, p8) \
    GLINT_WGMMA_16(n, bf16, p0, p1, p2, p3, p4, p5, p6, p7, p8)  \
    GLINT_WGMMA_16(n, f16, p0, p1, p2, p3, p4, p5, p6, p7, p8)   \
    GLINT_WGMMA_32(n, p0, p1, p2, p3, p4, p5, p6, p7)

#endif
