/* Switching stacks. */
#ifndef GLINT_HOSTSIM_FIBER_H
#define GLINT_HOSTSIM_FIBER_H

#include <cstddef>

namespace sim
{

/* A stack with an inaccessible page below; from a pool, never given back to the system. AddressSanitizer's fake stack
 * of the fiber that had it before goes along (null: none), as making one takes longer than most fibers live. */
unsigned char *fiber_stack(void **sanitizer);
void fiber_stack_back(unsigned char *stack, void *sanitizer);
size_t fiber_stack_bytes();

/* The stack pointer of a fiber that begins with `entry`, which must not return. */
void *fiber_prepare(unsigned char *stack, void (*entry)());

} // namespace sim

/* Saves what a call must keep and the stack pointer in *from, and goes on at `to`. */
extern "C" __attribute__((visibility("hidden"))) void sim_fiber_switch(void **from, void *to);

#endif
