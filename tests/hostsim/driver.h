/* A CUDA driver whose GPU is the simulator: modules are images (image.h), memory is the simulator's, launches run to
 * their end before they return. For glint_context_init_with_driver. */
#ifndef GLINT_HOSTSIM_DRIVER_H
#define GLINT_HOSTSIM_DRIVER_H

#include "lib/cuda/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The table; a device of compute capability `sm` with its shared memory a block. */
const struct glint_cuda_driver *sim_driver(uint32_t sm);

/* Device memory, aligned to 65536; undefined contents. */
void *sim_allocate(size_t bytes);
void sim_release(void *memory);
void sim_put(void *device, const void *host, size_t bytes);
void sim_get(void *host, const void *device, size_t bytes);
/* Its contents are nobody's from now on: a kernel that reads it before it writes is found out. */
void sim_forget(void *device, size_t bytes);

/* Draws from now on. Mixed with the number of each launch. */
void sim_seed(uint64_t seed);
uint64_t sim_seed_now(void);
/* Switches between threads so far, which is what simulating costs. */
uint64_t sim_steps(void);
/* A digest of all device memory, except for the allocation where `except` lies. */
uint64_t sim_digest(const void *except);

/* Findings since the last sim_clear: count, and of the i-th its kind's name, its place and the whole text. */
uint32_t sim_findings(void);
const char *sim_finding_kind(uint32_t i);
const char *sim_finding_file(uint32_t i);
int sim_finding_line(uint32_t i);
const char *sim_finding_text(uint32_t i);
void sim_clear(void);

#ifdef __cplusplus
}
#endif

#endif
