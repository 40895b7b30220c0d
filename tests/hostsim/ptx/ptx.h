/* What C++ made of PTX by translate.lua calls, beside the engine itself: numbers as the PTX ISA has them, accesses to
 * memory, warps, and which stretches of the code were reached. What is called thousands of times in a kernel is no
 * inline function: so a kernel is compiled in two thirds of the time. */
#ifndef GLINT_HOSTSIM_PTX_H
#define GLINT_HOSTSIM_PTX_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tests/hostsim/copies.h"
#include "tests/hostsim/engine.h"
#include "tests/hostsim/hopper.h"
#include "tests/hostsim/image.h"
#include "tests/hostsim/numbers.h"
#include "tests/hostsim/warp.h"

#define PTX_CALLED static __attribute__((noinline, unused))

namespace ptx
{

/* ---- numbers ---- */

inline uint32_t bits(float x)
{
    uint32_t word;
    std::memcpy(&word, &x, sizeof word);
    return word;
}

inline float number(uint32_t word)
{
    float x;
    std::memcpy(&x, &word, sizeof x);
    return x;
}

/* By zero: all ones, and the dividend as remainder. The least number by -1 overflows to itself. */
template <typename T> T divide(T a, T b)
{
    if (b == 0)
        return (T)-1;
    if (std::is_signed<T>::value && b == (T)-1)
        return (T)(0 - (typename std::make_unsigned<T>::type)a);
    return (T)(a / b);
}

template <typename T> T remainder(T a, T b)
{
    if (b == 0)
        return a;
    return std::is_signed<T>::value && b == (T)-1 ? 0 : (T)(a % b);
}

template <typename T> typename std::make_unsigned<T>::type magnitude(T a)
{
    typedef typename std::make_unsigned<T>::type word;
    return a < 0 ? (word)(0 - (word)a) : (word)a;
}

inline uint32_t multiply_high(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

inline int32_t multiply_high(int32_t a, int32_t b)
{
    return (int32_t)((int64_t)a * b >> 32);
}

inline uint64_t multiply_high(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

inline int64_t multiply_high(int64_t a, int64_t b)
{
    return (int64_t)((__int128)a * b >> 64);
}

/* Shifts by the width and more leave nothing, or the sign alone. */
template <typename T> T shift_left(T a, uint32_t n)
{
    return n >= 8 * sizeof(T) ? 0 : (T)(a << n);
}

template <typename T> T shift_right(T a, uint32_t n)
{
    return n >= 8 * sizeof(T) ? (T)(a < 0 ? -1 : 0) : (T)(a >> n);
}

inline uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t n)
{
    return (uint32_t)(((uint64_t)high << 32 | low) << (n & 31) >> 32);
}

inline uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t n)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> (n & 31));
}

/* "bfi": `count` bits of a in place of those of b from bit `at` on. */
template <typename T> T insert(T a, T b, uint32_t at, uint32_t count)
{
    constexpr uint32_t WIDTH = 8 * sizeof(T);
    at &= 0xff, count &= 0xff;
    if (at >= WIDTH)
        return b;
    const T mask = (T)((count >= WIDTH ? ~(T)0 : (T)(((T)1 << count) - 1)) << at);
    return (T)((a << at & mask) | (b & ~mask));
}

/* "bfe": beyond the last bit there are zeros, or the sign. */
inline uint32_t extract(uint32_t a, uint32_t at, uint32_t count)
{
    at &= 0xff, count &= 0xff;
    return at > 31 ? 0 : a >> at & (count > 31 ? ~0u : (1u << count) - 1);
}

inline int32_t extract(int32_t a, uint32_t at, uint32_t count)
{
    at &= 0xff, count &= 0xff;
    if (count == 0)
        return 0;
    const uint32_t last = at + count - 1 > 31 ? 31 : at + count - 1;
    return (int32_t)(extract((uint32_t)a, at, count) | (a >> last & 1 ? ~0u << (at > 31 ? 0 : last - at) : 0));
}

inline uint32_t permute(uint32_t a, uint32_t b, uint32_t select)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
        const uint32_t chosen = select >> (4 * i) & 0xf, byte = (uint32_t)(bytes >> (8 * (chosen & 7))) & 0xff;
        result |= (chosen & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << (8 * i);
    }
    return result;
}

