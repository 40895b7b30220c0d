/* Masks of a tree of new tokens, for speculative decoding: of the last seqlen_q keys a query sees those whose bit is
 * set in its row, and of those before them all, as far as its interval and the band leave them. From the first key that
 * it sees to the last that is a range, as of any interval (intervals.h); the bits hide what lies between.
 *
 *     tree_mask    as the call gives it, in global memory
 *     tile_tree    of the queries of a tile: ranges in shared memory, bits in global memory, which are few
 *
 * The band counts positions: with n bits set a query stands where query n - 1 would, and new keys stand in the order of
 * their bits behind the keys before the tree. */
#ifndef GLINT_DEVICE_TREE_H
#define GLINT_DEVICE_TREE_H

#include "lib/device/intervals.h"

/* Row i of a sequence's tree is the `words` words from bits + i * words on. Of its bits the first `slots` count. */
struct tree_rows {
    const uint32_t *bits;
    int32_t words;
};

GLINT_DEVICE uint32_t word_of(const struct tree_rows &tree, int32_t query, int32_t at)
{
    return (uint32_t)int_at((const int32_t *)tree.bits + (int64_t)query * tree.words, at);
}

GLINT_DEVICE uint32_t slots_of(const struct tree_rows &tree, int32_t query, int32_t at, int32_t slots)
{
    const int32_t left = slots - at * 32;

    return word_of(tree, query, at) & (left < 32 ? (1u << left) - 1 : ~0u);
}

GLINT_DEVICE bool has_slot(const struct tree_rows &tree, int32_t query, int32_t slot)
{
    return (word_of(tree, query, slot >> 5) >> (slot & 31) & 1) != 0;
}

/* The bits of 32 slots; those of slots before the first are set, and those behind the last are any. */
GLINT_DEVICE uint32_t bits_from(const struct tree_rows &tree, int32_t query, int32_t slot)
{
    const int32_t at = slot >> 5, last = tree.words - 1;
    const uint32_t low = at < 0 ? ~0u : word_of(tree, query, min(at, last));
    const uint32_t high = at < -1 ? ~0u : word_of(tree, query, min(at + 1, last));

    return (uint32_t)(((uint64_t)high << 32 | low) >> (slot & 31));
}

GLINT_DEVICE int32_t count_bits(uint32_t word)
{
    word -= word >> 1 & 0x55555555;
    word = (word & 0x33333333) + (word >> 2 & 0x33333333);
    return (int32_t)(((word + (word >> 4)) & 0x0f0f0f0f) * 0x01010101u >> 24);
}

GLINT_DEVICE int32_t count_slots(const struct tree_rows &tree, int32_t query, int32_t slots)
{
    int32_t count = 0;

#pragma unroll 1
    for (int32_t at = 0; at * 32 < slots; ++at)
        count += count_bits(slots_of(tree, query, at, slots));
    return count;
}

/* The slot of set bit n of a row, the first one is bit 0; `slots` where it has no so many. */
GLINT_DEVICE int32_t find_slot(const struct tree_rows &tree, int32_t query, int32_t slots, int32_t n)
{
#pragma unroll 1
    for (int32_t at = 0; at * 32 < slots; ++at) {
        uint32_t bits = slots_of(tree, query, at, slots);
        const int32_t count = count_bits(bits);

        if (n >= count) {
            n -= count;
            continue;
        }
#pragma unroll 1
        for (; n > 0; --n)
            bits &= bits - 1;
        return at * 32 + count_bits((bits & (~bits + 1)) - 1);
    }
    return slots;
}

struct tile_tree : tile_intervals {
    static constexpr bool TREE = true;
    struct tree_rows tree;
};

struct tree_mask {
    static constexpr bool LEFT = true, RIGHT = true, INTERVALS = true, TREE = true;
    struct tree_rows tree;
    const int32_t *begin, *end; /* of the sequence's queries, or NULL */
    int32_t left, right;        /* sides among the new keys, of query 0 */
    int32_t seqlen_q, seqlen_k;

    template <class Call> GLINT_DEVICE struct tree_mask of(const Call &p, const struct sequence &own, int64_t row)
    {
        const int32_t words = (p.sequences.bound_q + 31) / 32, before = own.seqlen_k - own.seqlen_q;
        const int32_t offset = p.sequences.bottom_right ? 0 : -before;

        return {{p.tree_bits + row * words, words},
                p.key_begin ? p.key_begin + row : nullptr,
                p.key_end ? p.key_end + row : nullptr,
                offset + p.sequences.left,
                offset + p.sequences.right,
                own.seqlen_q,
                own.seqlen_k};
    }
    GLINT_DEVICE struct tile_tree tile_of(const struct tree_mask &mask, const struct tile_intervals &ranges)
    {
        struct tile_tree tile;

        static_cast<struct tile_intervals &>(tile) = ranges;
        tile.tree = mask.tree;
        return tile;
    }
};

