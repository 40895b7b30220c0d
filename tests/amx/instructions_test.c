/* The emulated tile instructions: their product against one that is written as the manual's pseudocode, their checks
 * against misuse, and where the CPU has AMX both against the CPU, bit by bit. */
#define _DEFAULT_SOURCE
#define HEAD_DIM 32
#define GLINT_CPU_LANES 16
#define GLINT_CPU_VECS 1
#define GLINT_CPU_DTYPE bf16
#define GLINT_CPU_ELEMENT uint16_t
#include "lib/cpu/amx.h" /* the instructions themselves */
#include "lib/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/amx/instructions.h"

static int failures;

#define EXPECT(condition, ...)                                                                    \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition), printf(__VA_ARGS__), puts(""); \
            failures++;                                                                           \
        }                                                                                         \
    } while (0)

static uint32_t state = 1;
static uint32_t next(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* Mostly ordinary numbers, some of every kind: zeros, denormals, tiny and huge ones, infinities, NaN. */
static uint16_t some_half(bool special)
{
    static const uint16_t kinds[] = {0, 0x8000, 0x0001, 0x807f, 0x0080, 0x0100, 0x2000, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0};
    if (next() % 8 == 0)
        return kinds[next() % (special ? 12 : 9)];
    return (uint16_t)((next() & 0x80ff) | (0x3e00 + (next() % 4 << 7)));
}

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static float widened(uint16_t half)
{
    return flushed(glint_float_of(half));
}

/* TDPBF16PS as the manual writes it: C [rows][columns] += A [rows][2 pairs] B [pairs][columns][2], by rows of 16
 * words. */
static void plain_product(float c[16][16], uint16_t a[16][32], uint16_t b[16][32], int rows, int pairs, int columns)
{
    for (int m = 0; m < rows; m++)
        for (int n = 0; n < columns; n++) {
            float even = 0, odd = 0;
            for (int k = 0; k < pairs; k++) {
                even = flushed(fmaf(widened(a[m][2 * k]), widened(b[k][2 * n]), even));
                odd = flushed(fmaf(widened(a[m][2 * k + 1]), widened(b[k][2 * n + 1]), odd));
            }
            c[m][n] = flushed(flushed(c[m][n]) + flushed(even + odd));
        }
}

static bool same(const void *x, const void *y)
{
    const float *a = x, *b = y;
    for (int i = 0; i < 256; i++)
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static struct glint_tiles configured(int rows, int pairs, int columns)
{
    struct glint_tiles t = {.palette = 1};
    t.rows[0] = t.rows[1] = (uint8_t)rows;
    t.row_bytes[0] = t.row_bytes[2] = (uint16_t)(4 * columns);
    t.row_bytes[1] = (uint16_t)(4 * pairs);
    t.rows[2] = (uint8_t)pairs;
    return t;
}

static void products(bool on_cpu)
{
    static _Alignas(64) float c[16][16], expected[16][16], got[16][16];
    static _Alignas(64) uint16_t a[16][32], b[16][32];
    for (int round = 0; round < 3000; round++) {
        const bool whole = round % 2 == 0;
        const int rows = whole ? 16 : 1 + (int)(next() % 16), pairs = whole ? 16 : 1 + (int)(next() % 16),
                  columns = whole ? 16 : 1 + (int)(next() % 16);
        for (int i = 0; i < 512; i++) {
            a[i / 32][i % 32] = some_half(round % 4 >= 2);
            b[i / 32][i % 32] = some_half(round % 4 >= 2);
        }
        memset(c, 0, sizeof c);
        for (int i = 0; i < 256; i++)
            if (i / 16 < rows && i % 16 < columns)
                c[i / 16][i % 16] = next() % 16 == 0 ? 0x1p-130f : glint_float_of(some_half(false));
        memcpy(expected, c, sizeof c);
        plain_product(expected, a, b, rows, pairs, columns);

        struct glint_tiles t = configured(rows, pairs, columns), found;
        memset(got, 0, sizeof got);
        emulated_configure(&t);
        emulated_save(&found);
        EXPECT(memcmp(&t, &found, sizeof t) == 0, "the configuration is not what was saved");
        emulated_load(0, c, 64);
        emulated_load(1, a, 64);
        emulated_load(2, b, 64);
        emulated_multiply_add(0, 1, 2);
        emulated_store(0, got, 64);
        emulated_release();
        EXPECT(same(got, expected), "round %d: %d x %d x %d", round, rows, pairs, columns);
        if (!on_cpu)
            continue;
        memset(got, 0, sizeof got);
        GLINT_TILES_CONFIGURE(&t);
        GLINT_TILE_LOAD(0, c);
        GLINT_TILE_LOAD(1, a);
        GLINT_TILE_LOAD(2, b);
        GLINT_TILE_MULTIPLY_ADD(0, 1, 2);
        GLINT_TILE_STORE(0, got);
        GLINT_TILES_RELEASE();
        EXPECT(same(got, expected), "on the CPU, round %d: %d x %d x %d", round, rows, pairs, columns);
    }
}

/* Each of these ends the process. */
static void misuse(int which)
{
    static _Alignas(64) unsigned char memory[1024];
    struct glint_tiles t = configured(16, 16, 16);
    if (which == 0)
        emulated_zero(0); /* not configured */
    switch (which) {
    case 1: t.palette = 2; break;
    case 2: t.rows[3] = 17, t.row_bytes[3] = 64; break;
    case 3: t.row_bytes[3] = 65, t.rows[3] = 1; break;
    case 4: t.rows[8] = 1, t.row_bytes[8] = 4; break;
    case 5: t.reserved[7] = 1; break;
    case 6: t.rows[3] = 1; break;
    case 7: t.rows[2] = 8; break; /* B has fewer rows than A has pairs */
    case 8: t.rows[1] = 8; break; /* A has fewer rows than C */
    default: break;
    }
    emulated_configure(&t);
    switch (which) {
    case 9: emulated_multiply_add(0, 1, 1); break;
    case 10: emulated_load(4, memory, 64); break; /* not in the configuration */
    case 11: emulated_store(8, memory, 64); break;
    case 12: emulated_release(), emulated_multiply_add(0, 1, 2); break;
    default: emulated_multiply_add(0, 1, 2);
    }
}
enum { MISUSES = 13 };

static void misuses(void)
{
    for (int i = 0; i < MISUSES; i++) {
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            if (!freopen("/dev/null", "w", stderr))
                _exit(2);
            misuse(i);
            _exit(0);
        }
        int status = 0;
        EXPECT(child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
               "misuse %d is not seen", i);
    }
}

static void zeros_and_nothing(void)
{
    static const unsigned char zeros[1024];
    unsigned char memory[1024];
    const struct glint_tiles t = configured(16, 16, 16);
    emulated_configure(&t);
    memset(memory, 0x5a, sizeof memory);
    emulated_load(0, memory, 64);
    emulated_zero(0);
    emulated_store(0, memory, 64);
    EXPECT(memcmp(memory, zeros, sizeof memory) == 0, "tilezero");
    emulated_load(0, "123456789012345678901234567890123456789012345678901234567890123", 0);
    emulated_configure(&t);
    emulated_store(0, memory, 64);
    EXPECT(memcmp(memory, zeros, sizeof memory) == 0, "ldtilecfg leaves what a tile held");
    emulated_release();
    memset(memory, 0x5a, sizeof memory);
    emulated_save(memory);
    EXPECT(memcmp(memory, zeros, 64) == 0 && memory[64] == 0x5a, "sttilecfg of nothing");
}

/* --cpu: beside the CPU's own tiles, which it must have. */
int main(int count, char **arguments)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    const bool on_cpu = count == 2 && strcmp(arguments[1], "--cpu") == 0;
    EXPECT(!on_cpu || glint_permit_amx(&options) == GLINT_OK, "this CPU or its system has no AMX");
    if (failures != 0)
        return 1;
    products(on_cpu);
    misuses();
    zeros_and_nothing();
    printf("%s: %d failures\n", on_cpu ? "the emulation and the CPU" : "the emulation alone", failures);
    return failures != 0;
}
