#include "tests/hostsim/driver.h"

#include <cstring>

#include "lib/device/hopper_call.h"
#include "tests/hostsim/findings.h"
#include "tests/hostsim/hopper_tensor_map.h"
#include "tests/hostsim/image.h"

namespace
{

enum { INVALID_VALUE = 1, NOT_FOUND = 500, DEVICE = 0 };

struct Function {
    const sim::Entry *entry;
    uint32_t dynamic_shared;
};
struct Module {
    const sim::Image *image;
    std::vector<Function> functions;
};

uint32_t compute_capability = 90;
glint_cu_context current;
unsigned char the_context; /* its address is the primary context */

glint_cu_context context()
{
    return (glint_cu_context)(void *)&the_context;
}

uint32_t shared_per_block()
{
    switch (compute_capability) {
    case 80:
    case 87: return 163 * 1024;
    case 86:
    case 89:
    case 120: return 99 * 1024;
    default: return 227 * 1024;
    }
}

glint_cu_result init(unsigned int flags)
{
    return flags == 0 ? (glint_cu_result)GLINT_CU_SUCCESS : (glint_cu_result)INVALID_VALUE;
}

glint_cu_result device_count(int *count)
{
    *count = 1;
    return GLINT_CU_SUCCESS;
}

glint_cu_result device_get(glint_cu_device *device, int ordinal)
{
    *device = DEVICE;
    return ordinal == 0 ? GLINT_CU_SUCCESS : GLINT_CU_INVALID_DEVICE;
}

glint_cu_result device_attribute(int *value, unsigned int attribute, glint_cu_device)
{
    switch (attribute) {
    case GLINT_CU_DEVICE_MULTIPROCESSORS: *value = 4; break;
    case GLINT_CU_DEVICE_MAJOR: *value = (int)compute_capability / 10; break;
    case GLINT_CU_DEVICE_MINOR: *value = (int)compute_capability % 10; break;
    case GLINT_CU_DEVICE_SHARED_BYTES_PER_BLOCK: *value = (int)shared_per_block(); break;
    default: return INVALID_VALUE;
    }
    return GLINT_CU_SUCCESS;
}

glint_cu_result primary_retain(glint_cu_context *out, glint_cu_device)
{
    *out = context();
    return GLINT_CU_SUCCESS;
}

glint_cu_result primary_release(glint_cu_device)
{
    return GLINT_CU_SUCCESS;
}

glint_cu_result context_current(glint_cu_context *out)
{
    *out = current;
    return GLINT_CU_SUCCESS;
}

glint_cu_result context_push(glint_cu_context pushed)
{
    current = pushed;
    return GLINT_CU_SUCCESS;
}

glint_cu_result context_pop(glint_cu_context *out)
{
    *out = current;
    current = nullptr;
    return GLINT_CU_SUCCESS;
}

glint_cu_result context_device(glint_cu_device *device)
{
    *device = DEVICE;
    return GLINT_CU_SUCCESS;
}

glint_cu_result module_load(glint_cu_module *out, const void *data)
{
    const sim::Image *image = (const sim::Image *)data;

    if (image->magic == sim::NO_KERNELS_MAGIC) {
        *out = (glint_cu_module)(void *)new Module{image, {Function{nullptr, 0}}};
        return GLINT_CU_SUCCESS;
    }
    if (image->magic != sim::IMAGE_MAGIC)
        return GLINT_CU_NO_BINARY_FOR_GPU;
    Module *module = new Module{image, {}};
    for (const sim::Entry &entry : image->entry)
        if (entry.name != nullptr)
            module->functions.push_back(Function{&entry, 48 * 1024});
    *out = (glint_cu_module)(void *)module;
    return GLINT_CU_SUCCESS;
}

glint_cu_result module_unload(glint_cu_module module)
{
    delete (Module *)(void *)module;
    return GLINT_CU_SUCCESS;
}

glint_cu_result module_function(glint_cu_function *out, glint_cu_module module, const char *name)
{
    for (Function &function : ((Module *)(void *)module)->functions)
        if (function.entry == nullptr || std::strcmp(function.entry->name, name) == 0) {
            *out = (glint_cu_function)(void *)&function;
            return GLINT_CU_SUCCESS;
        }
    return NOT_FOUND;
}

glint_cu_result function_load(glint_cu_function)
{
    return GLINT_CU_SUCCESS;
}

glint_cu_result function_attribute(int *value, unsigned int attribute, glint_cu_function)
{
    *value = 0;
    return attribute == GLINT_CU_FUNCTION_LOCAL_BYTES ? (glint_cu_result)GLINT_CU_SUCCESS : (glint_cu_result)INVALID_VALUE;
}

glint_cu_result function_set_attribute(glint_cu_function function, unsigned int attribute, int value)
{
    if (attribute != GLINT_CU_FUNCTION_DYNAMIC_SHARED_BYTES || value < 0 || (uint32_t)value > shared_per_block())
        return INVALID_VALUE;
    ((Function *)(void *)function)->dynamic_shared = (uint32_t)value;
    return GLINT_CU_SUCCESS;
}

/* The order of blocks is one of the things that are drawn: at small shapes the section that the host chooses would
 * always be the same. The kernels of decode, append and merge have none, whatever the size of their parameters. */
void draw_section(const sim::Entry &entry, unsigned char *parameters)
{
    const size_t bytes = entry.parameter_bytes;
    for (const char *none : {"glint_dec_", "glint_append_", "glint_merge_"})
        if (std::strncmp(entry.name, none, std::strlen(none)) == 0)
            return;
    if (bytes != sizeof(glint_gpu_call) && bytes != sizeof(glint_gpu_forward_maps) && bytes != sizeof(glint_gpu_backward_maps))
        return;
    glint_gpu_call *const call = (glint_gpu_call *)(void *)parameters;
    glint_gpu_shape *const shape = &call->shape;
    const bool ragged = /* heads of a sequence, and sequences by their keys */
        bytes == sizeof(glint_gpu_forward_maps) && std::strstr(entry.name, "_ragged") != nullptr;
    const uint32_t heads = (uint32_t)(ragged ? shape->heads_q : shape->batch * shape->heads_q);
    if (sim::draw(2) == 0)
        shape->section = (int32_t)(1 + sim::draw(heads + 1));
    if (ragged && sim::draw(2) == 0)
        call->sequences.section_keys = (int32_t)(1 + sim::draw(2 * (uint32_t)call->sequences.bound_k + 1));
}

/* A launch runs to its end before it returns, so one that may begin before what is ahead has ended begins after it; but
 * it must wait for that before it touches global memory. */
glint_cu_result launch_ex(const CUlaunchConfig_st *given, glint_cu_function handle, void **parameters, void **)
{
    const glint_cu_launch_config &config = *(const glint_cu_launch_config *)(const void *)given;
    const Function &function = *(const Function *)(void *)handle;
    uint32_t cluster = 1;
    bool dependent = false;

    if (function.entry == nullptr)
        return INVALID_VALUE;

    for (unsigned int i = 0; i < config.attribute_count; ++i)
        if (config.attributes[i].id == GLINT_CU_LAUNCH_CLUSTER && config.attributes[i].value[1] == 1 &&
            config.attributes[i].value[2] == 1)
            cluster = config.attributes[i].value[0];
        else if (config.attributes[i].id == GLINT_CU_LAUNCH_DEPENDENT)
            dependent = config.attributes[i].value[0] != 0;
        else
            return INVALID_VALUE;
    if (config.grid[0] == 0 || config.grid[1] != 1 || config.grid[2] != 1 || config.block[1] != 1 || config.block[2] != 1 ||
        config.shared_bytes > function.dynamic_shared || cluster == 0 || cluster > 8 || config.grid[0] % cluster != 0)
        return INVALID_VALUE;
    struct alignas(64) Line {
        unsigned char bytes[64];
    };
    std::vector<Line> copy((function.entry->parameter_bytes + sizeof(Line) - 1) / sizeof(Line));
    std::memcpy(copy.data(), parameters[0], function.entry->parameter_bytes);
    draw_section(*function.entry, copy.data()->bytes);
    sim::run(sim::Launch{function.entry->call, copy.data(), config.grid[0], config.block[0], config.shared_bytes,
                         function.entry->name, cluster, dependent});
    return GLINT_CU_SUCCESS; /* a finding shows when the stream is waited for */
}

glint_cu_result launch(glint_cu_function handle, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                       glint_cu_stream stream, void **parameters, void **extra)
{
    const glint_cu_launch_config config = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, nullptr, 0};
    return launch_ex((const CUlaunchConfig_st *)(const void *)&config, handle, parameters, extra);
}

