/* The tile instructions that lib/cpu/amx.h asks for by name, said in C as the Intel SDM, volume 2, defines them. Put in
 * front of the emitted kernels for AMX, it lets them run on a machine that has AVX-512 BF16 and no AMX. A misuse that a
 * CPU would answer with an exception, or that would multiply other numbers than were meant, ends the process with a
 * sentence. */
#ifndef GLINT_TESTS_AMX_INSTRUCTIONS_H
#define GLINT_TESTS_AMX_INSTRUCTIONS_H

#include <stddef.h>
#include <stdint.h>

void emulated_save(void *to);
void emulated_configure(const void *from);
void emulated_release(void);
void emulated_zero(int t);
void emulated_load(int t, const void *from, ptrdiff_t stride);
void emulated_store(int t, void *to, ptrdiff_t stride);
void emulated_multiply_add(int c, int a, int b);

#if !defined(GLINT_TILE_ZERO)
#define GLINT_TILES_SAVE(found) emulated_save(found)
#define GLINT_TILES_CONFIGURE(wanted) emulated_configure(wanted)
#define GLINT_TILES_RELEASE() emulated_release()
#define GLINT_TILE_ZERO(t) emulated_zero(t)
#define GLINT_TILE_LOAD(t, from) emulated_load(t, from, 64)
#define GLINT_TILE_LOAD_ONCE(t, from) emulated_load(t, from, 64)
#define GLINT_TILE_LOAD_ROWS(t, from, bytes) emulated_load(t, from, bytes)
#define GLINT_TILE_STORE(t, to) emulated_store(t, to, 64)
#define GLINT_TILE_LOAD_FROM(t, from, bytes) emulated_load(t, from, bytes)
#define GLINT_TILE_STORE_TO(t, to, bytes) emulated_store(t, to, bytes)
#define GLINT_TILE_MULTIPLY_ADD(c, a, b) emulated_multiply_add(c, a, b)
#endif

#endif
