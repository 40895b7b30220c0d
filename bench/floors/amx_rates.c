/* What a core's tile instructions and its softmax take, one at a time: nanoseconds, the least of many repetitions.
 * bench/floors/amx_floor.py adds them up. No answer without AMX, or where the process may not use it. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define GLINT_CPU_LANES 16
#define GLINT_CPU_VECS 1
#define GLINT_CPU_DTYPE bf16
#define GLINT_CPU_ELEMENT uint16_t
enum { HEAD_DIM = 64 };
#include "lib/cpu/amx.h"
#include "lib/cpu/cpu.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Prints the time of `count` of what the statements do once for i = 0 ... 63. */
#define RATE(name, count, ...)                                                \
    do {                                                                      \
        double least = 1;                                                     \
        for (int repetition = 0; repetition < 2000; repetition++) {           \
            const double begin = now();                                       \
            for (int i = 0; i < 64; i++) {                                    \
                __VA_ARGS__;                                                  \
            }                                                                 \
            const double took = now() - begin;                                \
            least = took < least ? took : least;                              \
        }                                                                     \
        printf("%-52s %6.2f ns\n", name, least * 1e9 / 64 / (double)(count)); \
    } while (0)

int main(void)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    if ((glint_cpu_probe() >> GLINT_ISA_X86_64_AMX & 1) == 0 || glint_permit_amx(&options) != GLINT_OK) {
        puts("no AMX here, or none for this process");
        return 0;
    }
    enum { BYTES = 1 << 20 };
    char *memory = aligned_alloc(4096, BYTES);
    if (!memory)
        return 1;
    memset(memory, 0, BYTES);
    float *s = (float *)(memory + BYTES / 2);
    uint16_t *p = (uint16_t *)(memory + BYTES / 4 * 3);

    struct glint_tiles found;
    glint_tiles_begin(&found);
    for (int i = 0; i < 2; i++) { /* the first time the clock is not yet that of tiles */
        RATE("product of tiles", 4, GLINT_TILE_MULTIPLY_ADD(0, 4, 6); GLINT_TILE_MULTIPLY_ADD(1, 4, 7);
             GLINT_TILE_MULTIPLY_ADD(2, 5, 6); GLINT_TILE_MULTIPLY_ADD(3, 5, 7));
    }
    RATE("load of a tile, first-level cache", 4, GLINT_TILE_LOAD(4, memory); GLINT_TILE_LOAD(5, memory + 1024);
         GLINT_TILE_LOAD(6, memory + 2048); GLINT_TILE_LOAD(7, memory + 3072));
    RATE("load of a tile, second-level cache", 4, const char *at = memory + i * 4096; GLINT_TILE_LOAD(4, at);
         GLINT_TILE_LOAD(5, at + 1024); GLINT_TILE_LOAD(6, at + 2048); GLINT_TILE_LOAD(7, at + 3072));
    RATE("store of a tile, first-level cache", 4, GLINT_TILE_STORE(0, memory); GLINT_TILE_STORE(1, memory + 1024);
         GLINT_TILE_STORE(2, memory + 2048); GLINT_TILE_STORE(3, memory + 3072));
    RATE("two loads and four products of them", 1, GLINT_TILE_LOAD(6, memory); GLINT_TILE_MULTIPLY_ADD(0, 4, 6);
         GLINT_TILE_MULTIPLY_ADD(1, 5, 6); GLINT_TILE_LOAD(7, memory + 1024); GLINT_TILE_MULTIPLY_ADD(2, 4, 7);
         GLINT_TILE_MULTIPLY_ADD(3, 5, 7));
    glint_vec total = glint_splat(0.0f);
    RATE("weights of 16 queries by 16 keys, of 64 keys", 4,
         total += glint_tile_weights(p, s, 64, glint_splat(0.18f), glint_splat(1.0f)));
    glint_tiles_end(&found);
    free(memory);
    return total[0] < 0.0f;
}
