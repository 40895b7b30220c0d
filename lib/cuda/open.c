/* Opening and closing a GPU: everything slow, and everything that lets the driver allocate, happens in this file. */
#include "lib/cuda/cuda.h"

#include <string.h>

#include "lib/text.h"

static bool is_gpu(const struct glint_variant *variant)
{
    return glint_family_of(variant)->backend == &glint_cuda_backend;
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
static uint32_t nearness(const char *arch, uint32_t device_sm)
{
    const uint32_t tegra = 87;
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
        if (glint_gpu_launch_at(kernel, i)->cluster > 0 && !driver->launch_ex)
            return false;
    return kernel->map_count == 0 || driver->tensor_map_encode;
}

enum { NO_IMAGE = UINT32_MAX };

/* The nearest of some images that the device runs, or NO_IMAGE. */
static uint32_t nearest(const struct glint_cuda *cuda, uint32_t first, uint32_t count)
{
    uint32_t best = NO_IMAGE, highest = 0;
    for (uint32_t i = first; i < first + count; i++) {
        const uint32_t near = nearness(glint_gpu_images[i].arch, cuda->sm);
        if (near > highest) {
            highest = near;
            best = i;
        }
    }
    return best;
}

static uint32_t choose_image(const struct glint_cuda *cuda, const struct glint_variant *variant)
{
    if (!is_gpu(variant))
        return NO_IMAGE;
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(variant);
    if (!can_launch(&cuda->driver, kernel))
        return NO_IMAGE;
    for (uint32_t i = 0; i < kernel->launch_count; i++)
        if (glint_gpu_launch_at(kernel, i)->smem_bytes > cuda->shared_bytes)
            return NO_IMAGE;
    return nearest(cuda, kernel->first_image, kernel->image_count);
}

static bool has_image(const struct glint_cuda *cuda)
{
    for (uint32_t i = 0; i < glint_variants_count; i++)
        if (choose_image(cuda, &glint_variants[i]) != NO_IMAGE)
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

/* Dynamic shared memory that a block may have without being asked about it. */
enum { SHARED_BYTES_OF_ALL = 48 * 1024 };

/* Loads one kernel for good: modules are lazy by default since CUDA 12.2. `name`: what its name begins with.
 * *local_bytes is what a thread of it needs beyond registers. */
static enum glint_status load_function(struct glint_cuda *cuda, glint_cu_module module, const char *name,
                                       const struct glint_gpu_launch *launch, glint_cu_function *function, int *local_bytes)
{
    const struct glint_cuda_driver *driver = &cuda->driver;
    char whole[sizeof((struct glint_gpu_kernel *)0)->name + GLINT_GPU_SUFFIX_BYTES];
    struct glint_text text = {whole, sizeof whole, 0};
    glint_text_str(&text, name);
    glint_text_str(&text, launch->suffix);
    (void)glint_text_end(&text);
    enum glint_status status = glint_cuda_note(cuda, driver->module_function(function, module, whole));
    if (status == GLINT_OK && driver->function_load)
        status = glint_cuda_note(cuda, driver->function_load(*function));
    if (status == GLINT_OK)
        status = glint_cuda_note(cuda, driver->function_attribute(local_bytes, GLINT_CU_FUNCTION_LOCAL_BYTES, *function));
    if (status == GLINT_OK && launch->smem_bytes > SHARED_BYTES_OF_ALL)
        status = glint_cuda_note(
            cuda, driver->function_set_attribute(*function, GLINT_CU_FUNCTION_DYNAMIC_SHARED_BYTES, (int)launch->smem_bytes));
    return status;
}

static enum glint_status unload(struct glint_cuda *cuda, glint_cu_module *held)
{
    glint_cu_module module = *held;
    *held = NULL;
    return module ? glint_cuda_note(cuda, cuda->driver.module_unload(module)) : GLINT_OK;
}

/* The module of an image that a row has loaded, or NULL. */
static glint_cu_module held_module(const struct glint_cuda *cuda, const unsigned char *data)
{
    for (uint32_t i = 0; i < glint_variants_count; i++)
        if (cuda->rows[i].held && cuda->rows[i].data == data)
            return cuda->rows[i].held;
    return NULL;
}

/* The module of an image, which several rows may have: the first of them loads it, and holds it. */
static enum glint_status load_module(struct glint_cuda *cuda, struct glint_cuda_row *row, const unsigned char *data)
{
    row->module = held_module(cuda, data);
    if (row->module)
        return GLINT_OK;
    glint_cu_module module = NULL;
    const enum glint_status status = glint_cuda_note(cuda, cuda->driver.module_load(&module, data));
    if (status != GLINT_OK)
        return status;
    row->module = row->held = module;
    row->data = data;
    return GLINT_OK;
}

/* Loads the kernels of a row, whose names begin with `name`, from an image.
 *
 * A kernel that uses local memory would make the driver grow its pool at a launch, so such a row counts as one that
 * the device does not run: its module becomes NULL. */
static enum glint_status load_row(struct glint_cuda *cuda, struct glint_cuda_row *row, uint32_t image, const char *name,
                                  const struct glint_gpu_launch *launch, uint32_t launches)
{
    enum glint_status status = load_module(cuda, row, glint_gpu_image_bytes(image));
    for (uint32_t i = 0; i < launches && status == GLINT_OK && row->module; i++) {
        int local_bytes = 0;
        status = load_function(cuda, row->module, name, &launch[i], &row->functions[i], &local_bytes);
        if (status == GLINT_OK && local_bytes != 0)
            row->module = NULL;
    }
    return status;
}

static enum glint_status load_variant(struct glint_cuda *cuda, uint32_t index, uint32_t image)
{
    const struct glint_gpu_kernel *kernel = glint_gpu_kernel_of(&glint_variants[index]);
    const enum glint_status status =
        load_row(cuda, &cuda->rows[index], image, kernel->name, glint_gpu_launch_at(kernel, 0), kernel->launch_count);
    cuda->has_rows |= cuda->rows[index].module != NULL;
    return status;
}

/* Loads the rows of an image, of which `first` is the first. */
static enum glint_status load_image(struct glint_cuda *cuda, uint32_t first, const unsigned char *data)
{
    for (uint32_t i = first; i < glint_variants_count; i++) {
        const uint32_t image = choose_image(cuda, &glint_variants[i]);
        if (image == NO_IMAGE || glint_gpu_image_bytes(image) != data)
            continue;
        const enum glint_status status = load_variant(cuda, i, image);
        if (status != GLINT_OK)
            return status;
    }
    return GLINT_OK;
}

/* A module after another, each with all of its rows: the driver unpacks the next one into memory that it has just given
 * back, which costs less than memory that the process has not had before. */
static enum glint_status load_variants(struct glint_cuda *cuda)
{
    for (uint32_t i = 0; i < glint_variants_count; i++) {
        const uint32_t image = choose_image(cuda, &glint_variants[i]);
        if (image == NO_IMAGE || held_module(cuda, glint_gpu_image_bytes(image)))
            continue;
        const enum glint_status status = load_image(cuda, i, glint_gpu_image_bytes(image));
        if (status != GLINT_OK)
            return status;
    }
    return GLINT_OK;
}

/* The kernels that no variant has. */
static enum glint_status load_rows_of_calls(struct glint_cuda *cuda)
{
    const uint32_t image = nearest(cuda, glint_gpu_rows_image, glint_gpu_rows_count);
    return image == NO_IMAGE
               ? GLINT_OK
               : load_row(cuda, &cuda->rows_of_calls, image, "glint", glint_cuda_rows_launch, GLINT_CUDA_ROWS_LAUNCHES);
}

static enum glint_status load_rows(struct glint_cuda *cuda)
{
    bool pushed;
    enum glint_status status = glint_cuda_enter(cuda, &pushed);
    if (status == GLINT_OK)
        status = load_variants(cuda);
    if (status == GLINT_OK && !cuda->has_rows)
        status = GLINT_NO_KERNEL_IMAGE;
    if (status == GLINT_OK)
        status = load_rows_of_calls(cuda);
    return glint_cuda_leave(cuda, pushed, status);
}

/* Gives back whatever is held, in the reverse order; also where the device is lost, and whatever each step answers. */
static enum glint_status release(struct glint_cuda *cuda)
{
    enum glint_status status = GLINT_OK;
    bool pushed = false, loaded = cuda->rows_of_calls.held != NULL;
    for (uint32_t i = 0; i < glint_variants_count; i++)
        loaded = loaded || cuda->rows[i].held;
    if (loaded)
        status = glint_cuda_enter(cuda, &pushed);
    status = first_failure(status, unload(cuda, &cuda->rows_of_calls.held));
    for (uint32_t i = glint_variants_count; i-- > 0;)
        status = first_failure(status, unload(cuda, &cuda->rows[i].held));
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
