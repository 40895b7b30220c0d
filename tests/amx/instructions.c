#include "tests/amx/instructions.h"

#include <immintrin.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a thread, as the registers are: TILECFG and TILEDATA. */
struct tile {
    int rows, row_bytes;
    _Alignas(64) unsigned char data[16][64];
};
static _Thread_local struct {
    bool configured;
    unsigned char configuration[64];
    struct tile tile[8];
} state;

static void misuse(const char *instruction, const char *what)
{
    fprintf(stderr, "tests/amx: %s: %s\n", instruction, what);
    abort();
}

static struct tile *tile_at(int t, const char *instruction)
{
    if (!state.configured)
        misuse(instruction, "tiles are not configured");
    if (t < 0 || t >= 8 || state.tile[t].rows == 0)
        misuse(instruction, "no such tile in the configuration");
    return &state.tile[t];
}

/* STTILECFG: 64 zeros when nothing is configured. */
void emulated_save(void *to)
{
    memset(to, 0, 64);
    if (state.configured)
        memcpy(to, state.configuration, 64);
}

void emulated_release(void)
{
    memset(&state, 0, sizeof state);
}

/* LDTILECFG: tiles are zero afterwards. Palette 0 is the initial state; palette 1 has 8 tiles of up to 16 rows of 64
 * bytes. What is #GP is a misuse. */
void emulated_configure(const void *from)
{
    const unsigned char *const bytes = from;
    unsigned char copy[64];
    memcpy(copy, from, sizeof copy); /* `from` may be what is replaced */
    if (bytes[0] > 1)
        misuse("ldtilecfg", "no such palette");
    emulated_release();
    if (copy[0] == 0)
        return;
    for (int i = 2; i < 16; i++)
        if (copy[i] != 0)
            misuse("ldtilecfg", "a reserved byte is not zero");
    for (int t = 0; t < 16; t++) {
        const int row_bytes = copy[16 + 2 * t] | copy[17 + 2 * t] << 8, rows = copy[48 + t];
        if (row_bytes > (t < 8 ? 64 : 0) || rows > (t < 8 ? 16 : 0) || (row_bytes == 0) != (rows == 0))
            misuse("ldtilecfg", "a tile of a wrong size");
        if (t < 8)
            state.tile[t].rows = rows, state.tile[t].row_bytes = row_bytes;
    }
    memcpy(state.configuration, copy, sizeof copy);
    state.configured = true;
}

void emulated_zero(int t)
{
    struct tile *const tile = tile_at(t, "tilezero");
    memset(tile->data, 0, sizeof tile->data);
}

/* Rows and bytes beyond the tile's become zero. */
void emulated_load(int t, const void *from, ptrdiff_t stride)
{
    struct tile *const tile = tile_at(t, "tileloadd");
    memset(tile->data, 0, sizeof tile->data);
    for (int r = 0; r < tile->rows; r++)
        memcpy(tile->data[r], (const char *)from + r * stride, (size_t)tile->row_bytes);
}

void emulated_store(int t, void *to, ptrdiff_t stride)
{
    const struct tile *const tile = tile_at(t, "tilestored");
    for (int r = 0; r < tile->rows; r++)
        memcpy((char *)to + r * stride, tile->data[r], (size_t)tile->row_bytes);
}

/* TDPBF16PS: for each row of C the even terms and the odd ones are summed apart, from zero, by fused multiply-adds in
 * the order of k; then C += (even + odd). Denormals that go in or come out are zero (DAZ and FTZ), rounding is to
 * nearest even, whatever MXCSR says. */
__attribute__((noinline)) static void multiply_add(struct tile *c, const struct tile *a, const struct tile *b)
{
    const __m512i high = _mm512_set1_epi32((int)0xffff0000u);
    for (int m = 0; m < c->rows; m++) {
        __m512 even = _mm512_setzero_ps(), odd = even;
        for (int k = 0; k < a->row_bytes / 4; k++) {
            int32_t word;
            memcpy(&word, a->data[m] + 4 * k, sizeof word);
            const __m512i x = _mm512_set1_epi32(word), y = _mm512_load_si512(b->data[k]);
            even =
                _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)), _mm512_castsi512_ps(_mm512_slli_epi32(y, 16)), even);
            odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(x, high)), _mm512_castsi512_ps(_mm512_and_si512(y, high)),
                                  odd);
        }
        _Alignas(64) float row[16];
        const __m512 sum = _mm512_add_ps(_mm512_load_ps((const void *)c->data[m]), _mm512_add_ps(even, odd));
        _mm512_store_ps(row, sum);
        memset(c->data[m], 0, 64);
        memcpy(c->data[m], row, (size_t)c->row_bytes);
    }
}

void emulated_multiply_add(int c, int a, int b)
{
    struct tile *const to = tile_at(c, "tdpbf16ps");
    const struct tile *const x = tile_at(a, "tdpbf16ps"), *const y = tile_at(b, "tdpbf16ps");
    if (a == b || a == c || b == c)
        misuse("tdpbf16ps", "a tile stands twice");
    if (to->row_bytes % 4 != 0 || x->row_bytes % 4 != 0 || y->row_bytes % 4 != 0 || to->rows != x->rows ||
        to->row_bytes != y->row_bytes || x->row_bytes / 4 != y->rows)
        misuse("tdpbf16ps", "tiles that do not go together");
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(0x9fc0); /* exceptions masked, to nearest, DAZ and FTZ */
    multiply_add(to, x, y);
    _mm_setcsr(mode);
}
