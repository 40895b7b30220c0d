/* The orders in which Hopper's backward kernels take key blocks: what blocks that take turns rely on, and what the
 * order for a mask is for. */
#include <cstdio>
#include <cstdlib>
#include <set>
#include <vector>

#include "lib/device/warpgroup_units.h"

static const uint32_t TILE = 128;

static struct glint_gpu_shape shape_of(int32_t heads, int32_t blocks, int32_t section)
{
    struct glint_gpu_shape shape = {};

    shape.batch = heads % 2 == 0 ? 2 : 1;
    shape.heads_kv = heads / shape.batch;
    shape.seqlen_k = blocks * (int32_t)TILE - 1;
    shape.section = section;
    return shape;
}

static void expect(bool right, const char *what, const struct glint_gpu_shape &shape, uint32_t number)
{
    if (right)
        return;
    fprintf(stderr, "%s: heads %d, keys %d, section %d, number %u\n", what, shape.batch * shape.heads_kv, shape.seqlen_k,
            shape.section, number);
    exit(EXIT_FAILURE);
}

/* Every block of every head and part has one number. Smaller numbers are those of a block's predecessors: the blocks
 * before it in its head and part, and the same block of the parts before. So whoever waits for them waits for work that
 * was taken before. */
static void check_order(const struct key_order &order, const struct glint_gpu_shape &shape, int32_t parts)
{
    const int32_t of_part = shape.batch * shape.heads_kv, heads = of_part * parts;
    const int32_t blocks = (shape.seqlen_k + (int32_t)TILE - 1) / (int32_t)TILE;
    std::vector<int32_t> next((size_t)heads, 0);
    int32_t found = 0;

    for (uint32_t number = 0; number < order.numbers; number++) {
        const struct block_place place = place_in_order(order, number);

        if (place.index < 0)
            continue;
        expect(place.head >= 0 && place.head < heads, "no such head", shape, number);
        expect(place.index == next[(size_t)place.head]++, "not the head's next block", shape, number);
        expect(place.head < of_part || next[(size_t)(place.head - of_part)] > place.index, "a part before the one ahead of it",
               shape, number);
        found++;
    }
    expect(found == heads * blocks, "blocks without a number", shape, order.numbers);
}

/* The blocks that there are, by how many come before them. */
static void check_nth(const struct key_order &order, const struct glint_gpu_shape &shape)
{
    uint32_t nth = 0;

    for (uint32_t number = 0; number < order.numbers; number++) {
        const struct block_place place = place_in_order(order, number);

        if (place.index < 0)
            continue;
        const struct block_place found = nth_in_order(order, nth++);

        expect(found.head == place.head && found.index == place.index, "not the nth block", shape, number);
    }
}

/* Of 4096 tokens in 128 heads, 16 at a time, 132 blocks that run together are of few heads, and blocks of one head are
 * begun one by one. */
static void check_staggered(void)
{
    const struct glint_gpu_shape shape = shape_of(128, 32, 16);
    const struct key_order order = staggered_order(&shape, TILE, 1);

    for (uint32_t begin = 0; begin + 132 <= (128 - 2 * 16) * 32; begin += 132) {
        std::set<int32_t> heads;

        for (uint32_t number = begin; number < begin + 132; number++) {
            const struct block_place place = place_in_order(order, number);

            if (place.index >= 0)
                heads.insert(place.head);
        }
        expect(heads.size() <= 2 * 16, "too many heads at a time", shape, begin);
    }
    /* In the middle long and short blocks are side by side. */
    int32_t least = 32, most = 0;

    for (uint32_t number = 50 * 16; number < 51 * 16; number++) {
        const struct block_place place = place_in_order(order, number);

        least = place.index < least ? place.index : least;
        most = place.index > most ? place.index : most;
    }
    expect(least >= 0 && least <= 2 && most >= 29, "blocks of one round are alike", shape, 50 * 16);
    expect(place_in_order(order, order.numbers - 1).index == 31, "the last one is not a short one", shape, order.numbers - 1);
}

int main(void)
{
    for (int32_t heads = 1; heads <= 40; heads++)
        for (int32_t blocks = 1; blocks <= 20; blocks++)
            for (int32_t section = 1; section <= 48; section = section * 3 / 2 + 1) {
                const struct glint_gpu_shape shape = shape_of(heads, blocks, section);

                for (int32_t parts = 1; parts <= 4; parts++) {
                    check_order(plain_order(&shape, TILE, parts), shape, parts);
                    check_order(staggered_order(&shape, TILE, parts), shape, parts);
                    check_nth(plain_order(&shape, TILE, parts), shape);
                    check_nth(staggered_order(&shape, TILE, parts), shape);
                }
            }
    check_staggered();
    return EXIT_SUCCESS;
}
