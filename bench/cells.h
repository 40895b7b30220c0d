/* A cell of the benchmark: one variant on one shape, its memory and its timings. */
#ifndef BENCH_CELLS_H
#define BENCH_CELLS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/glint.h"

/* A context for each pair of instruction set and number of threads, or one for a GPU. */
struct machine {
    uint32_t threads, max_isa; /* as asked; 0 on a GPU */
    uint32_t isa;              /* in use */
    struct glint_executor executor;
    struct glint_context *context;
    struct device *device; /* NULL on the CPU; bench/gpu.c */
    void *stream;          /* for the calls */
    char name[192];        /* of a GPU */
};

enum { MAX_REPS = 101 };

/* The order of all tensors: [batch, seqlen, heads, head_dim], or [batch, heads, seqlen, head_dim]. */
enum { KV_SAME = 6 };

enum layout { LAYOUT_BSHD = 1, LAYOUT_BHSD = 2 };

struct cell {
    struct machine *machine;
    struct glint_plan plan;
    const char *variant;
    uint32_t dtype, pass, causal, head_dim;
    int64_t seqlen_q, seqlen_k, batch, heads_q, heads_kv;
    uint32_t layout;   /* enum layout */
    float softcap;     /* 0: none */
    uint32_t sinks;    /* 1: a sink a head */
    int64_t page_rows; /* 0: K and V are linear; else in pages, which lie in no order, with lengths of the call */
    int64_t window;    /* 0, or how many keys up to its own a query of a causal cell sees */
    int ragged;        /* enum ragged */
    void *page_table, *lengths, *first;
    uint32_t kv_dtype; /* of K and V: 0 as dtype, or GLINT_I8 with a scale a row, GLINT_E4M3 with one a head */
    void *o, *lse;     /* of this cell alone: backward reads what its own forward wrote */
    int ready;         /* whether they are written */
    char policy[40];   /* what the rules of lib/cuda/policy.c gave, or was taken in place of it; "" where nobody asked */
    int tuned;         /* 1: the latter */
    size_t samples;
    double ms[MAX_REPS], read_ms[MAX_REPS]; /* read_ms: of a loop that only reads K and V; decode's */
};

/* Sequences that follow one another, of as many rows in all: each longer than the one before, or all as long as the
 * cell's. */
enum ragged { NOT_RAGGED, RAGGED_UNEVEN, RAGGED_EVEN };

/* Uneven ragged sequences of a cell: sequence b has the rows from ragged_first(b) to ragged_first(b + 1), so (2 b + 1)
 * / batch of seqlen each, and all of them batch * seqlen. */
int64_t ragged_first(const struct cell *cell, int64_t b);

/* The words of the command line and of the CSV file; 0 or NULL when there is no such thing. */
uint32_t pass_from(const char *word);
uint32_t dtype_from(const char *word);
uint32_t kv_dtype_from(const char *word); /* KV_SAME for "same" */
uint32_t isa_from(const char *word);
uint32_t layout_from(const char *word);
const char *pass_name(uint32_t pass);
const char *dtype_name(uint32_t dtype);
const char *isa_name(uint32_t isa);
const char *layout_name(uint32_t layout);

/* The machine with this many threads and this cap, opened when first asked for; NULL with a sentence in `reason`. */
struct machine *machine_open(uint32_t threads, uint32_t max_isa, char *reason, size_t reason_bytes);

/* Plans the cell (shape and machine are filled in; row: an index into the table, or UINT32_MAX for the planner's
 * choice) and gets its memory. 0, or -1 with the reason. */
int cell_plan(struct cell *cell, uint32_t row, char *reason, size_t reason_bytes);

/* Milliseconds of one call, averaged over as many as last `least_ms`; negative with a reason when the call is
 * refused. */
double cell_sample(struct cell *cell, double least_ms, char *reason, size_t reason_bytes);

/* Milliseconds in which the cell's threads read its K and V once and do nothing else, as cell_sample averages them; 0
 * on a GPU. */
double cell_read_sample(const struct cell *cell, double least_ms);

/* Bytes of K and V together. */
double cell_kv_bytes(const struct cell *cell);

/* The tiles of keys that a causal cell's tiles of queries touch with the row's tile, of one head. */
double cell_tiles(const struct cell *cell);

/* 4 B H D for each pair of a query and a key that it sees, 2.5 times that backward. Of Sq Sk pairs a causal mask leaves
 * half where Sq = Sk, and all but Sq^2 / 2 where queries are fewer. */
double cell_flops(const struct cell *cell);

double seconds_now(void);

#endif
