/* Opening and closing a GPU: everything slow, and everything that lets the driver allocate, happens in this file. */
#include "lib/cuda/cuda.h"

#include <string.h>

static bool is_gpu(const struct glint_variant *variant)
{
    return variant->family->backend == &glint_cuda_backend;
}

size_t glint_cuda_size(void)
{
    return sizeof(struct glint_cuda) + glint_variants_count * sizeof(struct glint_cuda_row);
}

enum glint_status glint_cuda_note(struct glint_cuda *cuda, glint_cu_result result)
{
    if (result == GLINT_CU_SUCCESS)
        return GLINT_OK;
    enum glint_status status = glint_cuda_status(result);
    atomic_store_explicit(&cuda->error, result, memory_order_relaxed);
    if (status == GLINT_DEVICE_LOST)
        atomic_store_explicit(&cuda->lost, 1, memory_order_relaxed);
    return status;
}

int32_t glint_cuda_error(const struct glint_cuda *cuda)
{
    return (int32_t)atomic_load_explicit(&cuda->error, memory_order_relaxed);
}

enum glint_status glint_cuda_enter(struct glint_cuda *cuda, bool *pushed)
{
    glint_cu_context current = NULL;
    *pushed = false;
    enum glint_status status = glint_cuda_note(cuda, cuda->driver.context_current(&current));
    if (status != GLINT_OK || current == cuda->context)
        return status;
    status = glint_cuda_note(cuda, cuda->driver.context_push(cuda->context));
    *pushed = status == GLINT_OK;
    return status;
}

enum glint_status glint_cuda_begin(struct glint_cuda *cuda, bool *pushed)
{
    if (atomic_load_explicit(&cuda->lost, memory_order_relaxed))
        return GLINT_DEVICE_LOST;
    return glint_cuda_enter(cuda, pushed);
}

enum glint_status glint_cuda_leave(struct glint_cuda *cuda, bool pushed, enum glint_status status)
{
    glint_cu_context popped = NULL;
    const glint_cu_result result = pushed ? cuda->driver.context_pop(&popped) : GLINT_CU_SUCCESS;
    return status != GLINT_OK ? status : glint_cuda_note(cuda, result);
}

static enum glint_status first_failure(enum glint_status first, enum glint_status then)
{
    return first != GLINT_OK ? first : then;
}

/* ---- which kernels a device runs --------------------------------------------------------------------------------- */

/* 0: the device does not run the image; of two that it runs, the nearer one has the higher number. SASS of compute
 * capability X.y runs on X.z for z >= y, but neither way between Tegra (Orin is 8.7) and the others: CUDA C++
 * Programming Guide, "Binary Compatibility". With the letter a it runs on X.y alone. */
static uint32_t nearness(const struct glint_gpu_image *image, uint32_t device_sm)
{
    const uint32_t tegra = 87;
    const char *arch = image->arch;
    uint32_t sm = 0;
    for (; *arch >= '0' && *arch <= '9'; arch++)
        sm = 10 * sm + (uint32_t)(*arch - '0');
    if (*arch == 'a')
        return sm == device_sm ? 2 * sm + 1 : 0;
    if (*arch != 0 || sm / 10 != device_sm / 10 || sm > device_sm)
        return 0;
    return sm == device_sm || (sm != tegra && device_sm != tegra) ? 2 * sm : 0;
}

/* Whether the driver has what the kernels are launched with. */
static bool can_launch(const struct glint_cuda_driver *driver, const struct glint_gpu_kernel *kernel)
{
    for (uint32_t i = 0; i < kernel->launch_count; i++)
        if (kernel->launch[i].cluster > 0 && !driver->launch_ex)
            return false;
    return kernel->map_count == 0 || driver->tensor_map_encode;
}

/* The nearest image that the device runs; NULL when it runs none. */
static const struct glint_gpu_image *nearest(const struct glint_cuda *cuda, const struct glint_gpu_image *images, uint32_t count)
{
    const struct glint_gpu_image *best = NULL;
    uint32_t highest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t near = nearness(&images[i], cuda->sm);
        if (near > highest) {
            highest = near;
            best = &images[i];
        }
    }
    return best;
}

static const struct glint_gpu_image *choose_image(const struct glint_cuda *cuda, const struct glint_variant *variant)
{
    if (!is_gpu(variant))
        return NULL;
    const struct glint_gpu_kernel *kernel = variant->kernel;
    if (!can_launch(&cuda->driver, kernel))
        return NULL;
    for (uint32_t i = 0; i < kernel->launch_count; i++)
        if (kernel->launch[i].smem_bytes > cuda->shared_bytes)
            return NULL;
    return nearest(cuda, kernel->images, kernel->image_count);
}

static bool has_image(const struct glint_cuda *cuda)
{
    for (uint32_t i = 0; i < glint_variants_count; i++)
        if (choose_image(cuda, &glint_variants[i]))
            return true;
    return false;
}

/* ---- which device ------------------------------------------------------------------------------------------------ */