inline uint32_t logic(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t result = 0;
    for (uint32_t i = 0; i < 8; ++i)
        if (table >> i & 1)
            result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}

inline uint32_t leading_zeros(uint32_t a)
{
    return a == 0 ? 32 : (uint32_t)__builtin_clz(a);
}

inline uint32_t reversed(uint32_t a)
{
    uint32_t result = 0;
    for (int i = 0; i < 32; ++i)
        result |= (a >> i & 1) << (31 - i);
    return result;
}

/* "min", "max": of a NaN and a number, the number; -0 is less than +0. */
inline float least(float a, float b)
{
    return a < b || b != b ? a : a == b ? number(bits(a) | bits(b)) : b;
}

inline float greatest(float a, float b)
{
    return a > b || b != b ? a : a == b ? number(bits(a) & bits(b)) : b;
}

/* A whole number as the nearest of the type; NaN is 0. */
template <typename T> T whole(float rounded)
{
    const double x = rounded, low = (double)std::numeric_limits<T>::min(), high = (double)std::numeric_limits<T>::max();
    return x != x ? 0 : x <= low ? std::numeric_limits<T>::min() : x >= high ? std::numeric_limits<T>::max() : (T)x;
}

PTX_CALLED float ex2(float x, sim::Site site)
{
    sim::event("ex2", site);
    return sim::ex2(x);
}

PTX_CALLED float lg2(float x, sim::Site site)
{
    sim::event("lg2", site);
    return sim::lg2(x);
}

PTX_CALLED uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    return sim::fma_bf16(a & 0xffff, b & 0xffff, c & 0xffff) | sim::fma_bf16(a >> 16, b >> 16, c >> 16) << 16;
}

PTX_CALLED uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    return sim::fma_f16(a & 0xffff, b & 0xffff, c & 0xffff) | sim::fma_f16(a >> 16, b >> 16, c >> 16) << 16;
}

/* ---- memory ---- */

template <typename T, int N>
__attribute__((noinline)) void load_parameter(T (&v)[N], const unsigned char *parameters, uint32_t size, uint64_t address,
                                              sim::Site site)
{
    const uint64_t at = address - (uint64_t)(uintptr_t)parameters;
    if (at > size || sizeof v > size - at)
        sim::report(sim::Kind::bounds, site, "ld.param at offset %lld of a parameter of %u bytes", (long long)at, size);
    std::memcpy(v, parameters + at, sizeof v);
}

template <typename T, int N>
__attribute__((noinline)) void load_shared(const char *name, T (&v)[N], uint32_t address, sim::Site site)
{
    sim::event(name, site, address, sizeof v);
    if (sim::counting)
        sim::cost_shared(name, address, sizeof v, site);
    std::memcpy(v, sim::shared(address, sizeof v, sim::Use::read, site), sizeof v);
}

template <typename T, int N>
__attribute__((noinline)) void store_shared(const char *name, uint32_t address, const T (&v)[N], sim::Site site)
{
    sim::event(name, site, address, sizeof v);
    if (sim::counting)
        sim::cost_shared(name, address, sizeof v, site);
    std::memcpy(sim::shared(address, sizeof v, sim::Use::write, site), v, sizeof v);
}

template <typename T, int N>
__attribute__((noinline)) void load_global(const char *name, T (&v)[N], uint64_t address, sim::Site site)
{
    sim::event(name, site, address, sizeof v);
    if (sim::counting)
        sim::cost_global(name, (const void *)address, sizeof v, site);
    std::memcpy(v, sim::global((const void *)address, sizeof v, sim::Use::read, site), sizeof v);
}

template <typename T, int N>
__attribute__((noinline)) void store_global(const char *name, uint64_t address, const T (&v)[N], sim::Site site)
{
    sim::event(name, site, address, sizeof v);
    if (sim::counting)
        sim::cost_global(name, (const void *)address, sizeof v, site);
    std::memcpy(sim::global((const void *)address, sizeof v, sim::Use::write, site), v, sizeof v);
}

