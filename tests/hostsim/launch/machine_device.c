#include "tests/hostsim/launch/machine.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/device.h"

enum { NO_GPU = 77 };

static struct device device;
static glint_cu_stream stream;
static char fault[80];

struct glint_context *machine_open(void *storage, size_t storage_bytes)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    if (!device.context && !device_open(&device, 0)) {
        printf("no GPU: nothing was checked\n");
        exit(NO_GPU);
    }
    if (!stream)
        DEVICE(&device, stream_create, &stream, DEVICE_STREAM_NON_BLOCKING);
    options.device = GLINT_DEVICE_CUDA_CURRENT;
    const enum glint_status status = glint_context_init(storage, storage_bytes, &options, &context);
    if (status == GLINT_NO_KERNEL_IMAGE) {
        printf("%s does not run sm_90a: nothing was checked\n", device.name);
        exit(NO_GPU);
    }
    return status == GLINT_OK ? context : NULL;
}

void *machine_alloc(size_t bytes)
{
    return device_alloc(&device, bytes);
}

void machine_free(void *memory)
{
    device_free(&device, memory);
}

void machine_put(void *to, const void *from, size_t bytes)
{
    device_put(&device, to, from, bytes);
    device_wait(&device);
}

void machine_get(void *to, const void *from, size_t bytes)
{
    device_wait(&device);
    device_get(&device, to, from, bytes);
}

/* The graph is replayed twice: the second time the counter is where the first left it. */
static enum glint_status replay(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                size_t workspace_bytes)
{
    glint_cu_graph graph = NULL;
    glint_cu_replay again = NULL;
    DEVICE(&device, capture_begin, stream, DEVICE_CAPTURE_GLOBAL);
    const enum glint_status status = glint_forward(plan, tensors, workspace, workspace_bytes, stream);
    DEVICE(&device, capture_end, stream, &graph);
    DEVICE(&device, graph_instantiate, &again, graph, 0);
    for (int i = 0; i < 2; i++)
        DEVICE(&device, graph_launch, again, stream);
    DEVICE(&device, stream_synchronize, stream);
    DEVICE(&device, replay_destroy, again);
    DEVICE(&device, graph_destroy, graph);
    return status;
}

enum glint_status machine_forward(int way, const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                  size_t workspace_bytes)
{
    if (way == 1)
        return replay(plan, tensors, workspace, workspace_bytes);
    return glint_forward(plan, tensors, workspace, workspace_bytes, way == 0 ? stream : NULL);
}

const char *machine_fault(void)
{
    const glint_cu_result result = device.driver.context_synchronize();
    snprintf(fault, sizeof fault, "the CUDA driver answers %u", result);
    return result == GLINT_CU_SUCCESS ? NULL : fault;
}
