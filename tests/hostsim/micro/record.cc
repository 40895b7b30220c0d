/* Runs the micro-tests on a GPU and prints their golden files. Needs the CUDA driver and nothing else; record.sh builds and runs it.
 *
 *     record GROUP CUBIN [RAW]       RAW: a file that takes every result in full */
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "lib/cuda/driver.h"
#include "tests/hostsim/micro/golden.h"

typedef uint64_t address;

static void *library;

/* Calls a function of the driver; its arguments are given as what it takes. */
template <class... T> static int call(const char *symbol, T... arguments)
{
    auto function = (int (*)(T...))dlsym(library, symbol);

    if (function == nullptr) {
        fprintf(stderr, "the driver has no %s\n", symbol);
        exit(1);
    }
    return function(arguments...);
}

template <class... T> static void must(const std::string &what, const char *symbol, T... arguments)
{
    const int result = call(symbol, arguments...);

    if (result != 0) {
        fprintf(stderr, "%s: %s gave %d\n", what.c_str(), symbol, result);
        exit(1);
    }
}

static int encode(struct tensor_map *words, const micro_map &map, address base)
{
    return call("cuTensorMapEncodeTiled", (void *)words, map.type, (uint32_t)map.rank, (void *)(base + map.offset), &map.dims[0],
                &map.strides[0], &map.box[0], &map.steps[0], map.interleave, map.swizzle, map.l2, map.fill);
}

/* Before sm_90 no kernel begins before the one ahead of it has ended. */
static bool dependent_launches = true;

static void launch(const micro_case &c, void *function, void **arguments)
{
    struct glint_cu_launch_attribute dependent;
    memset(&dependent, 0, sizeof dependent);
    dependent.id = GLINT_CU_LAUNCH_DEPENDENT;
    dependent.value[0] = 1;
    const struct glint_cu_launch_config config = {
        {c.blocks, 1, 1}, {c.threads, 1, 1}, c.shared_bytes, nullptr, &dependent, c.launches > 1 && dependent_launches ? 1u : 0u};

    must(c.name, "cuLaunchKernelEx", (const void *)&config, function, arguments, (void **)nullptr);
}

static std::vector<uint32_t> run(const micro_case &c, void *module)
{
    void *function = nullptr;
    address in = 0, out = 0;
    struct micro_params params;
    void *arguments[] = {&params};
    std::vector<uint32_t> result = c.out;

    memset(&params, 0, sizeof params);
    must(c.name, "cuMemAlloc_v2", &in, c.in.size() * 4);
    must(c.name, "cuMemAlloc_v2", &out, c.out.size() * 4);
    must(c.name, "cuMemcpyHtoD_v2", in, (const void *)c.in.data(), c.in.size() * 4);
    must(c.name, "cuMemcpyHtoD_v2", out, (const void *)c.out.data(), c.out.size() * 4);
    if (c.entry.empty()) {
        result[0] = (uint32_t)encode(&params.map, c.map, in);
    } else {
        if (c.map.rank != 0 && encode(&params.map, c.map, c.map.of_output ? out : in) != 0) {
            fprintf(stderr, "%s: the tensor map is refused\n", c.name.c_str());
            exit(1);
        }
        params.in = (const uint32_t *)in;
        params.out = (uint32_t *)out;
        memcpy(params.arg, c.arg, sizeof params.arg);
        must(c.name, "cuModuleGetFunction", &function, module, c.entry.c_str());
        must(c.name, "cuFuncSetAttribute", function, 8 /* dynamic shared bytes */, (int)c.shared_bytes);
        for (uint32_t number = 0; number < c.launches; ++number) {
            if (c.launches > 1)
                params.arg[11] = number;
            launch(c, function, arguments);
        }
        must(c.name, "cuCtxSynchronize");
        must(c.name, "cuMemcpyDtoH_v2", (void *)result.data(), out, c.out.size() * 4);
    }
    must(c.name, "cuMemFree_v2", in);
    must(c.name, "cuMemFree_v2", out);
    if (c.compared != 0)
        result.resize(c.compared);
    return result;
}

static std::vector<char> contents(const char *path)
{
    std::vector<char> bytes;
    FILE *file = fopen(path, "rb");
    int c;

    if (file == nullptr) {
        perror(path);
        exit(1);
    }
    while ((c = getc(file)) != EOF)
        bytes.push_back((char)c);
    fclose(file);
    return bytes;
}

int main(int argc, char **argv)
{
    int device = 0, version = 0;
    void *context = nullptr, *module = nullptr;
    char name[128];
    FILE *raw = argc > 3 ? fopen(argv[3], "wb") : nullptr;

    if (argc < 3 || (argc > 3 && raw == nullptr)) {
        fprintf(stderr, "usage: record GROUP CUBIN [RAW]\n");
        return 2;
    }
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) {
        fprintf(stderr, "%s\n", dlerror());
        return 77;
    }
    must("start", "cuInit", 0u);
    must("start", "cuDeviceGet", &device, 0);
    must("start", "cuDeviceGetName", &name[0], (int)sizeof name, device);
    must("start", "cuDriverGetVersion", &version);
    must("start", "cuDevicePrimaryCtxRetain", &context, device);
    must("start", "cuCtxSetCurrent", context);
    must("start", "cuModuleLoadData", &module, (const void *)contents(argv[2]).data());
    dependent_launches = strcmp(argv[1], "before90") != 0;
    printf("# %s, CUDA %d.%d\n", name, version / 1000, version % 1000 / 10);
    for (const micro_case &c : micro_cases(argv[1])) {
        const std::vector<uint32_t> result = run(c, module);
        printf("%s\n", golden_line(c, result.data(), result.size()).c_str());
        if (raw != nullptr)
            fwrite(result.data(), 4, result.size(), raw);
    }
    if (raw != nullptr)
        fclose(raw);
    return 0;
}
