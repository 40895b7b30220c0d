/* The families of kernels that this build has. The only file of the core that names one. */
#include <string.h>

#include "lib/context.h"
#include "lib/cpu/cpu.h"
#include "lib/cuda/cuda.h"

static bool cpu_available(const struct glint_context *context, uint32_t index)
{
    return context->device == GLINT_DEVICE_CPU && (context->isas >> glint_variants[index].isa & 1u) != 0;
}

static enum glint_status cpu_copy_in(const struct glint_context *context, void *device, const void *host, size_t bytes,
                                     void *stream)
{
    (void)context, (void)stream;
    memcpy(device, host, bytes);
    return GLINT_OK;
}

static enum glint_status cpu_copy_out(const struct glint_context *context, void *host, const void *device, size_t bytes,
                                      void *stream)
{
    (void)context, (void)stream;
    memcpy(host, device, bytes);
    return GLINT_OK;
}

const struct glint_family_ops glint_families[GLINT_FAMILY_COUNT] = {
    [GLINT_FAMILY_CPU] = {"cpu", glint_cpu_plan, glint_cpu_run, cpu_available, cpu_copy_in, cpu_copy_out},
    [GLINT_FAMILY_SM80] = {"sm80", glint_cuda_plan, glint_cuda_run, glint_cuda_available, glint_cuda_copy_in, glint_cuda_copy_out},
    [GLINT_FAMILY_SM90A] = {"sm90a", glint_cuda_plan, glint_cuda_run, glint_cuda_available, glint_cuda_copy_in,
                            glint_cuda_copy_out},
};
