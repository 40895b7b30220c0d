/* Serves many requests at a time from one fixed set of pages.
 *
 * A step is one pass of the model over a chunk of the prompt of some sequences and, of all others, over the newest byte
 * and those that are proposed after it. At each step finished sequences leave, and waiting requests take their slots.
 *
 *   pages        K and V of PAGE_ROWS positions, for all layers (cache.h); a sequence takes them as it grows. In
 *                float32 or bf16, or in int8 with a scale a row, which glint_append makes
 *   blocks       BLOCK_PAGES full pages of a prompt, kept when its sequence ends: prompts that begin alike share
 *                them
 *   proposals    what followed the last bytes of a sequence where they stood before, in its prompt or its answer.
 *                They are computed as if they were written; those up to the first that the model would not have
 *                written are taken, the rest of their rows is written over
 *   joining      in the order of arrival, when a slot is free and there are pages for the prompt
 *   eviction     when no page is free: first the block that was used longest ago, of those that no sequence uses and
 *                no other block continues; when there is none, the sequence that came last starts again, before all
 *                that wait
 *
 * A request's answer has the bits that it has alone and without proposals, whatever else is served: a row of the model
 * has the same bits in a chunk, alone and beside proposals (cache.h). The server allocates nothing. */
#ifndef EXAMPLES_SERVE_TEXT_SERVER_H
#define EXAMPLES_SERVE_TEXT_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "examples/serve_text/cache.h"
#include "examples/train_text/model.h"

enum { MAX_SLOTS = 256 };

/* What a host asks for, and what it gets. All memory is the host's, and stays until the request is done. */
struct request {
    const unsigned char *prompt;
    size_t prompt_bytes, length; /* 1 or more; bytes to write */
    double temperature;          /* 0: always the likeliest byte */
    uint64_t seed;
    unsigned char *answer; /* [length] */
    uint64_t trace;        /* of all logits that the answer's bytes were drawn from: FNV-1a */
    int done;
};

struct block {
    unsigned char bytes[CHUNK];
    int32_t page[BLOCK_PAGES];
    int32_t parent, next;     /* the block before it in its prompts, or -1; in its list of the hash table, or of free blocks */
    uint32_t users, children; /* sequences that use it; blocks that continue it */
    uint64_t used;            /* the last step that a sequence used it at */
    int taken;
};

struct slot {
    struct request *request; /* NULL: free */
    size_t position;         /* rows that the cache holds */
    size_t written;          /* bytes of the answer */
    size_t blocks;           /* of the prompt, shared or its own */
    int32_t last_block;      /* or -1 */
    size_t pages;            /* in its row of the table */
    uint64_t random, order;  /* order: when it came */
    unsigned char proposed[MOST_PROPOSED];
    size_t proposals; /* of this step */
};

struct server {
    struct model *model;
    struct cache cache;
    size_t slots, pages, longest, pages_per_sequence; /* longest: of a prompt and its answer */

    int32_t *table;     /* [slots][pages_per_sequence] */
    struct slot *slot;  /* [slots] */
    int32_t *free_page; /* a stack */
    size_t free_pages, free_least;
    struct block *block; /* [pages / BLOCK_PAGES] */
    size_t blocks;
    int32_t *list; /* [blocks]: the hash table's lists */
    int32_t free_block;
    struct request **waiting; /* a ring of `room` */
    size_t room, first_waiting, waits;
    uint64_t steps, arrivals;

    /* Of one step: rows, sequence by sequence, first those of prompts. */
    struct model_rows rows;
    unsigned char *bytes;
    size_t *positions;
    size_t prefills, prefill_slot[PREFILLS];
    size_t *step_slot; /* [slots]: of the sequences of cache.step */

    /* Since the start. */
    struct {
        uint64_t prompt_rows, shared_rows, written, proposed, accepted, evicted, restarted, finished;
    } count;
    char reason[1024];
};

/* What does not change; kept: enum glint_dtype of the cache; room: requests that may wait; proposed: bytes after a
 * sequence's last one in a step, 0 ... MOST_PROPOSED. */
struct server_shape {
    uint32_t kept;
    size_t slots, pages, longest, room, proposed;
};

/* Plans for the most of everything; gpu: where the context is, or NULL on the CPU. 0, or -1 with the reason: no kernel,
 * or too few pages for one sequence of the longest kind. */
int server_open(struct server *server, struct model *model, const struct glint_context *context, struct gpu *gpu,
                const struct server_shape *shape);

/* Takes its memory, the cache's from `device`, which without a GPU is `arena`. */
void server_layout(struct server *server, struct arena *arena, struct arena *device);

/* Makes everything empty. */
void server_reset(struct server *server);

/* Takes a request. 0; 1 when no more can wait; -1 with the reason when it is longer than `longest`, or empty. */
int server_take(struct server *server, struct request *request);

/* Requests that wait or run. */
size_t server_busy(const struct server *server);

/* Pages that are neither free nor of a block, when nothing waits or runs: 0, or the server has lost some. */
size_t server_lost_pages(const struct server *server);

/* One step. 0, or -1 with the reason. */
int server_step(struct server *server);

#endif