template <int N> __attribute__((noinline)) void add_global(uint64_t address, const float (&v)[N], sim::Site site)
{
    const char *name = N == 1 ? "red.global" : "red.global.v4";
    sim::event(name, site, address, sizeof v);
    if (sim::counting)
        sim::cost_global(name, (const void *)address, sizeof v, site);
    float *at = (float *)(void *)sim::global((const void *)address, sizeof v, sim::Use::atomic, site);
    for (int i = 0; i < N; ++i)
        at[i] = sim::add_flushed(at[i], v[i]);
}

template <typename F> uint32_t atomic(uint64_t address, uint32_t operand, F result, sim::Site site)
{
    const void *word = (const void *)address;
    sim::event("atom.global", site, address);
    uint32_t *at = (uint32_t *)(void *)sim::global(word, 4, sim::Use::atomic, site);
    const uint32_t before = *at;
    *at = result(before, operand);
    sim::relaxed_read_from(word);
    sim::relaxed_write_to(word, true);
    sim::progress();
    return before;
}

/* Reads that ask whether something has changed let others run first. */
PTX_CALLED uint32_t load_relaxed(uint64_t address, sim::Site site)
{
    const void *word = (const void *)address;
    sim::poll("ld.relaxed", site);
    const uint32_t value = *(const uint32_t *)(const void *)sim::global_strong_read(word, site);
    sim::relaxed_read_from(word);
    return value;
}

PTX_CALLED uint32_t load_acquire(uint64_t address, sim::Site site)
{
    const void *word = (const void *)address;
    sim::poll("ld.acquire", site);
    const uint32_t value = *(const uint32_t *)(const void *)sim::global_strong_read(word, site);
    sim::event("ld.acquire", site, address, value);
    sim::acquire_from(word);
    return value;
}

PTX_CALLED void store_release(uint64_t address, uint32_t value, sim::Site site)
{
    void *word = (void *)address;
    sim::event("st.release", site, address, value);
    *(uint32_t *)(void *)sim::global_strong_write(word, site) = value;
    sim::release_to(word);
    sim::progress();
}

PTX_CALLED void copy(uint32_t shared, uint64_t from, uint32_t bytes, uint32_t read, sim::Site site)
{
    if (read != 0 && read != bytes)
        sim::report(sim::Kind::misuse, site, "cp.async reads %u of %u bytes; the simulator knows all of them and none", read,
                    bytes);
    if (sim::counting) {
        sim::cost_shared("cp.async", shared, bytes, site);
        if (read != 0)
            sim::cost_global("cp.async.source", (const void *)from, bytes, site);
    }
    sim::copy_begin(shared, (const void *)from, bytes, read != 0, site);
}

PTX_CALLED void fence(sim::Site site)
{
    sim::event("fence", site);
    sim::fence();
}

PTX_CALLED void fence_mbarrier_init(sim::Site site)
{
    sim::event("fence.mbarrier_init", site);
    sim::mbarriers_fenced();
}

PTX_CALLED bool mbarrier_test(uint32_t barrier, uint32_t parity, sim::Site site)
{
    return sim::mbarrier_test(barrier, parity, "mbarrier.test_wait", site);
}

/* ---- warps ---- */

inline void whole_warp(uint32_t members, sim::Site site)
{
    if (members != 0xffffffffu)
        sim::report(sim::Kind::misuse, site, "the member mask 0x%x; the simulator knows whole warps, 0xffffffff", members);
}

enum class Shuffle { idx, bfly, up, down };

struct ShuffleArgument {
    Shuffle mode;
    uint32_t value, b, c;
    bool valid;
};

/* PTX ISA, "shfl.sync": c has the clamp in its low bits and the mask of segments from bit 8 on. A lane whose source
 * lies outside keeps its own. */