static enum glint_status read_attribute(struct glint_cuda *cuda, unsigned int attribute, uint32_t *value)
{
    int read = 0;
    enum glint_status status = glint_cuda_note(cuda, cuda->driver.device_attribute(&read, attribute, cuda->device));
    *value = (uint32_t)read;
    return status;
}

/* GLINT_NO_KERNEL_IMAGE: the device is there, but the table has nothing for it. */
static enum glint_status examine(struct glint_cuda *cuda)
{
    uint32_t major = 0, minor = 0;
    enum glint_status status = read_attribute(cuda, GLINT_CU_DEVICE_MAJOR, &major);
    if (status == GLINT_OK)
        status = read_attribute(cuda, GLINT_CU_DEVICE_MINOR, &minor);
    if (status == GLINT_OK)
        status = read_attribute(cuda, GLINT_CU_DEVICE_MULTIPROCESSORS, &cuda->multiprocessors);
    if (status == GLINT_OK)
        status = read_attribute(cuda, GLINT_CU_DEVICE_SHARED_BYTES_PER_BLOCK, &cuda->shared_bytes);
    cuda->sm = 10 * major + minor;
    if (status == GLINT_OK && !has_image(cuda))
        status = GLINT_NO_KERNEL_IMAGE;
    return status;
}

static enum glint_status choose_current(struct glint_cuda *cuda)
{
    enum glint_status status = glint_cuda_note(cuda, cuda->driver.context_current(&cuda->context));
    if (status != GLINT_OK)
        return status;
    if (!cuda->context)
        return GLINT_NO_DEVICE;
    status = glint_cuda_note(cuda, cuda->driver.context_device(&cuda->device));
    cuda->ordinal = cuda->device; /* the driver numbers CUdevice by ordinal */
    return status == GLINT_OK ? examine(cuda) : status;
}

static enum glint_status choose_ordinal(struct glint_cuda *cuda, int32_t ordinal)
{
    cuda->context = NULL;
    cuda->ordinal = ordinal;
    enum glint_status status = glint_cuda_note(cuda, cuda->driver.device_get(&cuda->device, ordinal));
    return status == GLINT_OK ? examine(cuda) : status;
}

/* The current device, or else the first, that the table has a kernel for. A device that fails is reported, not
 * passed over. */
static enum glint_status choose_any(struct glint_cuda *cuda)
{
    int count = 0;
    enum glint_status status = choose_current(cuda);
    if (status != GLINT_NO_DEVICE && status != GLINT_NO_KERNEL_IMAGE)
        return status;
    enum glint_status counted = glint_cuda_note(cuda, cuda->driver.device_count(&count));
    if (counted != GLINT_OK)
        return counted;
    for (int32_t i = 0; i < count; i++) {
        status = choose_ordinal(cuda, i);
        if (status != GLINT_NO_KERNEL_IMAGE)
            return status;
    }
    return status;
}

