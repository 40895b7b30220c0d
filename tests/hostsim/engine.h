/* The machine that runs emitted GPU kernels on a host, and judges them.
 *
 * One host thread runs a grid. Every CUDA thread is a fiber with a stack of its own; a fiber runs until it must wait,
 * then another does, drawn from a seed. Whatever kernels reach through lib/device/ comes here: memory is looked at
 * before it is touched, waiting is done by the scheduler, and what one thread knows of another is kept in vector
 * clocks.
 *
 * A finding ends its launch: report() never returns, the fibers are dropped, and the next launch starts afresh. */
#ifndef GLINT_HOSTSIM_ENGINE_H
#define GLINT_HOSTSIM_ENGINE_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sim
{

/* ---- where in a kernel ---- */

/* A place in a kernel's source. */
struct Site {
    const char *file;
    int line;
};

/* A small number for a place, and back. 0 is no place. */
uint16_t site_id(Site site);
Site site_of(uint16_t id);

/* ---- findings ---- */

enum class Kind {
    race,          /* two accesses, one of them a write, and nothing that orders them */
    uninitialised, /* a read of memory that nobody wrote */
    pending,       /* an access to what an asynchronous operation may still write, or a write to what it may still read */
    bounds,        /* outside of every allocation, or of the block's shared memory */
    alignment,
    deadlock,   /* nobody can go on, or threads only poll */
    divergence, /* lanes of a warp at different warp-wide instructions */
    misuse      /* an instruction's own rule is broken */
};
const char *name_of(Kind kind);

/* Ends the launch with a finding about the running thread's access or wait. The format is printf's. */
[[noreturn]] void report(Kind kind, Site site, const char *format, ...) __attribute__((format(printf, 3, 4)));

void clear_findings(); /* findings.h has them */

/* ---- the seed ---- */

/* Orders of threads and blocks, and moments of asynchronous work, are drawn from it. The launch number is mixed in. */
void set_seed(uint64_t seed);
uint64_t seed();
/* Switches between threads after which a launch counts as one without end. */
void set_step_limit(uint64_t steps);
uint64_t steps_so_far();   /* such switches, in all launches of this process: what simulating costs, the same on every machine */
uint32_t draw(uint32_t n); /* 0 ... n - 1 */

/* ---- vector clocks ---- */

/* What a thread knows of the others of its block: clock[t] is the newest event of thread t that happened before. Shared
 * and immutable; the threads that left one barrier together hold the same. `far` is the same for every thread of the
 * grid, or null; only a thread that acquired something another block released has one. */
struct Far {
    int references;
    std::vector<uint32_t> clock; /* [block * threads + thread] */
};
struct Known {
    int references;
    Far *far;
    std::vector<uint32_t> clock; /* [thread] */
    uint32_t least = UINT32_MAX; /* of `clock`; UINT32_MAX: not known yet. Whoever changes a clock forgets it */
};

/* ---- threads ---- */

struct Warp;
struct Block;

struct Copy { /* of cp.async */
    uint32_t to;
    const void *from; /* null: zeros */
    uint32_t bytes;
    Site site;
};

/* What a switch and an access touch comes first, in one line of the cache. */
struct alignas(64) Thread {
    void *stack_pointer;
    Block *block;
    Warp *warp;
    Known *known;
    uint32_t index, lane;
    uint32_t clock;
    Known *released; /* what a fence made ready for the relaxed writes after it, or null */
    Known *seen;     /* what relaxed reads since the last fence could have acquired, or null */
    bool ended;
    bool awaited;          /* what is ahead of the launch in its stream */
    const char *waits_for; /* null while it can run, and while it waits for lanes of its warp */
    Site waits_at;
    uint32_t waits_id;
    unsigned char *stack;                  /* its lowest byte */
    void *sanitizer;                       /* AddressSanitizer's fake stack while the fiber rests */
    std::vector<Copy> open;                /* copies of no group yet */
    std::vector<std::vector<Copy>> groups; /* closed, oldest first */
    void *more;                            /* of the families' own primitives */
};

/* A warp-wide instruction: performed once, when all 32 lanes have come, on what each lane brought. */
struct Collective {
    const char *name;
    void (*perform)(Warp *warp, void *const arguments[32], Site site);
    bool tells = false; /* perform() makes its own events */
};

struct Warp {
    Block *block;
    Thread *thread; /* the first of 32 */
    uint32_t index;
    uint32_t runnable; /* a bit a lane */
    uint32_t ended;
    int ready_at; /* in the list of warps that can run; -1: not there */
    const Collective *collective;
    Site collective_at;
    uint32_t arrived;
    void *arguments[32];
    bool held; /* all lanes wait for release_warp() */
};

struct Barrier {
    uint32_t expected, arrived; /* threads */
    uint32_t came;              /* a bit a warp */
    Known *gathered;
    std::vector<Warp *> waiting;
    bool reduces, any; /* of block_any; what it has gathered */
};

struct Block {
    uint32_t index;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    Barrier barriers[16];
    uint32_t alive; /* threads that have not ended */
    struct Shared *shared;
    void *more;
};

extern Thread *self; /* the one that runs; null outside of a launch */

/* The running thread waits until wake(thread). `what` is a literal, for the report of a deadlock. */
void wait(const char *what, Site site, uint32_t id);
void wake(Thread *thread);

/* The running thread looked at something that others change: let others run first. Polling without end is a
 * deadlock. */
void poll(const char *what, Site site);
/* Something happened that a poll could see. */
void progress();

void collective(const Collective &what, void *arguments, Site site);
/* From perform(): all lanes of the warp wait here, with their arguments, until release_warp(). */
void hold_warp(Warp *warp, uint32_t id, Site site);
void release_warp(Warp *warp);

/* Barrier `id` (0 ... 15) of `threads` threads. */
void barrier_sync(uint32_t id, uint32_t threads, Site site);
void barrier_arrive(uint32_t id, uint32_t threads, Site site);
bool barrier_any(uint32_t id, uint32_t threads, bool condition, Site site);

/* Order among these threads: each then knows what all did before. */
void join_threads(Thread *const *threads, uint32_t count);

/* What the running thread did until now, for somebody else to learn: known by reference. Its later events are not in
 * it. */
Known *publish();
void learn(Thread *thread, const Known *published);
Known *merge(Known *a, const Known *b); /* takes over a's reference; either may be null */
Known *keep(Known *known);
void drop(Known *known);

/* ---- memory ---- */

enum class Use { read, write, atomic };

/* Shared memory of the running block: looks at `bytes` bytes (a multiple of 4, naturally aligned) and gives the host's
 * address. */
unsigned char *shared(uint32_t address, uint32_t bytes, Use use, Site site);
/* As `thread`, of the same block. */
unsigned char *shared_as(Thread *thread, uint32_t address, uint32_t bytes, Use use, Site site);
/* From now on, or no longer, something asynchronous may write there (it counts as a write of the running thread, at
 * this moment). */
void shared_begin_write(uint32_t address, uint32_t bytes, Site site);
void shared_end_write(Thread *as, uint32_t address, uint32_t bytes, Site site);
/* Through the async proxy (hopper.h). A read that may still go on until its end: what ordinary stores put there takes a
 * fence.proxy.async of the thread that stored, which the reader knows of. A write that has landed counts as one of
 * whoever began it. */
void shared_begin_read(Thread *thread, uint32_t address, uint32_t bytes, Site site);
void shared_end_read(Block *block, uint32_t address, uint32_t bytes);
void shared_was_read(Thread *thread, uint32_t address, uint32_t bytes); /* by the thread, at this moment of its */
void shared_landed(Block *block, uint32_t address, uint32_t bytes);
/* From another block of the cluster. */
unsigned char *shared_remote(Block *block, uint32_t address, uint32_t bytes, Use use, Site site);
void shared_remote_begin_write(Block *block, uint32_t address, uint32_t bytes, Site site);
/* Eight bytes that only mbarrier's instructions may touch. */
void shared_is_mbarrier(Block *block, uint32_t address, bool is);
uint32_t shared_window(); /* the address of the block's first byte */
/* The bytes without a look. */
unsigned char *shared_raw(Block *block, uint32_t address);
uint32_t shared_size(const Block *block);

/* Global memory. */
void await_predecessors(Site site);
unsigned char *global(const void *address, uint32_t bytes, Use use, Site site);

/* Through the async proxy, at any moment between the two: what ordinary stores put there takes a
 * fence.proxy.async.global of the thread that stored, which the running one knows of, and nothing else may touch what
 * it writes or write what it reads. At the end of a write the running thread has waited for it, and others who come
 * after that see it, without a fence. */
void global_begin_async(const void *address, uint32_t bytes, Use use, Site site);
void global_end_async(const void *address, uint32_t bytes, Use use, Site site);

/* Words that are read and written by strong operations (PTX ISA, "Memory Consistency Model"): among themselves they
 * never race. */
const unsigned char *global_strong_read(const void *address, Site site);
unsigned char *global_strong_write(void *address, Site site);

/* Host memory becomes global memory, of undefined contents, and ceases to be. Addresses outside are out of bounds for
 * kernels. `far`: its addresses are such that no host can touch them, so that whatever goes past global() is a
 * segmentation fault, and not unseen. */
void *global_allocate(size_t bytes, bool far = false);
void global_release(void *memory);
void global_defined(const void *memory, size_t bytes,
                    bool defined); /* the host wrote there, or its contents are no longer anybody's */
bool global_holds(const void *memory, size_t bytes);
/* The host's address of it, without a look. */
unsigned char *global_raw(const void *address);
/* A digest of all that global memory holds, except for the allocation where `except` lies (may be null). */
uint64_t global_digest(const void *except);

/* Release and acquire through a word of global memory. */
void release_to(const void *word);
void acquire_from(const void *word);
void relaxed_write_to(const void *word, bool read_too);
void relaxed_read_from(const void *word);
void fence();

/* ---- launches ---- */

struct Launch {
    void (*call)(const void *parameters); /* the kernel, its parameter struct by value */
    const void *parameters;
    uint32_t blocks, threads, shared_bytes;
    const char *name;
    uint32_t cluster = 1; /* blocks of a cluster */
    bool dependent =
        false; /* it may begin before what is ahead of it has ended: a thread that touches global memory has awaited that */
};

/* False: there is a finding. */
bool run(const Launch &launch);
const Launch &launch();

/* ---- what happens, for a trace ---- */

struct Event {
    uint64_t step;
    uint32_t block, warp;
    int lane; /* -1: all 32 */
    const char *name;
    Site site;
    uint64_t a, b;
};
extern void (*on_event)(const Event &event);
inline void event(const char *name, Site site, uint64_t a = 0, uint64_t b = 0, bool whole_warp = false)
{
    extern void tell(const char *, Site, uint64_t, uint64_t, bool);
    if (on_event != nullptr)
        tell(name, site, a, b, whole_warp);
}

/* ---- what it costs ---- */

/* Counts from now on, or not. */
void count_costs(bool on);
extern bool counting;
void cost_instruction(const char *name, Site site);
void cost_shared(const char *name, uint32_t address, uint32_t bytes, Site site);
void cost_global(const char *name, const void *address, uint32_t bytes, Site site);
void cost_matrix_rows(const char *name, const uint32_t row[32], Site site);
} // namespace sim

#endif
