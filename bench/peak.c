#include "bench/peak.h"

#include <string.h>
#include <time.h>

enum { CHAINS = 12, STEPS = 256 }; /* 12 chains hide the latency of two pipes and, with two constants, fit in 16 registers */

enum { STREAMS = 8 }; /* vectors read before the loop's next turn */

static volatile float sink;
static volatile uint64_t read_sink;

/* One function an instruction set: CHAINS vectors of `lanes` floats, each multiplied and added to STEPS times a
 * round. */
#define DEFINE_CHAINS(name, lanes, attribute)                                                         \
    typedef float name##_vector __attribute__((vector_size((lanes) * sizeof(float))));                \
    attribute static void name(uint64_t rounds)                                                       \
    {                                                                                                 \
        name##_vector acc[CHAINS], times, plus, sum = {0};                                            \
        for (int i = 0; i < (lanes); i++) {                                                           \
            times[i] = 0.999F + sink;                                                                 \
            plus[i] = 0.001F + sink;                                                                  \
        }                                                                                             \
        for (int c = 0; c < CHAINS; c++)                                                              \
            acc[c] = times + (float)c;                                                                \
        for (uint64_t r = 0; r < rounds * STEPS; r++) {                                               \
            _Pragma("GCC unroll 12") for (int c = 0; c < CHAINS; c++) acc[c] = acc[c] * times + plus; \
        }                                                                                             \
        for (int c = 0; c < CHAINS; c++)                                                              \
            sum += acc[c];                                                                            \
        if (sum[0] > 1e30F)                                                                           \
            sink = sum[0]; /* never: but the compiler cannot know */                                  \
    }

/* And one that reads whole rounds of STREAMS vectors of `words` 64-bit words; what is left over at the end is less than
 * a kilobyte. */
#define DEFINE_READ(name, words, attribute)                                                  \
    typedef uint64_t name##_vector __attribute__((vector_size((words) * sizeof(uint64_t)))); \
    attribute static void name(const unsigned char *from, size_t bytes)                      \
    {                                                                                        \
        name##_vector sum[STREAMS] = {{0}};                                                  \
        for (size_t i = 0; i + sizeof sum <= bytes; i += sizeof sum) {                       \
            _Pragma("GCC unroll 8") for (size_t s = 0; s < STREAMS; s++)                     \
            {                                                                                \
                name##_vector x;                                                             \
                memcpy(&x, from + i + s * sizeof x, sizeof x);                               \
                sum[s] ^= x;                                                                 \
            }                                                                                \
        }                                                                                    \
        for (size_t s = 1; s < STREAMS; s++)                                                 \
            sum[0] ^= sum[s];                                                                \
        for (size_t w = 1; w < (words); w++)                                                 \
            sum[0][0] ^= sum[0][w];                                                          \
        if (sum[0][0] == 1)                                                                  \
            read_sink = sum[0][0]; /* hardly ever: but the compiler cannot know */           \
    }

#if defined(__x86_64__)
DEFINE_CHAINS(chains_baseline, 4, )
DEFINE_CHAINS(chains_v3, 8, __attribute__((target("avx2,fma"))))
DEFINE_CHAINS(chains_v4, 16, __attribute__((target("avx512f,fma"))))
DEFINE_READ(read_baseline, 2, )
DEFINE_READ(read_v3, 4, __attribute__((target("avx2"))))
DEFINE_READ(read_v4, 8, __attribute__((target("avx512f"))))
#else
DEFINE_CHAINS(chains_baseline, 4, )
DEFINE_READ(read_baseline, 2, )
#endif

struct set {
    void (*chains)(uint64_t rounds);
    double lanes;
    void (*read)(const unsigned char *from, size_t bytes);
};

static struct set find_set(enum glint_isa isa)
{
    struct set none = {0};
    switch (isa) {
#if defined(__x86_64__)
    case GLINT_ISA_X86_64: return (struct set){chains_baseline, 4, read_baseline};
    case GLINT_ISA_X86_64_V3: return __builtin_cpu_supports("fma") ? (struct set){chains_v3, 8, read_v3} : none;
    case GLINT_ISA_X86_64_BF16:
    case GLINT_ISA_X86_64_AMX: /* the peak of its vectors; tiles go beyond it */
    case GLINT_ISA_X86_64_V4: return __builtin_cpu_supports("avx512f") ? (struct set){chains_v4, 16, read_v4} : none;
#else
    case GLINT_ISA_AARCH64: return (struct set){chains_baseline, 4, read_baseline};
#endif
    default: return none;
    }
}

struct work {
    struct set set;
    uint64_t rounds;
};

static void run(void *argument, uint32_t index)
{
    const struct work *work = argument;
    (void)index;
    work->set.chains(work->rounds);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double peak_flops(enum glint_isa isa, const struct glint_executor *executor, double seconds)
{
    struct work work = {find_set(isa), 64};
    if (!work.set.chains)
        return 0;
    for (;;) {
        double start = now();
        executor->parallel_for(executor->user, executor->concurrency, run, &work);
        double took = now() - start;
        if (took >= seconds / 2)
            return 2 * work.set.lanes * CHAINS * STEPS * (double)work.rounds * (double)executor->concurrency / took;
        double factor = took > 1e-6 ? seconds / took : 64;
        work.rounds = (uint64_t)((double)work.rounds * (factor < 1.5 ? 1.5 : factor > 64 ? 64 : factor));
    }
}

struct reading {
    struct set set;
    const unsigned char *from[2];
    size_t bytes;
    uint32_t parts;
};

static void read_part(void *argument, uint32_t index)
{
    const struct reading *r = argument;
    const size_t begin = r->bytes * index / r->parts, end = r->bytes * (index + 1) / r->parts;
    for (int i = 0; i < 2; i++)
        r->set.read(r->from[i] + begin, end - begin);
}

double read_ms(enum glint_isa isa, const struct glint_executor *executor, const void *a, const void *b, size_t bytes,
               double seconds)
{
    struct reading reading = {find_set(isa), {a, b}, bytes, executor->concurrency};
    if (!reading.set.read)
        return 0;
    executor->parallel_for(executor->user, executor->concurrency, read_part, &reading); /* not counted */
    double start = now(), took = 0;
    size_t times = 0;
    while (took < seconds) {
        executor->parallel_for(executor->user, executor->concurrency, read_part, &reading);
        times++;
        took = now() - start;
    }
    return 1e3 * took / (double)times;
}
