/* Memory of a GPU for programs that were built without the CUDA toolkit: a few functions of the driver, found with
 * dlopen. The rest of the GPU's work is Glint's. */
#ifndef EXAMPLES_COMMON_GPU_H
#define EXAMPLES_COMMON_GPU_H

#include <stddef.h>

struct gpu {
    void *library;
    int device;
    struct {
        unsigned (*init)(unsigned flags);
        unsigned (*device_get)(int *device, int ordinal);
        unsigned (*device_name)(char *name, int bytes, int device);
        unsigned (*retain)(void **context, int device);
        unsigned (*release)(int device);
        unsigned (*set_current)(void *context);
        unsigned (*memory)(size_t *free, size_t *total);
        unsigned (*allocate)(unsigned long long *address, size_t bytes);
        unsigned (*to_device)(unsigned long long to, const void *from, size_t bytes);
        unsigned (*to_host)(void *to, unsigned long long from, size_t bytes);
    } driver;
    char name[64];
    char reason[128]; /* after a failure, what was wrong */
};

/* Opens the first GPU and makes its primary context current on the calling thread: GLINT_DEVICE_CUDA_CURRENT is this
 * one then. 0, or
 * -1 with gpu->reason filled in, as for every function below; nothing is left open then. */
int gpu_open(struct gpu *gpu);

/* Gives all of it back, memory too. Work and Glint's context on it have ended. */
void gpu_close(struct gpu *gpu);

/* Bytes of its memory that are in use, by all who use it; 0 when it is not open or does not say. */
size_t gpu_used(struct gpu *gpu);

/* Memory, aligned to 256 bytes; NULL when there is none. */
void *gpu_allocate(struct gpu *gpu, size_t bytes);

/* Copies between host memory and the GPU's. Both wait for the work on the default stream before them, and return when
 * done. */
int gpu_put(struct gpu *gpu, void *to, const void *from, size_t bytes);
int gpu_get(struct gpu *gpu, void *to, const void *from, size_t bytes);

#endif
