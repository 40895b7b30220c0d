/* The GPU of rows.c: the simulator, or a real one behind the same functions of tests/hostsim/driver.h
 * (gpu_device.c). */
#ifndef GLINT_TESTS_ROWS_GPU_H
#define GLINT_TESTS_ROWS_GPU_H

/* A stream of it that is not the default one. */
void *gpu_stream(void);

#endif
