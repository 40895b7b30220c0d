/* K and V of all sequences in pages, and attention over them: every call to Glint is here. On a GPU all of it is in the
 * GPU's memory, and a step takes there its numbers once (cache_begin) and its new rows once a layer, and fetches O.
 *
 * Rows of a step lie one after another, sequence by sequence: chunks of prompts, and the last byte of each other
 * sequence with the bytes that are proposed after it. They are one ragged batch of one plan, whatever their numbers,
 * and so one call a layer. In the canonical order a row has the same bits in any of these parts. */
#ifndef EXAMPLES_SERVE_TEXT_CACHE_H
#define EXAMPLES_SERVE_TEXT_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "examples/common/arena.h"
#include "examples/common/gpu.h"
#include "lib/glint.h"

enum {
    PAGE_ROWS = 16,
    BLOCK_PAGES = 4,
    CHUNK = PAGE_ROWS * BLOCK_PAGES, /* rows of a prompt in a step, at most */
    PREFILLS = 2,                    /* sequences whose prompts advance in a step */
    MOST_PROPOSED = PAGE_ROWS - 1    /* bytes that are proposed after a sequence's last one */
};

/* What does not change. */
struct cache_shape {
    size_t layers, heads, slots, pages, longest; /* longest: positions of a sequence */
    size_t proposed;                             /* 0 ... MOST_PROPOSED */
    uint32_t kept; /* enum glint_dtype of K and V: GLINT_F32, GLINT_BF16 (so are Q and O then) or GLINT_I8 (so on a GPU) */
};

/* Who is in a step, as Glint reads it. Sequences beyond the last one have no rows and no keys. */
struct cache_numbers {
    int32_t *fault;          /* one word, where Glint notes numbers that are out of their bounds */
    int32_t *first;          /* [slots + 1]: the new rows of sequence b are first[b] ... first[b + 1] - 1 */
    int32_t *keys;           /* [slots]: all rows of a sequence, the new ones too */
    int32_t *table;          /* [slots][pages_per_sequence] */
    size_t sequences, words; /* words: of all arrays, which lie one after another from `fault` on */
};

struct cache {
    struct cache_shape shape;
    const struct glint_context *context;
    struct gpu *gpu; /* or NULL: the context is on the CPU */
    size_t pages_per_sequence;
    struct cache_numbers step;        /* the host's: filled in before cache_begin */
    struct cache_numbers there;       /* where Glint reads them: the same, or a copy on the GPU */
    unsigned char *keys, *values;     /* [layers][pages][PAGE_ROWS][heads][HEAD_DIM] */
    float *key_scales, *value_scales; /* of int8: [layers][pages][heads][PAGE_ROWS] */
    float *rows;                      /* on a GPU: the new rows, [rows][3][heads][HEAD_DIM] */
    float *lse;                       /* [rows][heads] */
    uint16_t *q16, *o16;              /* where Q and O are bf16, the host's: [rows][heads][HEAD_DIM] */
    void *q, *o;                      /* on a GPU, or of bf16: as Glint reads and writes them */
    void *workspace;
    struct glint_plan plan; /* of every step */
    char reason[1024];      /* after a failure, what was wrong */
};

/* Plans a step. 0, or -1 with the reason, as for the functions below: there is no kernel. */
int cache_open(struct cache *cache, const struct cache_shape *shape, const struct glint_context *context, struct gpu *gpu);

/* Takes its memory: what Glint reads and writes from `device`, which without a GPU is `host`. */
void cache_layout(struct cache *cache, struct arena *host, struct arena *device);

/* Bytes of K, V and their scales. */
size_t cache_bytes(const struct cache *cache);

/* Takes the numbers of cache->step to where Glint reads them. */
int cache_begin(struct cache *cache);

/* Keeps K and V of the step's rows in a layer and computes their O: qkv [rows][3][heads][HEAD_DIM], o
 * [rows][heads][HEAD_DIM]. */
int cache_attend(struct cache *cache, size_t layer, const float *qkv, float *o);

/* After all layers: whether the step's numbers were within their bounds. */
int cache_end(struct cache *cache);

#endif
