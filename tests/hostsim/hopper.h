/* What Hopper adds to the machine: mbarriers, bulk copies, warpgroup products, moving registers. lib/device/hopper.h
 * says what each instruction does, primitives/hopper_impl.h leads here.
 *
 * Whatever goes on by itself happens as early or as late as the ISA lets it, as drawn from the seed: at once, at some
 * later moment, or not before nobody can go on without it. Meanwhile the shared memory that it reads must not be
 * written, and what it writes must not be touched: engine.h keeps marks on the words. */
#ifndef GLINT_HOSTSIM_HOPPER_H
#define GLINT_HOSTSIM_HOPPER_H

#include <vector>

#include "lib/device/tensor_map.h"
#include "tests/hostsim/engine.h"
#include "tests/hostsim/warp.h"

namespace sim
{

/* A part of a bulk copy that is contiguous on both sides; global == null: fill. */
struct Piece {
    uint32_t shared, bytes;
    unsigned char *global; /* the kernel's address */
};

/* ---- "mbarrier" ---- */

struct Mbarrier {
    uint32_t count, pending; /* arrivals of a phase, and those still to come */
    int64_t bytes;           /* expected and not yet landed; below 0: landed and not yet expected */
    uint32_t phase;
    Known *gathered, *last;            /* what those who arrive did; of the phase that ended last */
    std::vector<Piece> landed, hidden; /* what copies wrote in this phase; before, and nobody has waited since */
    std::vector<Thread *> waiting;
    uint32_t made_by, made_at; /* thread and its clock at init */
    bool fenced;               /* the async proxy knows of it */
    Site site;
};

void mbarrier_init(uint32_t address, uint32_t count, Site site);
void mbarrier_inval(uint32_t address, Site site);
void mbarrier_arrive(uint32_t address, uint32_t expected_bytes, const char *what, Site site);
/* An arrival from another block; gives what stands for the barrier in releases. */
const void *mbarrier_arrive_remote(Block *block, uint32_t address, Site site);
void mbarrier_expect(uint32_t address, uint32_t bytes, Site site);
bool mbarrier_test(uint32_t address, uint32_t parity, const char *what, Site site);
void mbarrier_wait(uint32_t address, uint32_t parity, Site site);
void mbarriers_fenced(); /* by the running thread */
/* A bulk copy is about to signal there. */
void mbarrier_take_signals(Block *block, uint32_t address, Site site);
void mbarrier_landed(Block *block, uint32_t address, uint32_t bytes, const Known *known, const std::vector<Piece> &pieces,
                     Site site);

/* ---- bulk copies ---- */

struct Transfer {
    enum What { load, store, reduce } what;
    Block *block;
    uint32_t thread;
    std::vector<Piece> pieces;
    std::vector<uint32_t> chunks;    /* the 16-byte pieces of shared memory that it reads or writes */
    std::vector<unsigned char> data; /* of a store, once it has read */
    uint32_t fill;                   /* a pattern of 4 bytes */
    int type;                        /* of a reduction */
    uint32_t barrier, signal;        /* of a load: bytes that arrive there */
    Known *known;
    bool has_read, let_go, done, lazy; /* let_go: a wait says that it has read */
    Site site;
};

void transfer_begin(Transfer *transfer); /* takes it over; looks at everything that it will touch */
void bulk_commit(Site site);
void bulk_wait(uint32_t groups, bool read_only, Site site);

void bulk_load(uint32_t shared, const void *global, uint32_t bytes, uint32_t barrier, Site site);
void bulk_store(void *global, uint32_t shared, uint32_t bytes, int reduce_type, Site site); /* reduce_type: -1 stores */
void tensor_load(uint32_t shared, const struct tensor_map *map, int rank, const int32_t at[], uint32_t barrier, Site site);
void tensor_load_to(Block *block, uint32_t shared, const struct tensor_map *map, int rank, const int32_t at[], uint32_t barrier,
                    Site site);
void tensor_store(const struct tensor_map *map, int rank, const int32_t at[], uint32_t shared, bool reduce, Site site);

/* Adds an element of `type` to another, as red and the copy engine do. */
void reduce_add(int type, unsigned char *to, const unsigned char *value);

/* ---- "wgmma" ---- */

struct WarpgroupProduct {
    Element element;
    uint32_t n;
    float *d;
    const uint32_t *a; /* registers; null: descriptor */
    uint64_t a_descriptor, b_descriptor;
    bool transpose_a, transpose_b, negate_a, negate_b, accumulate;
};
void wgmma(const WarpgroupProduct &product, Site site);
void wgmma_fence(Site site);
void wgmma_commit(Site site);
void wgmma_wait(uint32_t groups, Site site);
void wgmma_hold(const void *registers, uint32_t count, Site site); /* by each lane; none of them may be a product's under way */

/* ---- clusters ---- */

uint32_t cluster_rank();
void cluster_arrive(Site site);
void cluster_wait(Site site);
uint32_t cluster_address(uint32_t shared, uint32_t rank, Site site);
float cluster_load(uint32_t address, Site site);
void cluster_store(uint32_t address, float value, Site site);
void cluster_mbarrier_arrive(uint32_t address, Site site);
bool cluster_mbarrier_test(uint32_t address, uint32_t parity, Site site);
void cluster_mbarrier_wait(uint32_t address, uint32_t parity, Site site);
void cluster_tensor_load(uint32_t shared, const struct tensor_map *map, int rank, const int32_t at[], uint32_t barrier,
                         uint16_t blocks, Site site);

/* ---- warps ---- */

bool elect_one(Site site);
void store_matrices(uint32_t row, const uint32_t r[4], bool transposed, Site site);
void set_registers(uint32_t registers, bool take, Site site);
void fence_async(Site site);
void fence_async_global(Site site);

} // namespace sim

#endif