glint_cu_result tensor_map_encode(CUtensorMap_st *map, unsigned int type, uint32_t rank, void *address, const uint64_t *extents,
                                  const uint64_t *strides, const uint32_t *box, const uint32_t *steps, unsigned int interleave,
                                  unsigned int swizzle, unsigned int l2, unsigned int fill)
{
    return (glint_cu_result)sim::encode_tiled((struct tensor_map *)(void *)map, (int)type, rank, address, extents, strides, box,
                                              steps, (int)interleave, (int)swizzle, (int)l2, (int)fill);
}

glint_cu_result memory_set_words(glint_cu_address to, unsigned int value, size_t words, glint_cu_stream)
{
    const std::vector<uint32_t> set(words, value);
    sim_put((void *)(uintptr_t)to, set.data(), words * sizeof(uint32_t));
    return GLINT_CU_SUCCESS;
}

glint_cu_result copy_to_device(glint_cu_address to, const void *from, size_t bytes, glint_cu_stream)
{
    sim_put((void *)(uintptr_t)to, from, bytes);
    return GLINT_CU_SUCCESS;
}

glint_cu_result copy_to_host(void *to, glint_cu_address from, size_t bytes, glint_cu_stream)
{
    sim_get(to, (const void *)(uintptr_t)from, bytes);
    return GLINT_CU_SUCCESS;
}