inline void perform_shuffle(sim::Warp *, void *const arguments[32], sim::Site)
{
    uint32_t before[32];
    for (int lane = 0; lane < 32; ++lane)
        before[lane] = ((const ShuffleArgument *)arguments[lane])->value;
    for (uint32_t lane = 0; lane < 32; ++lane) {
        ShuffleArgument &a = *(ShuffleArgument *)arguments[lane];
        const uint32_t b = a.b & 31, clamp = a.c & 31, segment = a.c >> 8 & 31;
        const int32_t most = (int32_t)((lane & segment) | (clamp & ~segment)), least = (int32_t)(lane & segment);
        int32_t from = 0;
        switch (a.mode) {
        case Shuffle::up: from = (int32_t)(lane - b), a.valid = from >= most; break;
        case Shuffle::down: from = (int32_t)(lane + b), a.valid = from <= most; break;
        case Shuffle::bfly: from = (int32_t)(lane ^ b), a.valid = from <= most; break;
        case Shuffle::idx: from = least | (int32_t)(b & ~segment), a.valid = from <= most; break;
        }
        a.value = before[a.valid ? (uint32_t)from & 31 : lane];
    }
}

PTX_CALLED uint32_t shuffle(Shuffle mode, uint32_t value, uint32_t b, uint32_t c, uint32_t members, bool &valid, sim::Site site)
{
    static const sim::Collective SHUFFLE = {"shfl.sync", perform_shuffle};
    whole_warp(members, site);
    ShuffleArgument argument = {mode, value, b, c, false};
    sim::collective(SHUFFLE, &argument, site);
    valid = argument.valid;
    return argument.value;
}

/* ---- what was reached ---- */

/* A stretch of instructions that are entered at the first and left at the last, such as lie between two labels. */
struct Stretch {
    const char *kernel, *place; /* of its first instruction */
    int first, last, instructions;
};

/* At the end of the program: a line a stretch is added to the file that HOSTSIM_REACH names, "kernel first last
 * instructions reached place". */
class Reach
{
    const Stretch *stretches;
    const unsigned char *reached;
    size_t count;

  public:
    Reach(const Stretch *all, const unsigned char *which, size_t n) : stretches(all), reached(which), count(n) {}
    ~Reach()
    {
        const char *name = std::getenv("HOSTSIM_REACH");
        std::FILE *file = name == nullptr ? nullptr : std::fopen(name, "a");
        if (file == nullptr)
            return;
        for (size_t i = 0; i < count; ++i)
            std::fprintf(file, "%s %d %d %d %d %s\n", stretches[i].kernel, stretches[i].first, stretches[i].last,
                         stretches[i].instructions, reached[i], stretches[i].place);
        std::fclose(file);
    }
};

/* ---- faults ---- */

/* A fault that translate.lua put beside the instruction at a place. */
struct Fault {
    const char *text, *place;
    int line;
};

/* HOSTSIM_FAULT=7 is a run with fault 7, whose last line says whether the fault was reached; HOSTSIM_FAULT=list tells
 * them all and ends. */
struct Chosen {
    int number;
    bool reached;
};
inline Chosen &chosen()
{
    static Chosen one = {std::getenv("HOSTSIM_FAULT") == nullptr ? 0 : std::atoi(std::getenv("HOSTSIM_FAULT")), false};
    return one;
}

inline bool has_fault(int number)
{
    static Chosen &one = chosen();
    if (__builtin_expect(one.number != number, 1))
        return false;
    one.reached = true;
    return true;
}

class Faults
{
    const Fault *faults;
    int count;

    void tell(int number) const
    {
        const Fault &fault = faults[number - 1];
        std::fprintf(stderr, "fault %d: %s at %s:%d%s\n", number, fault.text, fault.place, fault.line,
                     chosen().reached       ? ", reached"
                     : chosen().number == 0 ? ""
                                            : ", not reached");
    }

  public:
    Faults(const Fault *all, size_t n) : faults(all), count((int)n)
    {
        const char *asked = std::getenv("HOSTSIM_FAULT");
        if (asked == nullptr || std::strcmp(asked, "list") != 0)
            return;
        for (int number = 1; number <= count; ++number)
            tell(number);
        std::exit(0);
    }
    ~Faults()
    {
        if (chosen().number > 0 && chosen().number <= count)
            tell(chosen().number);
    }
};

} // namespace ptx

/* A kernel by its own name, which takes its parameter by value. */
#define PTX_EXPORT(name, kernel, size, alignment)                                         \
    struct alignas(alignment) name##_parameter {                                          \
        unsigned char bytes[size];                                                        \
    };                                                                                    \
    extern "C" __attribute__((visibility("default"))) void name(const name##_parameter p) \
    {                                                                                     \
        kernel(&p);                                                                       \
    }

#endif
