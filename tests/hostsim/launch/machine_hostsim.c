#include "tests/hostsim/launch/machine.h"

#include "lib/context.h"
#include "tests/hostsim/driver.h"

struct glint_context *machine_open(void *storage, size_t storage_bytes)
{
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    options.device = GLINT_DEVICE_CUDA_CURRENT;
    return glint_context_init_with_driver(storage, storage_bytes, &options, sim_driver(90), &context) == GLINT_OK ? context : NULL;
}

void *machine_alloc(size_t bytes)
{
    return sim_allocate(bytes);
}

void machine_free(void *memory)
{
    sim_release(memory);
}

void machine_put(void *to, const void *from, size_t bytes)
{
    sim_put(to, from, bytes);
}

void machine_get(void *to, const void *from, size_t bytes)
{
    sim_get(to, from, bytes);
}

enum glint_status machine_forward(int way, const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                  size_t workspace_bytes)
{
    sim_seed((uint64_t)way + 1);
    return glint_forward(plan, tensors, workspace, workspace_bytes, NULL);
}

const char *machine_fault(void)
{
    return sim_findings() > 0 ? sim_finding_text(0) : NULL;
}
