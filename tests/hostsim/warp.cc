#include "tests/hostsim/warp.h"

#include <cstring>

#include "tests/hostsim/numbers.h"
#include "tests/hostsim/state.h"
#include "tests/hostsim/tensor_core.h"

namespace sim
{

namespace
{

struct Word {
    uint32_t value, mask;
};

uint32_t &word(void *argument)
{
    return ((Word *)argument)->value;
}

/* ---- "shfl.sync", "vote.sync", "bar.warp.sync" ---- */

void perform_shuffle(Warp *, void *const arguments[32], Site)
{
    uint32_t before[32];

    for (int lane = 0; lane < 32; ++lane)
        before[lane] = word(arguments[lane]);
    for (int lane = 0; lane < 32; ++lane)
        word(arguments[lane]) = before[(lane ^ (int)((Word *)arguments[lane])->mask) & 31];
}

void perform_first(Warp *, void *const arguments[32], Site)
{
    for (int lane = 1; lane < 32; ++lane)
        word(arguments[lane]) = word(arguments[0]);
}

void perform_any(Warp *, void *const arguments[32], Site)
{
    uint32_t any = 0;

    for (int lane = 0; lane < 32; ++lane)
        any |= word(arguments[lane]);
    for (int lane = 0; lane < 32; ++lane)
        word(arguments[lane]) = any;
}

void perform_sync(Warp *warp, void *const[32], Site)
{
    Thread *threads[32];

    for (int lane = 0; lane < 32; ++lane)
        threads[lane] = &warp->thread[lane];
    join_threads(threads, 32);
}

/* ---- "ldmatrix" ---- */

struct Rows {
    uint32_t *r, address;
};

template <bool transposed> void perform_load(Warp *warp, void *const arguments[32], Site site)
{
    uint16_t matrix[4][8][8];
    uint32_t rows[32];

    for (uint32_t lane = 0; lane < 32; ++lane) {
        rows[lane] = ((Rows *)arguments[lane])->address;
        shared_fetch(warp, rows[lane]);
    }
    for (uint32_t lane = 0; lane < 32; ++lane)
        std::memcpy(matrix[lane / 8][lane % 8], shared_as(&warp->thread[lane], rows[lane], 16, Use::read, site), 16);
    event(transposed ? "ldmatrix.trans" : "ldmatrix", site, rows[0], 16, true);
    if (counting)
        cost_matrix_rows(transposed ? "ldmatrix.trans" : "ldmatrix", rows, site);
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) {
            const int g = lane / 4, q = 2 * (lane % 4);
            const uint32_t low = transposed ? matrix[i][q][g] : matrix[i][g][q],
                           high = transposed ? matrix[i][q + 1][g] : matrix[i][g][q + 1];
            ((Rows *)arguments[lane])->r[i] = low | high << 16;
        }
}

/* ---- "mma" ---- */

struct Product {
    float *d;
    const uint32_t *a;
    uint32_t b[2];
};

/* The fragments of all lanes as matrices, and back: the sums are the tensor core's. Their order is nothing to the sums,
 * which are exact, so that the k products of an element stand in the order in which the lanes hold the factors. */
template <Element element> void multiply_fragments(void *const arguments[32], const uint32_t *a, const uint32_t *b)
{
    alignas(32) uint32_t d[16][8];

    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 2; ++i)
            std::memcpy(&d[lane / 4 + 8 * i][2 * (lane % 4)], ((const Product *)arguments[lane])->d + 2 * i, 8);
    tensor_core(element, 16, 8, a, b, d[0]);
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 2; ++i)
            std::memcpy(((Product *)arguments[lane])->d + 2 * i, &d[lane / 4 + 8 * i][2 * (lane % 4)], 8);
}

/* a[row][word], b[word][column], of 8 words for each: two halves or one tf32. */
void gather_words(void *const arguments[32], uint32_t a[16][8], uint32_t b[8][8])
{
    for (int lane = 0; lane < 32; ++lane) {
        const Product &product = *(const Product *)arguments[lane];
        const int g = lane / 4, q = 2 * (lane % 4);
        for (int i = 0; i < 2; ++i) {
            a[g][q + i] = product.a[2 * i];
            a[g + 8][q + i] = product.a[2 * i + 1];
            b[q + i][g] = product.b[i];
        }
    }
}

template <Element element> void perform_halves(Warp *, void *const arguments[32], Site)
{
    alignas(32) uint32_t words_a[16][8], words_b[8][8], a[16][2][8], b[2][8][8];

    gather_words(arguments, words_a, words_b);
    for (int row = 0; row < 16; ++row)
        for (int i = 0; i < 8; ++i) {
            a[row][0][i] = words_a[row][i] & 0xffff;
            a[row][1][i] = words_a[row][i] >> 16;
        }
    for (int i = 0; i < 8; ++i)
        for (int column = 0; column < 8; ++column) {
            b[0][i][column] = words_b[i][column] & 0xffff;
            b[1][i][column] = words_b[i][column] >> 16;
        }
    multiply_fragments<element>(arguments, a[0][0], b[0][0]);
}

void perform_tf32(Warp *, void *const arguments[32], Site)
{
    alignas(32) uint32_t a[16][8], b[8][8];

    gather_words(arguments, a, b);
    multiply_fragments<Element::tf32>(arguments, a[0], b[0]);
}

const Collective SHUFFLE = {"shfl.sync.bfly", perform_shuffle}, FIRST = {"shfl.sync.idx", perform_first},
                 ANY = {"vote.sync.any", perform_any}, SYNC = {"bar.warp.sync", perform_sync},
                 LOAD = {"ldmatrix", perform_load<false>, true}, LOAD_TRANSPOSED = {"ldmatrix.trans", perform_load<true>, true},
                 BF16 = {"mma.bf16", perform_halves<Element::bf16>}, F16 = {"mma.f16", perform_halves<Element::f16>},
                 TF32 = {"mma.tf32", perform_tf32};

} // namespace

float warp_shuffle_xor(float value, uint32_t lane_mask, Site site)
{
    Word argument = {bits_from(value), lane_mask};

    collective(SHUFFLE, &argument, site);
    return float_from(argument.value);
}

uint32_t warp_first(uint32_t value, Site site)
{
    Word argument = {value, 0};

    collective(FIRST, &argument, site);
    return argument.value;
}

bool warp_any(bool condition, Site site)
{
    Word argument = {condition, 0};

    collective(ANY, &argument, site);
    return argument.value != 0;
}

void warp_sync(Site site)
{
    Word argument = {0, 0};

    collective(SYNC, &argument, site);
}

void load_matrices(uint32_t r[4], uint32_t row, bool transposed, Site site)
{
    Rows argument = {r, row};

    collective(transposed ? LOAD_TRANSPOSED : LOAD, &argument, site);
}

void multiply(Element element, float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, Site site)
{
    Product argument = {d, a, {b0, b1}};

    collective(element == Element::bf16 ? BF16 : element == Element::f16 ? F16 : TF32, &argument, site);
}

} // namespace sim