static enum glint_status choose_device(struct glint_cuda *cuda, uint32_t device_kind, int32_t ordinal)
{
    switch (device_kind) {
    case GLINT_DEVICE_CUDA_CURRENT: return choose_current(cuda);
    case GLINT_DEVICE_CUDA: return choose_ordinal(cuda, ordinal);
    default: return choose_any(cuda);
    }
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Loads one kernel for good: modules are lazy by default since CUDA 12.2. *local_bytes is what a thread of it needs
 * beyond registers. */
static enum glint_status load_function(struct glint_cuda *cuda, glint_cu_module module, const struct glint_gpu_launch *launch,
                                       glint_cu_function *function, int *local_bytes)
{
    const struct glint_cuda_driver *driver = &cuda->driver;
    enum glint_status status = glint_cuda_note(cuda, driver->module_function(function, module, launch->entry));
    if (status == GLINT_OK && driver->function_load)
        status = glint_cuda_note(cuda, driver->function_load(*function));
    if (status == GLINT_OK)
        status = glint_cuda_note(cuda, driver->function_attribute(local_bytes, GLINT_CU_FUNCTION_LOCAL_BYTES, *function));
    if (status == GLINT_OK)
        status = glint_cuda_note(
            cuda, driver->function_set_attribute(*function, GLINT_CU_FUNCTION_DYNAMIC_SHARED_BYTES, (int)launch->smem_bytes));
    return status;
}

static enum glint_status unload_row(struct glint_cuda *cuda, struct glint_cuda_row *row)
{
    glint_cu_module module = row->module;
    row->module = NULL;
    return module ? glint_cuda_note(cuda, cuda->driver.module_unload(module)) : GLINT_OK;
}

/* A kernel that uses local memory would make the driver grow its pool at a launch, so such a row counts as one that
 * the device does not run: its module stays NULL. */
static enum glint_status load_row(struct glint_cuda *cuda, struct glint_cuda_row *row, const struct glint_gpu_image *image,
                                  const struct glint_gpu_launch *launch, uint32_t launches)
{
    glint_cu_module module = NULL;
    enum glint_status status = glint_cuda_note(cuda, cuda->driver.module_load(&module, image->data));
    if (status != GLINT_OK)
        return status;
    row->module = module;
    for (uint32_t i = 0; i < launches; i++) {
        int local_bytes = 0;
        status = load_function(cuda, module, &launch[i], &row->functions[i], &local_bytes);
        if (status != GLINT_OK)
            return status;
        if (local_bytes != 0)
            return unload_row(cuda, row);
    }
    return GLINT_OK;
}

static enum glint_status load_variant(struct glint_cuda *cuda, uint32_t index)
{
    const struct glint_gpu_image *image = choose_image(cuda, &glint_variants[index]);
    if (!image)
        return GLINT_OK;
    const struct glint_gpu_kernel *kernel = glint_variants[index].kernel;
    const enum glint_status status = load_row(cuda, &cuda->rows[index], image, kernel->launch, kernel->launch_count);
    cuda->rows_loaded += cuda->rows[index].module != NULL;
    return status;
}

/* The kernels that no variant has. */
static enum glint_status load_rows_of_calls(struct glint_cuda *cuda)
{
    const struct glint_gpu_image *image = nearest(cuda, glint_gpu_rows, glint_gpu_rows_count);
    return image ? load_row(cuda, &cuda->rows_of_calls, image, glint_cuda_rows_launch, GLINT_CUDA_ROWS_LAUNCHES) : GLINT_OK;
}

static enum glint_status load_rows(struct glint_cuda *cuda)
{
    bool pushed;
    enum glint_status status = glint_cuda_enter(cuda, &pushed);
    for (uint32_t i = 0; i < glint_variants_count && status == GLINT_OK; i++)
        status = load_variant(cuda, i);
    if (status == GLINT_OK && cuda->rows_loaded == 0)
        status = GLINT_NO_KERNEL_IMAGE;
    if (status == GLINT_OK)
        status = load_rows_of_calls(cuda);
    return glint_cuda_leave(cuda, pushed, status);
}

/* Gives back whatever is held, in the reverse order; also where the device is lost, and whatever each step answers. */
static enum glint_status release(struct glint_cuda *cuda)
{
    enum glint_status status = GLINT_OK;
    bool pushed = false, loaded = cuda->rows_of_calls.module != NULL;
    for (uint32_t i = 0; i < glint_variants_count; i++)
        loaded = loaded || cuda->rows[i].module;
    if (loaded)
        status = glint_cuda_enter(cuda, &pushed);
    status = first_failure(status, unload_row(cuda, &cuda->rows_of_calls));
    for (uint32_t i = glint_variants_count; i-- > 0;)
        status = first_failure(status, unload_row(cuda, &cuda->rows[i]));
    status = glint_cuda_leave(cuda, pushed, status);
    if (cuda->retained)
        status = first_failure(status, glint_cuda_note(cuda, cuda->driver.primary_release(cuda->device)));
    cuda->retained = 0;
    cuda->context = NULL;
    glint_cuda_driver_unload(cuda->library);
    cuda->library = NULL;
    return status;
}

static enum glint_status open_driver(struct glint_cuda *cuda, const struct glint_cuda_driver *driver)
{
    if (!driver)
        return glint_cuda_driver_load(&cuda->driver, &cuda->library);
    cuda->driver = *driver;
    return GLINT_OK;
}

/* The device's context: the caller's if it is current, else the primary one. */
static enum glint_status open_context(struct glint_cuda *cuda)
{
    if (cuda->context)
        return GLINT_OK;
    enum glint_status status = glint_cuda_note(cuda, cuda->driver.primary_retain(&cuda->context, cuda->device));
    cuda->retained = status == GLINT_OK;
    return status;
}

enum glint_status glint_cuda_open(struct glint_cuda *cuda, uint32_t device_kind, int32_t ordinal,
                                  const struct glint_cuda_driver *driver)
{
    memset(cuda, 0, glint_cuda_size());
    enum glint_status status = open_driver(cuda, driver);
    if (status != GLINT_OK)
        return status;
    status = glint_cuda_note(cuda, cuda->driver.init(0));
    if (status == GLINT_OK)
        status = choose_device(cuda, device_kind, ordinal);
    if (status == GLINT_OK)
        status = open_context(cuda);
    if (status == GLINT_OK)
        status = load_rows(cuda);
    const uint32_t cause = status == GLINT_OK ? GLINT_CU_SUCCESS : atomic_load_explicit(&cuda->error, memory_order_relaxed);
    if (status != GLINT_OK)
        (void)release(cuda);
    atomic_store_explicit(&cuda->error, cause, memory_order_relaxed);
    return status;
}

enum glint_status glint_cuda_close(struct glint_cuda *cuda)
{
    return release(cuda);
}

void glint_cuda_describe(const struct glint_cuda *cuda, struct glint_device_info *info)
{
    info->cuda_device = cuda->ordinal;
    info->sm = cuda->sm;
    info->concurrency = cuda->multiprocessors;
    info->driver_error = glint_cuda_error(cuda);
}