/* What a query sees is between these. A row past the end sees nothing. */
GLINT_DEVICE struct key_range keys_of_query(const struct tree_mask &mask, int32_t query)
{
    const struct tree_rows &tree = mask.tree;
    const int32_t slots = mask.seqlen_q, before = mask.seqlen_k - slots;
    struct key_range keys = {mask.seqlen_k, 0};

    if (query < mask.seqlen_q) {
        const int32_t count = count_slots(tree, query, slots), first = count - 1 + mask.left, last = count - 1 + mask.right;
        int32_t begin = before + (first < 0 ? first : find_slot(tree, query, slots, first));
        int32_t end = last < 0 ? before + last + 1 : before;

        if (last >= 0 && count > 0)
            end += find_slot(tree, query, slots, min(last, count - 1)) + 1;
        if (mask.begin)
            begin = max(begin, int_at(mask.begin, query));
        if (mask.end)
            end = min(end, int_at(mask.end, query));
        begin = max(begin, 0);
        end = min(end, mask.seqlen_k);
#pragma unroll 1
        while (begin < end && begin >= before && !has_slot(tree, query, begin - before))
            ++begin;
        if (begin < end)
            keys = {begin, end};
    }
    return keys;
}

/* The key that is the first slot; less than 0 where some slots are no keys. */
GLINT_DEVICE int32_t first_slot(const struct tile_tree &mask)
{
    return mask.seqlen_k - mask.seqlen_q;
}

/* Blocks of TILE_N keys of a tile's queries: none that has a new key is seen whole for certain. */
template <int TILE_N>
GLINT_DEVICE struct key_blocks<interval_mask> find_key_blocks(const struct tile_tree &mask, int32_t first_query,
                                                              int32_t last_query) {
    struct key_blocks<interval_mask> blocks =
        find_key_blocks<TILE_N>(static_cast<const struct tile_intervals &>(mask), first_query, last_query);

    blocks.hidden_from = min(blocks.hidden_from, max(0, first_slot(mask)) / TILE_N);
    return blocks;
}

GLINT_DEVICE bool
sees(const struct tile_tree &mask, int32_t query0, int32_t i, int32_t key0, int32_t j)
{
    const int32_t slot = key0 + j - first_slot(mask);

    return sees(static_cast<const struct tile_intervals &>(mask), query0, i, key0, j) &&
           (slot < 0 || has_slot(mask.tree, query0 + i, slot));
}

template <int TILE_N>
GLINT_DEVICE bool hides_all(const struct tile_tree &mask, int32_t query0, const int32_t queries, int32_t block)
{
    return hides_all<TILE_N>(static_cast<const struct tile_intervals &>(mask), query0, queries, block);
}

GLINT_DEVICE bool reaches(const struct tile_tree &mask, int32_t query, int32_t key0, int32_t keys)
{
    bool some = false;

#pragma unroll 1
    for (int32_t j = 0; j < keys && !some; ++j)
        some = sees(mask, query, 0, key0, j);
    return some;
}

/* What the bits of a query hide of a row of s, of 32 keys by two words. This thread's first key is slot `slot`. */
template <int COLUMNS>
GLINT_DEVICE void hide_slots(float (&s)[COLUMNS][4], const int side, const struct tile_tree &mask, int32_t query, int32_t slot,
                             const float hidden)
{
#pragma unroll
    for (int group = 0; group < COLUMNS; group += 4) {
        const uint32_t bits = bits_from(mask.tree, min(query, mask.seqlen_q - 1), slot + group * 8);
#pragma unroll
        for (int nt = group; nt < COLUMNS && nt < group + 4; ++nt)
#pragma unroll
            for (int e = 0; e < 2; ++e)
                s[nt][2 * side + e] = (bits >> ((nt - group) * 8 + e) & 1) != 0 ? s[nt][2 * side + e] : hidden;
    }
}

/* As of intervals; then what the bits hide. */
template <int ROWS, int COLUMNS>
GLINT_DEVICE void hide_keys(float (&s)[ROWS][COLUMNS][4], const struct tile_tree &mask, int32_t first_query, int32_t first,
                            const float hidden)
{
    hide_keys(s, static_cast<const struct tile_intervals &>(mask), first_query, first, hidden);
    if (first + COLUMNS * 8 <= first_slot(mask))
        return;
#pragma unroll
    for (int rt = 0; rt < ROWS; ++rt)
#pragma unroll
        for (int side = 0; side < 2; ++side)
            hide_slots(s[rt], side, mask, first_query + rt * 16 + side * 8 + (int32_t)(lane_index() >> 2),
                       first + 2 * (int32_t)(lane_index() & 3) - first_slot(mask), hidden);
}

#endif
