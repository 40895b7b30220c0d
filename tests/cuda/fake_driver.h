/* A CUDA driver that owns no GPU: every entry of lib/cuda/driver.h over plain memory. It counts what it is asked, keeps
 * a book of every handle, objects to misuse that a real driver might let pass, and fails on demand: any entry, any call
 * of it, with any result.
 *
 * fake_library.c puts it behind dlopen as libcuda.so.1; fake_table is the same as a table to hand in. One thread
 * only. */
#ifndef GLINT_TESTS_FAKE_DRIVER_H
#define GLINT_TESTS_FAKE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/cuda/driver.h"
#include "lib/cuda/kernel.h"
#include "lib/cuda/rows.h"
#include "lib/device/decode.h"
#include "lib/device/hopper_call.h"

/* One number an entry, in the order of GLINT_CUDA_ENTRIES. */
enum fake_entry {
#define FAKE_ENTRY(member, symbol, presence, parameters) FAKE_##member,
    GLINT_CUDA_ENTRIES(FAKE_ENTRY)
#undef FAKE_ENTRY
        FAKE_ENTRIES
};

enum { FAKE_DEVICES = 4, FAKE_MODULES = 64, FAKE_LAUNCHES = 16 };

struct fake_device {
    int sm; /* 10 * major + minor */
    int multiprocessors;
    int shared_bytes;
};

/* What the tests' table carries as a cubin. */
struct fake_image {
    char magic[8];       /* FAKE_MAGIC */
    const char *arch;    /* "80", "90a" */
    int parameter_bytes; /* of the one parameter of its kernels; those of glint_append have their own structs */
    const char *entries[GLINT_GPU_MAX_LAUNCHES];
    int local; /* so many of them, from the first on, have local memory */
};
#define FAKE_MAGIC "\177FAKELF"

struct fake_launch {
    const char *entry;
    const char *image_arch;
    int device;
    unsigned int blocks, threads, shared_bytes;
    unsigned int cluster, dependent; /* attributes; 0: not given */
    glint_cu_stream stream;
    union {
        unsigned char bytes[sizeof(struct glint_gpu_backward_maps)]; /* the largest */
        struct glint_gpu_call call;
        struct glint_gpu_forward_maps forward_maps;
        struct glint_gpu_backward_maps backward_maps;
        struct glint_decode_params decode;
        struct glint_merge_params merge;
        struct glint_append_params append;
        struct glint_append_narrow_params append_narrow;
    } params;
};

/* What the driver makes of a tensor map's words. */
struct fake_map {
    uint32_t magic; /* FAKE_MAP_MAGIC */
    uint8_t type, rank, swizzle, l2;
    void *address;
    uint64_t strides[4];
    uint32_t extents[5];
    uint16_t box[5];
};
#define FAKE_MAP_MAGIC 0x50414d46u

/* Words set in the stream. */
struct fake_set {
    uint32_t *to;
    uint32_t value;
    size_t words;
    glint_cu_stream stream;
    unsigned launches; /* before it */
};

struct fake_driver {
    /* the machine: set before the calls */
    bool library_missing;
    const char *symbol_missing;
    int devices;
    struct fake_device device[FAKE_DEVICES];
    int local_bytes; /* of every kernel, besides what its image says */

    /* set by fake_gpu.c: carries out a launch; finds entries that the library does not use */
    void (*execute)(const struct fake_launch *launch);
    void (*execute_set)(const struct fake_set *set); /* NULL: it is done at once */
    void *(*symbol_elsewhere)(const char *symbol);

    /* the fault: call number `fault_at` (from 1) of an entry answers fault_result, and every later one too if
     * fault_forever */
    int fault_entry; /* -1: none */
    unsigned fault_at;
    glint_cu_result fault_result;
    bool fault_forever;
    glint_cu_result release_result; /* not 0: what every giving back of a handle answers */

    /* what happened */
    unsigned calls[FAKE_ENTRIES], all_calls;
    unsigned misuse;
    const char *first_misuse;
    unsigned launches; /* the last FAKE_LAUNCHES of them are kept, launch number i in launch[i % FAKE_LAUNCHES] */
    struct fake_launch launch[FAKE_LAUNCHES];
    unsigned sets; /* the last one: */
    struct fake_set set;

    /* what is held */
    int libraries, modules, pushed, retained[FAKE_DEVICES];
    struct CUmod_st *loaded_last;
    int out_of_turn; /* lookups in another module than the one that was loaded last */
};

extern struct fake_driver fake;
extern const struct glint_cuda_driver fake_table;

/* Forgets everything; one device like an H200, nothing current, no fault. */
void fake_reset(void);

/* Clears the counts, not the handles. */
void fake_recount(void);

/* Makes a context of that device current that the application is thought to have made; -1: none. */
void fake_application_context(int device);

/* cuCtxSetCurrent and cuCtxGetCurrent. */
void fake_set_current(glint_cu_context context);
glint_cu_context fake_current(void);

/* Whether the application's context is current, as it was before the library was called. */
bool fake_context_restored(void);

/* Handles held of any kind. */
int fake_held(void);

/* The symbol's name and whether the library can do without it. */
const char *fake_symbol(int entry);
bool fake_optional(int entry);

#endif
