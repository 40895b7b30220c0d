#include "bench/gpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/device.h"

static struct device device;
static glint_cu_event before, after;

struct machine *gpu_machine(char *reason, size_t reason_bytes)
{
    static struct machine machine;
    if (machine.context)
        return &machine;
    if (!device_open(&device, 0)) {
        snprintf(reason, reason_bytes, "there is no GPU or no driver");
        return NULL;
    }
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CUDA_CURRENT;
    void *storage = aligned_alloc(GLINT_CONTEXT_ALIGNMENT, glint_context_size());
    if (!storage)
        abort();
    const enum glint_status status = glint_context_init(storage, glint_context_size(), &options, &machine.context);
    if (status != GLINT_OK) {
        snprintf(reason, reason_bytes, "a context on %s (sm_%d): %s: %s; the driver answers %d", device.name, device.sm,
                 glint_status_name(status), glint_status_sentence(status), (int)glint_context_driver_error(storage));
        free(storage);
        return NULL;
    }
    glint_cu_stream stream = NULL;
    DEVICE(&device, stream_create, &stream, DEVICE_STREAM_NON_BLOCKING);
    DEVICE(&device, event_create, &before, 0);
    DEVICE(&device, event_create, &after, 0);
    machine.stream = stream;
    machine.device = &device;
    snprintf(machine.name, sizeof machine.name, "%s, sm_%d, driver %d", device.name, device.sm, device.driver_version);
    return &machine;
}

void *gpu_memory(struct machine *machine, size_t bytes)
{
    return device_alloc(machine->device, bytes);
}

void gpu_release(struct machine *machine, void *memory)
{
    device_wait(machine->device);
    device_free(machine->device, memory);
}

void gpu_put(struct machine *machine, void *to, const void *from, size_t bytes)
{
    device_put(machine->device, to, from, bytes);
}

/* Milliseconds that `count` calls take on the device; negative when one is refused. */
static double timed(struct machine *machine, size_t count, enum glint_status (*again)(void *what), void *what)
{
    float ms = 0;
    DEVICE(&device, event_record, before, machine->stream);
    for (size_t i = 0; i < count; i++)
        if (again(what) != GLINT_OK)
            return -1;
    DEVICE(&device, event_record, after, machine->stream);
    DEVICE(&device, event_synchronize, after);
    DEVICE(&device, event_elapsed, &ms, before, after);
    return (double)ms;
}

double gpu_time(struct machine *machine, double least_ms, enum glint_status (*again)(void *what), void *what)
{
    enum { MOST_CALLS = 1 << 16 };
    size_t count = 1;
    double ms = timed(machine, count, again, what);
    while (ms >= 0 && ms < least_ms && count < MOST_CALLS) { /* at most eight times as many at once: the first one is a slow one */
        const double more = ms > 0 ? 1.25 * least_ms / ms : 8;
        count = (size_t)((double)count * (more < 8 ? more : 8)) + 1;
        ms = timed(machine, count, again, what);
    }
    return ms < 0 ? ms : ms / (double)count;
}
