#include "tests/cuda/fake_driver.h"

#include <stdlib.h>
#include <string.h>

enum { NOT_INITIALIZED = 3, INVALID_VALUE = 1, INVALID_CONTEXT = 201, INVALID_IMAGE = 200, INVALID_HANDLE = 400, NOT_FOUND = 500 };
enum { STACK = 8, FUNCTIONS = GLINT_GPU_MAX_LAUNCHES };

struct CUctx_st {
    int device;
};

enum { BYTES_OF_ALL = 49152 }; /* of dynamic shared memory, of a kernel whose attribute is not set */

struct CUfunc_st {
    struct CUmod_st *module;
    const char *entry;
    int dynamic_bytes;
    bool loaded;
};

struct CUmod_st {
    bool live;
    struct CUctx_st *context;
    const struct fake_image *image;
    struct CUfunc_st functions[FUNCTIONS];
};

struct fake_driver fake;

static struct CUctx_st primary[FAKE_DEVICES] = {{0}, {1}, {2}, {3}};
static struct CUctx_st application[FAKE_DEVICES] = {{0}, {1}, {2}, {3}};
static struct CUmod_st modules[FAKE_MODULES];
static struct CUctx_st *stack[STACK];
static int depth;
static struct CUctx_st *expected; /* what the application left current */
static bool initialised;

/* The copy that was asked for last. It is done as late as may be: when the stream goes on, or is waited for. */
static struct {
    void *to;
    const void *from;
    size_t bytes;
} under_way;

static void end_copy(void)
{
    if (under_way.bytes > 0)
        memcpy(under_way.to, under_way.from, under_way.bytes);
    under_way.bytes = 0;
}

static struct CUctx_st *current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

static const struct {
    const char *symbol;
    bool optional;
} names[] = {
#define REQUIRED false
#define OPTIONAL true
#define NAME(member, symbol, presence, parameters) {#symbol, presence},
    GLINT_CUDA_ENTRIES(NAME)
#undef NAME
};

const char *fake_symbol(int entry)
{
    return names[entry].symbol;
}

bool fake_optional(int entry)
{
    return names[entry].optional;
}

void fake_reset(void)
{
    memset(&fake, 0, sizeof fake);
    memset(modules, 0, sizeof modules);
    memset(stack, 0, sizeof stack);
    depth = 0;
    expected = NULL;
    initialised = false;
    under_way.bytes = 0;
    fake.devices = 1;
    fake.fault_entry = -1;
    for (int i = 0; i < FAKE_DEVICES; i++)
        fake.device[i] = (struct fake_device){90, 132, 232448};
}

void fake_recount(void)
{
    memset(fake.calls, 0, sizeof fake.calls);
    fake.all_calls = 0;
    fake.launches = 0;
    fake.sets = 0;
}

void fake_application_context(int device)
{
    depth = device >= 0;
    expected = stack[0] = device >= 0 ? &application[device] : NULL;
}

void fake_set_current(glint_cu_context context)
{
    depth = context != NULL;
    expected = stack[0] = context;
}

glint_cu_context fake_current(void)
{
    return current();
}

bool fake_context_restored(void)
{
    return (depth ? stack[depth - 1] : NULL) == expected && fake.pushed == 0;
}

int fake_held(void)
{
    int held = fake.libraries + fake.modules + fake.pushed;
    for (int i = 0; i < FAKE_DEVICES; i++)
        held += fake.retained[i];
    return held;
}

static glint_cu_result misuse(const char *what, glint_cu_result result)
{
    if (fake.misuse++ == 0)
        fake.first_misuse = what;
    return result;
}

/* Counts the call; what it has to fail with, if it has to. */
static glint_cu_result called(int entry)
{
    fake.all_calls++;
    const unsigned number = ++fake.calls[entry];
    if (entry == fake.fault_entry && (number == fake.fault_at || (number > fake.fault_at && fake.fault_forever)))
        return fake.fault_result;
    return entry != FAKE_init && !initialised ? misuse("a call before cuInit", NOT_INITIALIZED) : GLINT_CU_SUCCESS;
}

