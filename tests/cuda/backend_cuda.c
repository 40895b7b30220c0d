/* The backend of the GPU families: the same checks as on the CPU, on device memory, on a stream of the test's own.
 * Every buffer lies between guards that are looked at whenever the stream is waited for. Without a GPU the test ends
 * with status 77. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/context.h"
#include "tests/checks/backend.h"
#include "tests/cuda/device.h"

enum { GUARD = 0x5a, GUARD_BYTES = 256, BUFFERS = 256, NO_GPU = 77 };

static struct device device;
static struct {
    unsigned char *memory; /* what the check got; the guards are around it */
    size_t bytes;
} buffers[BUFFERS];
static struct backend cuda;

static enum glint_status open_context(const struct glint_executor *executor, struct glint_context **context)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CUDA_CURRENT;
    if (executor != NULL)
        options.executor = *executor;
    void *storage = aligned_alloc(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
    if (storage == NULL)
        abort();
    enum glint_status status = glint_context_init(storage, glint_context_size(), &options, context);
    if (status != GLINT_OK) {
        fprintf(stderr, "the context does not open: %s, the driver answers %d\n", glint_status_name(status),
                glint_context_driver_error(storage));
        free(storage);
    }
    return status;
}

static void close_context(struct glint_context *context)
{
    glint_context_close(context);
    free(context); /* the context is its storage */
}

static void plan_for(struct glint_context *context, uint32_t multiprocessors)
{
    struct glint_device_info info = GLINT_DEVICE_INFO_INIT;
    if (glint_context_device(context, &info) != GLINT_OK)
        abort();
    context->executor.concurrency = multiprocessors > 0 ? multiprocessors : info.concurrency;
}

static void *allocate(size_t bytes, size_t alignment, enum fence fence)
{
    (void)alignment, (void)fence; /* 256 is enough for all, and fences are not asked for */
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i].memory == NULL) {
            unsigned char *arena = device_alloc(&device, bytes + 2 * GUARD_BYTES);
            device_set(&device, arena, GUARD, bytes + 2 * GUARD_BYTES, cuda.stream);
            DEVICE(&device, stream_synchronize, cuda.stream);
            buffers[i].memory = arena + GUARD_BYTES;
            buffers[i].bytes = bytes;
            return buffers[i].memory;
        }
    return NULL;
}

static bool holds(int i)
{
    unsigned char guards[2][GUARD_BYTES];
    device_get(&device, guards[0], buffers[i].memory - GUARD_BYTES, GUARD_BYTES);
    device_get(&device, guards[1], buffers[i].memory + buffers[i].bytes, GUARD_BYTES);
    for (int g = 0; g < 2; g++)
        for (int b = 0; b < GUARD_BYTES; b++)
            if (guards[g][b] != GUARD)
                return false;
    return true;
}

static const char *finish(void)
{
    static char text[80];
    const glint_cu_result result = device.driver.stream_synchronize(cuda.stream);
    if (result != GLINT_CU_SUCCESS) {
        snprintf(text, sizeof text, "the stream ended with the driver's code %u", result);
        return text;
    }
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i].memory != NULL && !holds(i))
            return "memory beside a buffer was written";
    return NULL;
}

static void release(void *memory)
{
    for (int i = 0; i < BUFFERS; i++)
        if (memory != NULL && buffers[i].memory == memory) {
            device_free(&device, buffers[i].memory - GUARD_BYTES);
            buffers[i].memory = NULL;
        }
}

static void copy_in(void *to, const void *from, size_t bytes)
{
    device_put(&device, to, from, bytes);
}

static void copy_out(void *to, const void *from, size_t bytes)
{
    device_get(&device, to, from, bytes);
}

static struct backend cuda = {
    .name = "cuda",
    .executors = false,
    .fences = false,
    .open = open_context,
    .close = close_context,
    .plan_for = plan_for,
    .alloc = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .finish = finish,
    .variant_count = glint_variant_count,
    .variant_at = glint_variant_at,
    .variant_available = glint_variant_available,
    .plan = glint_plan_variant,
    .forward = glint_forward,
    .backward = glint_backward,
    .status_name = glint_status_name,
};

const struct backend *test_backend(void)
{
    if (device.context == NULL) {
        glint_cu_stream stream = NULL;
        if (!device_open(&device, 0)) {
            printf("no GPU: nothing was checked\n");
            exit(NO_GPU);
        }
        DEVICE(&device, stream_create, &stream, 0); /* waits for the default stream, which copies use */
        cuda.stream = stream;
    }
    return &cuda;
}
