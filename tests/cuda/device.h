/* A GPU for tests and benchmarks: memory, streams, graphs and events of the CUDA driver, found with dlopen, so that a
 * program needs neither the CUDA toolkit to be built nor a GPU to start. Not part of the library; lib/cuda/ has its
 * own, smaller table.
 *
 * Every call that fails prints its name and the driver's code and ends the program with status 1: a test has nothing
 * to add. */
#ifndef GLINT_TESTS_DEVICE_H
#define GLINT_TESTS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/cuda/driver.h"

typedef struct CUevent_st *glint_cu_event;      /* CUevent */
typedef struct CUgraph_st *glint_cu_graph;      /* CUgraph */
typedef struct CUgraphExec_st *glint_cu_replay; /* CUgraphExec */

enum { DEVICE_CAPTURE_GLOBAL = 0, DEVICE_STREAM_NON_BLOCKING = 1 };

/* X(member, symbol, parameters), versions exact as in lib/cuda/driver.h; tests/cuda/prototypes.c compares them with
 * <cuda.h>. */
/* clang-format off */
#define DEVICE_ENTRIES(X)                                                                                             \
    X(init, cuInit, (unsigned int flags))                                                                             \
    X(driver_version, cuDriverGetVersion, (int *version))                                                             \
    X(device_count, cuDeviceGetCount, (int *count))                                                                   \
    X(device_get, cuDeviceGet, (glint_cu_device * device, int ordinal))                                               \
    X(device_name, cuDeviceGetName, (char *name, int bytes, glint_cu_device device))                                  \
    X(device_attribute, cuDeviceGetAttribute, (int *value, unsigned int attribute, glint_cu_device device))           \
    X(primary_retain, cuDevicePrimaryCtxRetain, (glint_cu_context * context, glint_cu_device device))                 \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, (glint_cu_device device))                                        \
    X(context_set, cuCtxSetCurrent, (glint_cu_context context))                                                       \
    X(context_current, cuCtxGetCurrent, (glint_cu_context * context))                                                 \
    X(context_synchronize, cuCtxSynchronize, (void))                                                                  \
    X(memory_info, cuMemGetInfo_v2, (size_t *free_bytes, size_t *total_bytes))                                        \
    X(memory_alloc, cuMemAlloc_v2, (glint_cu_address * address, size_t bytes))                                        \
    X(memory_free, cuMemFree_v2, (glint_cu_address address))                                                          \
    X(memory_set, cuMemsetD8Async, (glint_cu_address address, unsigned char value, size_t bytes, glint_cu_stream stream)) \
    X(copy_to_device, cuMemcpyHtoD_v2, (glint_cu_address to, const void *from, size_t bytes))                         \
    X(copy_to_host, cuMemcpyDtoH_v2, (void *to, glint_cu_address from, size_t bytes))                                 \
    X(stream_create, cuStreamCreate, (glint_cu_stream * stream, unsigned int flags))                                  \
    X(stream_destroy, cuStreamDestroy_v2, (glint_cu_stream stream))                                                   \
    X(stream_synchronize, cuStreamSynchronize, (glint_cu_stream stream))                                              \
    X(capture_begin, cuStreamBeginCapture_v2, (glint_cu_stream stream, unsigned int mode))                            \
    X(capture_end, cuStreamEndCapture, (glint_cu_stream stream, glint_cu_graph * graph))                              \
    X(graph_instantiate, cuGraphInstantiateWithFlags, (glint_cu_replay * replay, glint_cu_graph graph, unsigned long long flags)) \
    X(graph_launch, cuGraphLaunch, (glint_cu_replay replay, glint_cu_stream stream))                                  \
    X(replay_destroy, cuGraphExecDestroy, (glint_cu_replay replay))                                                   \
    X(graph_destroy, cuGraphDestroy, (glint_cu_graph graph))                                                          \
    X(event_create, cuEventCreate, (glint_cu_event * event, unsigned int flags))                                      \
    X(event_destroy, cuEventDestroy_v2, (glint_cu_event event))                                                       \
    X(event_record, cuEventRecord, (glint_cu_event event, glint_cu_stream stream))                                    \
    X(event_synchronize, cuEventSynchronize, (glint_cu_event event))                                                  \
    X(event_elapsed, cuEventElapsedTime, (float *milliseconds, glint_cu_event from, glint_cu_event to))
/* clang-format on */

struct device_driver {
#define DEVICE_MEMBER(member, symbol, parameters) glint_cu_result(*member) parameters;
    DEVICE_ENTRIES(DEVICE_MEMBER)
#undef DEVICE_MEMBER
};

struct device {
    struct device_driver driver;
    glint_cu_device handle;
    glint_cu_context context; /* the primary one, current on the opening thread */
    int ordinal, count, sm, driver_version;
    char name[128];
};

/* 0 when there is no driver or no device of that ordinal, 1 when it is open and current. */
int device_open(struct device *device, int ordinal);
void device_close(struct device *device);

/* Ends the program unless result is 0; what: the call, for the message. */
void device_must(glint_cu_result result, const char *what);
#define DEVICE(device, member, ...) device_must((device)->driver.member(__VA_ARGS__), #member)

void *device_alloc(struct device *device, size_t bytes); /* aligned to 256 */
void device_free(struct device *device, void *address);
void device_put(struct device *device, void *to, const void *from, size_t bytes); /* returns when done, after the default stream */
void device_get(struct device *device, void *to, const void *from, size_t bytes);
void device_set(struct device *device, void *address, unsigned char value, size_t bytes, void *stream);
void device_wait(struct device *device); /* for everything enqueued */
size_t device_free_bytes(struct device *device);

#endif