#define CALLED(entry)                                        \
    do {                                                     \
        const glint_cu_result result = called(FAKE_##entry); \
        if (result != GLINT_CU_SUCCESS)                      \
            return result;                                   \
    } while (0)

static bool usable(const struct CUctx_st *context)
{
    if (context >= primary && context < primary + FAKE_DEVICES)
        return fake.retained[context->device] > 0;
    return context >= application && context < application + FAKE_DEVICES;
}

static glint_cu_result init(unsigned int flags)
{
    CALLED(init);
    initialised = true;
    return flags == 0 ? GLINT_CU_SUCCESS : misuse("cuInit with flags", INVALID_VALUE);
}

static glint_cu_result device_count(int *count)
{
    CALLED(device_count);
    *count = fake.devices;
    return GLINT_CU_SUCCESS;
}

static glint_cu_result device_get(glint_cu_device *device, int ordinal)
{
    CALLED(device_get);
    if (ordinal < 0 || ordinal >= fake.devices)
        return GLINT_CU_INVALID_DEVICE;
    *device = ordinal;
    return GLINT_CU_SUCCESS;
}

static glint_cu_result device_attribute(int *value, unsigned int attribute, glint_cu_device device)
{
    CALLED(device_attribute);
    if (device < 0 || device >= fake.devices)
        return misuse("an attribute of no device", GLINT_CU_INVALID_DEVICE);
    const struct fake_device *d = &fake.device[device];
    switch (attribute) {
    case GLINT_CU_DEVICE_MAJOR: *value = d->sm / 10; break;
    case GLINT_CU_DEVICE_MINOR: *value = d->sm % 10; break;
    case GLINT_CU_DEVICE_MULTIPROCESSORS: *value = d->multiprocessors; break;
    case GLINT_CU_DEVICE_SHARED_BYTES_PER_BLOCK: *value = d->shared_bytes; break;
    default: return misuse("an unknown device attribute", INVALID_VALUE);
    }
    return GLINT_CU_SUCCESS;
}

static glint_cu_result primary_retain(glint_cu_context *context, glint_cu_device device)
{
    CALLED(primary_retain);
    if (device < 0 || device >= fake.devices)
        return misuse("retain of no device", GLINT_CU_INVALID_DEVICE);
    fake.retained[device]++;
    *context = &primary[device];
    return GLINT_CU_SUCCESS;
}

/* Giving back counts even when it is told to fail: the caller cannot do more than try once. The same below. */
static glint_cu_result primary_release(glint_cu_device device)
{
    if (device < 0 || device >= FAKE_DEVICES || fake.retained[device] == 0)
        return misuse("release of what was not retained", INVALID_CONTEXT);
    fake.retained[device]--;
    for (int i = 0; i < FAKE_MODULES; i++)
        if (fake.retained[device] == 0 && modules[i].live && modules[i].context == &primary[device])
            misuse("a context released before its modules", INVALID_CONTEXT);
    CALLED(primary_release);
    return fake.release_result;
}

static glint_cu_result context_current(glint_cu_context *context)
{
    CALLED(context_current);
    *context = current();
    return GLINT_CU_SUCCESS;
}

static glint_cu_result context_push(glint_cu_context context)
{
    CALLED(context_push);
    if (!context || !usable(context))
        return misuse("push of a context that is not alive", INVALID_CONTEXT);
    if (depth == STACK)
        return misuse("the context stack grows", INVALID_CONTEXT);
    stack[depth++] = context;
    fake.pushed++;
    return GLINT_CU_SUCCESS;
}

static glint_cu_result context_pop(glint_cu_context *context)
{
    if (fake.pushed == 0)
        return misuse("pop of what was not pushed", INVALID_CONTEXT);
    *context = stack[--depth];
    fake.pushed--;
    CALLED(context_pop);
    return fake.release_result;
}

static glint_cu_result context_device(glint_cu_device *device)
{
    CALLED(context_device);
    if (!current())
        return INVALID_CONTEXT;
    *device = current()->device;
    return GLINT_CU_SUCCESS;
}

/* As CUDA's programming guide has it. */
static bool runs(const char *arch, int device_sm)
{
    char *end;
    const int sm = (int)strtol(arch, &end, 10);
    if (strcmp(end, "a") == 0 || sm == 87 || device_sm == 87)
        return sm == device_sm;
    return *end == 0 && sm / 10 == device_sm / 10 && sm <= device_sm;
}

static glint_cu_result module_load(glint_cu_module *module, const void *data)
{
    CALLED(module_load);
    const struct fake_image *image = data;
    if (!current())
        return misuse("a module loaded without a context", INVALID_CONTEXT);
    if (memcmp(image->magic, FAKE_MAGIC, sizeof image->magic) != 0)
        return misuse("a module that is no image", INVALID_IMAGE);
    if (!runs(image->arch, fake.device[current()->device].sm))
        return misuse("an image for another architecture", GLINT_CU_NO_BINARY_FOR_GPU);
    for (int i = 0; i < FAKE_MODULES; i++)
        if (!modules[i].live) {
            modules[i] = (struct CUmod_st){.live = true, .context = current(), .image = image};
            fake.modules++;
            *module = fake.loaded_last = &modules[i];
            return GLINT_CU_SUCCESS;
        }
    return misuse("too many modules", GLINT_CU_OUT_OF_MEMORY);
}

static bool is_module(const struct CUmod_st *module)
{
    return module >= modules && module < modules + FAKE_MODULES && module->live;
}

static glint_cu_result module_unload(glint_cu_module module)
{
    if (!is_module(module))
        return misuse("unload of no module", INVALID_HANDLE);
    /* where the context cannot be made current, modules are given back all the same */
    if (current() != module->context && fake.fault_entry != FAKE_context_current && fake.fault_entry != FAKE_context_push)
        misuse("a module unloaded in another context", INVALID_CONTEXT);
    module->live = false;
    fake.modules--;
    CALLED(module_unload);
    return fake.release_result;
}

static glint_cu_result module_function(glint_cu_function *function, glint_cu_module module, const char *name)
{
    CALLED(module_function);
    if (!is_module(module))
        return misuse("a function of no module", INVALID_HANDLE);
    fake.out_of_turn += module != fake.loaded_last;
    for (int i = 0; i < FUNCTIONS; i++)
        if (module->image->entries[i] && strcmp(module->image->entries[i], name) == 0) {
            module->functions[i] =
                (struct CUfunc_st){.module = module, .entry = module->image->entries[i], .dynamic_bytes = BYTES_OF_ALL};
            *function = &module->functions[i];
            return GLINT_CU_SUCCESS;
        }
    return misuse("a function that the module lacks", NOT_FOUND);
}

static bool is_function(const struct CUfunc_st *function)
{
    return function && is_module(function->module);
}

static glint_cu_result function_load(glint_cu_function function)
{
    CALLED(function_load);
    if (!is_function(function))
        return misuse("load of no function", INVALID_HANDLE);
    function->loaded = true;
    return GLINT_CU_SUCCESS;
}

static glint_cu_result function_attribute(int *value, unsigned int attribute, glint_cu_function function)
{
    CALLED(function_attribute);
    if (!is_function(function) || attribute != GLINT_CU_FUNCTION_LOCAL_BYTES)
        return misuse("an unknown function attribute", INVALID_VALUE);
    function->loaded = true;
    const bool local = function - function->module->functions < function->module->image->local;
    *value = (local ? 16 : 0) + fake.local_bytes;
    return GLINT_CU_SUCCESS;
}

static glint_cu_result function_set_attribute(glint_cu_function function, unsigned int attribute, int value)
{
    CALLED(function_set_attribute);
    if (!is_function(function) || attribute != GLINT_CU_FUNCTION_DYNAMIC_SHARED_BYTES)
        return misuse("an unknown function attribute set", INVALID_VALUE);
    if (value <= BYTES_OF_ALL)
        return misuse("shared memory that a kernel has without being asked", INVALID_VALUE);
    if (value > fake.device[function->module->context->device].shared_bytes)
        return misuse("more shared memory than the device has", INVALID_VALUE);
    function->dynamic_bytes = value;
    return GLINT_CU_SUCCESS;
}

/* Either way of launching. */
static glint_cu_result start(glint_cu_function function, const unsigned int grid[3], const unsigned int block[3],
                             unsigned int shared_bytes, glint_cu_stream stream, unsigned int cluster, unsigned int dependent,
                             void **parameters, void **extra)
{
    if (!is_function(function) || !function->loaded)
        return misuse("launch of a function that is not loaded", INVALID_HANDLE);
    if (function->module->context != current())
        return misuse("launch in another context", INVALID_CONTEXT);
    if (grid[0] == 0 || grid[0] > 0x7fffffff || grid[1] != 1 || grid[2] != 1 || block[0] == 0 || block[0] > 1024 ||
        block[0] % 32 != 0 || block[1] != 1 || block[2] != 1)
        return misuse("a launch of a wrong shape", INVALID_VALUE);
    if (cluster > 8 || (cluster > 0 && grid[0] % cluster != 0))
        return misuse("a grid that is not whole clusters", INVALID_VALUE);
    if ((int)shared_bytes > function->dynamic_bytes)
        return misuse("more shared memory than the attribute says", INVALID_VALUE);
    if (!parameters || extra)
        return misuse("a launch without parameters", INVALID_VALUE);
    struct fake_launch *l = &fake.launch[fake.launches++ % FAKE_LAUNCHES];
    *l = (struct fake_launch){.entry = function->entry,
                              .device = current()->device,
                              .image_arch = function->module->image->arch,
                              .blocks = grid[0],
                              .threads = block[0],
                              .shared_bytes = shared_bytes,
                              .cluster = cluster,
                              .dependent = dependent,
                              .stream = stream};
    const size_t bytes = strcmp(function->entry, "glint_append_rows") == 0 ? sizeof l->params.append
                         : strcmp(function->entry, "glint_append_narrow_rows") == 0
                             ? sizeof l->params.append_narrow
                             : (size_t)function->module->image->parameter_bytes;
    memcpy(l->params.bytes, parameters[0], bytes);
    if (fake.execute)
        fake.execute(l);
    return GLINT_CU_SUCCESS;
}

static glint_cu_result launch(glint_cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                              unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                              glint_cu_stream stream, void **parameters, void **extra)
{
    const unsigned int grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    CALLED(launch);
    end_copy();
    return start(function, grid, block, shared_bytes, stream, 0, 0, parameters, extra);
}

static glint_cu_result launch_ex(const struct CUlaunchConfig_st *given, glint_cu_function function, void **parameters, void **extra)
{
    const struct glint_cu_launch_config *config = (const void *)given;
    unsigned int cluster = 0, dependent = 0;
    CALLED(launch_ex);
    end_copy();
    for (unsigned int i = 0; i < config->attribute_count; i++) {
        const struct glint_cu_launch_attribute *a = &config->attributes[i];
        if (a->id == GLINT_CU_LAUNCH_CLUSTER && a->value[0] > 0 && a->value[1] == 1 && a->value[2] == 1)
            cluster = a->value[0];
        else if (a->id == GLINT_CU_LAUNCH_DEPENDENT && a->value[0] == 1)
            dependent = 1;
        else
            return misuse("an unknown launch attribute", INVALID_VALUE);
    }
    return start(function, config->grid, config->block, config->shared_bytes, config->stream, cluster, dependent, parameters,
                 extra);
}

/* What the driver refuses, and what nobody should ask for. */
static glint_cu_result tensor_map_encode(struct CUtensorMap_st *to, unsigned int type, uint32_t rank, void *address,
                                         const uint64_t *extents, const uint64_t *strides, const uint32_t *box,
                                         const uint32_t *steps, unsigned int interleave, unsigned int swizzle, unsigned int l2,
                                         unsigned int fill)
{
    const uint64_t element = type == TENSOR_MAP_F32 ? 4 : 2;
    struct fake_map map = {.magic = FAKE_MAP_MAGIC,
                           .type = (uint8_t)type,
                           .rank = (uint8_t)rank,
                           .swizzle = (uint8_t)swizzle,
                           .l2 = (uint8_t)l2,
                           .address = address};
    CALLED(tensor_map_encode);
    if ((type != TENSOR_MAP_F32 && type != TENSOR_MAP_F16 && type != TENSOR_MAP_BF16) || rank < 3 || rank > 5 || interleave != 0 ||
        swizzle > TENSOR_MAP_SWIZZLE_128B || l2 > TENSOR_MAP_L2_256B || fill != TENSOR_MAP_FILL_ZERO)
        return misuse("a tensor map of a kind that nobody needs", INVALID_VALUE);
    if ((uintptr_t)to % 64 != 0 || (uintptr_t)address % 16 != 0 || !address)
        return misuse("a tensor map or a tensor at a wrong address", INVALID_VALUE);
    if (box[0] * element % 16 != 0 || (swizzle != 0 && box[0] * element > 16u << swizzle))
        return misuse("a box wider than its swizzle", INVALID_VALUE);
    for (uint32_t i = 0; i < rank; i++) {
        if (extents[i] == 0 || extents[i] > UINT64_C(1) << 32 || box[i] == 0 || box[i] > 256 || steps[i] != 1)
            return misuse("an extent or a box of a tensor map that the driver refuses", INVALID_VALUE);
        map.extents[i] = (uint32_t)extents[i];
        map.box[i] = (uint16_t)box[i];
        if (i + 1 < rank && (strides[i] % 16 != 0 || strides[i] >= UINT64_C(1) << 40))
            return misuse("a stride of a tensor map that the driver refuses", INVALID_VALUE);
        if (i + 1 < rank)
            map.strides[i] = strides[i];
    }
    memset(to, 0, sizeof(struct tensor_map));
    memcpy(to, &map, sizeof map);
    return GLINT_CU_SUCCESS;
}
_Static_assert(sizeof(struct fake_map) <= sizeof(struct tensor_map), "a map holds its description");

static glint_cu_result memory_set_words(glint_cu_address to, unsigned int value, size_t words, glint_cu_stream stream)
{
    CALLED(memory_set_words);
    end_copy();
    if (!current())
        return misuse("memory set without a context", INVALID_CONTEXT);
    if (to == 0 || to % sizeof(uint32_t) != 0 || words == 0)
        return misuse("words set at a wrong address", INVALID_VALUE);
    fake.sets++;
    fake.set = (struct fake_set){(uint32_t *)(uintptr_t)to, value, words, stream, fake.launches};
    if (fake.execute_set)
        fake.execute_set(&fake.set);
    else
        for (size_t i = 0; i < words; i++)
            fake.set.to[i] = value;
    return GLINT_CU_SUCCESS;
}

static glint_cu_result copy(void *to, const void *from, size_t bytes)
{
    if (!current())
        return misuse("a copy without a context", INVALID_CONTEXT);
    end_copy();
    under_way.to = to;
    under_way.from = from;
    under_way.bytes = bytes;
    return GLINT_CU_SUCCESS;
}

static glint_cu_result copy_to_device(glint_cu_address to, const void *from, size_t bytes, glint_cu_stream stream)
{
    CALLED(copy_to_device);
    (void)stream;
    return copy((void *)(uintptr_t)to, from, bytes);
}

static glint_cu_result copy_to_host(void *to, glint_cu_address from, size_t bytes, glint_cu_stream stream)
{
    CALLED(copy_to_host);
    (void)stream;
    return copy(to, (const void *)(uintptr_t)from, bytes);
}

static glint_cu_result stream_synchronize(glint_cu_stream stream)
{
    CALLED(stream_synchronize);
    (void)stream;
    end_copy();
    return current() ? GLINT_CU_SUCCESS : misuse("a wait without a context", INVALID_CONTEXT);
}

const struct glint_cuda_driver fake_table = {
#define MEMBER(member, symbol, presence, parameters) .member = member,
    GLINT_CUDA_ENTRIES(MEMBER)
#undef MEMBER
};
