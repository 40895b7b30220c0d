/* What a row takes beside the plainest problem: lengths given by the host, K and V linear, no sinks. A row of the
 * table has a set of these as glint_variant.takes, and as glint_variant.could what fields of its family in the spec
 * would add to the set. The generator emits both columns (gen/takes.lua); the choice of a row compares them with
 * what the problem needs, and the sentences of a refusal are made from them. */
#ifndef GLINT_TAKES_H
#define GLINT_TAKES_H

#include "lib/variant.h"

/* X(word, bit, reason of a refusal, field of the problem, what a row is asked to take), in the order in which
 * refusals are told. */
#define GLINT_TAKES(X)                                                                  \
    X(LENGTHS, 1, LACKS_LENGTHS, lengths, "lengths on the device")                      \
    X(RAGGED, 2, LACKS_LENGTHS, lengths, "ragged sequences")                            \
    X(SINKS, 4, LACKS_SINKS, sinks, "sinks")                                            \
    X(PAGES, 8, LACKS_PAGES, page_rows, "K and V in pages")                             \
    X(RAGGED_PAGES, 16, LACKS_PAGES, page_rows, "ragged queries with K and V in pages") \
    X(CANONICAL, 32, LACKS_ORDER, order, "the canonical order")                         \
    X(MAX_LOGIT, 64, LACKS_LOGIT, max_logit, "the largest logit")

/* F(field of a family, the bit that a row has which was made with it, the bits that ask for it) */
#define GLINT_TAKES_FIELDS(F)                                                                                                      \
    F(device_lengths, GLINT_TAKES_LENGTHS, GLINT_TAKES_LENGTHS | GLINT_TAKES_SINKS | GLINT_TAKES_PAGES | GLINT_TAKES_RAGGED_PAGES) \
    F(device_ragged, GLINT_TAKES_RAGGED, GLINT_TAKES_RAGGED | GLINT_TAKES_RAGGED_PAGES)                                            \
    F(device_pages, GLINT_TAKES_PAGES, GLINT_TAKES_PAGES | GLINT_TAKES_RAGGED_PAGES)                                               \
    F(max_logit, GLINT_TAKES_MAX_LOGIT, GLINT_TAKES_MAX_LOGIT)

enum {
#define GLINT_TAKES_BIT(word, bit, reason, field, what) GLINT_TAKES_##word = bit,
    GLINT_TAKES(GLINT_TAKES_BIT)
#undef GLINT_TAKES_BIT
        GLINT_TAKES_ANYTHING = 128 /* of `untimed` alone: whatever the problem needs */
};

/* What a problem needs. A row that takes pages takes the same lengths with linear K and V too, so a problem in pages
 * needs both. */
static inline uint32_t glint_needs_of(const struct glint_problem *p)
{
    const uint32_t any = (p->sinks != 0 ? GLINT_TAKES_SINKS : 0) | (p->order != GLINT_ORDER_ANY ? GLINT_TAKES_CANONICAL : 0) |
                         (p->max_logit != 0 ? GLINT_TAKES_MAX_LOGIT : 0);
    switch (p->lengths) {
    case GLINT_LENGTHS_DEVICE: return any | GLINT_TAKES_LENGTHS | (p->page_rows > 0 ? GLINT_TAKES_PAGES : 0);
    case GLINT_LENGTHS_RAGGED: return any | GLINT_TAKES_RAGGED | (p->page_rows > 0 ? GLINT_TAKES_RAGGED_PAGES : 0);
    default: return any;
    }
}

#endif
