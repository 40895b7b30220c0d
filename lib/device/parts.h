/* The rule by which persistent blocks of the backward pass share out the query heads of a key head: by the lengths of a
 * sequence and its band alone. The host follows it where it knows the lengths, a kernel where it reads them, so a
 * sequence has the same parts in both. Plain C that nvcc reads too. What was measured is in lib/cuda/policy.c. */
#ifndef GLINT_DEVICE_PARTS_H
#define GLINT_DEVICE_PARTS_H

#include <stdint.h>

#ifdef GLINT_DEVICE
#define GLINT_RULE GLINT_DEVICE
#else
#define GLINT_RULE static inline
#endif

/* Query i sees key j iff i + first <= j <= i + last. */
struct glint_part_problem {
    int64_t queries, keys, first, last;
};

/* Pairs of query i and key j with j <= i + offset. */
GLINT_RULE int64_t glint_pairs_up_to(const struct glint_part_problem *p, int64_t offset)
{
    const int64_t queries = p->queries, keys = p->keys, end = queries + offset; /* first key that none sees */
    const int64_t by_all = offset < 0 ? 0 : offset < keys ? offset : keys;
    const int64_t by_any = end < by_all ? by_all : end < keys ? end : keys;

    /* Of keys by_all ... by_any - 1 the first is seen by end - by_all queries, the last by end - by_any + 1. */
    return by_all * queries + (by_any - by_all) * (2 * end - by_all - by_any + 1) / 2;
}

/* Queries that see a key, on average over the keys, rounded down. Key j is seen by queries from j - last to
 * j - first. */
GLINT_RULE int64_t glint_seen_by(const struct glint_part_problem *p)
{
    return p->keys == 0 ? 0 : (glint_pairs_up_to(p, p->last) - glint_pairs_up_to(p, p->first - 1)) / p->keys;
}

/* How many of `all` query heads a block takes that `visible` queries see. masked: some query does not see some key, of
 * those after it; window: nor some before. own: a row's own number of heads, or 0. */
GLINT_RULE int32_t glint_part_heads_by(int32_t own, int64_t visible, int masked, int window, int narrow, int32_t all)
{
    int64_t heads = own;

    if (heads == 0 && !masked)
        heads = visible < (narrow ? 4096 : 1) ? all : (8192 - 1) / visible + 1;
    else if (heads == 0 && window)
        heads = visible < 256 ? all : visible < 2048 && narrow ? 4 : 2;
    else if (heads == 0 && narrow)
        heads = visible < 2048 ? all : 4;
    else if (heads == 0)
        heads = visible < 512 ? all : visible < 1024 ? 4 : 2;
    if (heads >= all)
        return all;
    const int64_t rest = (int64_t)all - 1, parts = rest / heads + 1;
    return own > 0 ? own : (int32_t)(rest / parts + 1);
}

/* If there is no query, a block takes all heads: no kernel that knows of the turns has cleared them. */
GLINT_RULE int32_t glint_part_heads_of(int32_t own, const struct glint_part_problem *p, int narrow, int32_t all)
{
    const int masked = p->last < p->keys, window = masked && p->first > -p->queries;

    return p->queries == 0 ? all : glint_part_heads_by(own, glint_seen_by(p), masked, window, narrow, all);
}

#endif