glint_cu_result stream_synchronize(glint_cu_stream)
{
    return sim::findings().empty() ? GLINT_CU_SUCCESS : GLINT_CU_LAUNCH_FAILED;
}

const glint_cuda_driver TABLE = {
    init,
    device_count,
    device_get,
    device_attribute,
    primary_retain,
    primary_release,
    context_current,
    context_push,
    context_pop,
    context_device,
    module_load,
    module_unload,
    module_function,
    function_load,
    function_attribute,
    function_set_attribute,
    launch,
    launch_ex,
    tensor_map_encode,
    memory_set_words,
    copy_to_device,
    copy_to_host,
    stream_synchronize,
};

} // namespace

const glint_cuda_driver *sim_driver(uint32_t sm)
{
    compute_capability = sm;
    current = context();
    return &TABLE;
}

void *sim_allocate(size_t bytes)
{
    return sim::global_allocate(bytes, true);
}

void sim_release(void *memory)
{
    sim::global_release(memory);
}

void sim_put(void *device, const void *host, size_t bytes)
{
    if (bytes == 0)
        return;
    std::memcpy(sim::global_raw(device), host, bytes);
    sim::global_defined(device, bytes, true);
}

void sim_get(void *host, const void *device, size_t bytes)
{
    if (bytes != 0)
        std::memcpy(host, sim::global_raw(device), bytes);
}

void sim_forget(void *device, size_t bytes)
{
    sim::global_defined(device, bytes, false);
}

void sim_seed(uint64_t value)
{
    sim::set_seed(value);
}

uint64_t sim_seed_now(void)
{
    return sim::seed();
}

uint64_t sim_steps(void)
{
    return sim::steps_so_far();
}

uint64_t sim_digest(const void *except)
{
    return sim::global_digest(except);
}

uint32_t sim_findings(void)
{
    return (uint32_t)sim::findings().size();
}

const char *sim_finding_kind(uint32_t i)
{
    return sim::name_of(sim::findings()[i].kind);
}

const char *sim_finding_file(uint32_t i)
{
    return sim::findings()[i].site.file;
}

int sim_finding_line(uint32_t i)
{
    return sim::findings()[i].site.line;
}

const char *sim_finding_text(uint32_t i)
{
    return sim::findings()[i].text.c_str();
}

void sim_clear(void)
{
    sim::clear_findings();
}
