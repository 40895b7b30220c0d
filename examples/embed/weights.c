#include "examples/embed/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "examples/embed/json.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file's numbers are little endian and are used where they lie");

const unsigned char *file_open(const char *path, size_t *bytes, char *reason, size_t reason_bytes)
{
    struct stat about;
    void *file = MAP_FAILED;
    errno = 0;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0 && fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0)
        file = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (file == MAP_FAILED)
        snprintf(reason, reason_bytes, "cannot read '%s': %s", path, errno ? strerror(errno) : "it is empty or no file");
    if (descriptor >= 0)
        close(descriptor);
    *bytes = file == MAP_FAILED ? 0 : (size_t)about.st_size;
    return file == MAP_FAILED ? NULL : file;
}

void file_close(const unsigned char *file, size_t bytes)
{
    if (file)
        munmap((void *)(uintptr_t)file, bytes);
}

int weights_open(struct weights *weights, const char *path)
{
    memset(weights, 0, sizeof *weights);
    weights->file = file_open(path, &weights->bytes, weights->reason, sizeof weights->reason);
    if (!weights->file)
        return -1;
    uint64_t header = 0;
    if (weights->bytes >= sizeof header)
        memcpy(&header, weights->file, sizeof header);
    if (header == 0 || header > weights->bytes - sizeof header) {
        snprintf(weights->reason, sizeof weights->reason, "'%s' is no safetensors file: its header would be %llu bytes long", path,
                 (unsigned long long)header);
        weights_close(weights);
        return -1;
    }
    weights->header_bytes = (size_t)header;
    return 0;
}

void weights_close(struct weights *weights)
{
    file_close(weights->file, weights->bytes);
    weights->file = NULL;
}

struct tensor {
    int f32;
    size_t dimensions, rows, columns;
    uint64_t begin, end;
};

static void read_tensor(struct json *json, struct tensor *tensor)
{
    const char *key, *text;
    ptrdiff_t length;
    uint64_t shape[2] = {1, 1};
    *tensor = (struct tensor){0};
    json_enter(json, '{');
    for (int first = 1; json_more(json, '{', first); first = 0) {
        const ptrdiff_t of = json_key(json, &key);
        if (json_is(key, of, "dtype")) {
            length = json_string(json, &text);
            tensor->f32 = json_is(text, length, "F32");
        } else if (json_is(key, of, "shape")) {
            json_enter(json, '[');
            for (int i = 1; json_more(json, '[', i); i = 0) {
                const uint64_t extent = json_count(json);
                if (tensor->dimensions < 2)
                    shape[tensor->dimensions] = extent;
                tensor->dimensions++;
            }
        } else if (json_is(key, of, "data_offsets")) {
            json_enter(json, '[');
            tensor->begin = json_more(json, '[', 1) ? json_count(json) : 0;
            tensor->end = json_more(json, '[', 0) ? json_count(json) : 0;
            if (json_more(json, '[', 0))
                json_skip(json);
        } else {
            json_skip(json);
        }
    }
    tensor->rows = (size_t)(tensor->dimensions == 2 ? shape[0] : 1);
    tensor->columns = (size_t)(tensor->dimensions == 2 ? shape[1] : shape[0]);
}

static int find(struct weights *weights, const char *name, struct tensor *tensor)
{
    struct json json = json_open((const char *)weights->file + sizeof(uint64_t), weights->header_bytes);
    const char *key;
    json_enter(&json, '{');
    for (int first = 1; json_more(&json, '{', first); first = 0) {
        const ptrdiff_t length = json_key(&json, &key);
        if (!json_is(key, length, name)) {
            json_skip(&json);
            continue;
        }
        read_tensor(&json, tensor);
        const uint64_t there = weights->bytes - sizeof(uint64_t) - weights->header_bytes;
        if (json.wrong)
            break;
        if (!tensor->f32 || tensor->dimensions < 1 || tensor->dimensions > 2) {
            snprintf(weights->reason, sizeof weights->reason, "the tensor '%s' is not F32 with one or two dimensions", name);
            return -1;
        }
        if (tensor->begin > tensor->end || tensor->end > there ||
            (sizeof(uint64_t) + weights->header_bytes + tensor->begin) % sizeof(float) != 0) {
            snprintf(weights->reason, sizeof weights->reason,
                     "the tensor '%s' lies outside of the file: the file is cut off or damaged", name);
            return -1;
        }
        return 0;
    }
    if (json.wrong)
        snprintf(weights->reason, sizeof weights->reason, "the header is damaged: byte %td should be %s",
                 json.at - (const char *)weights->file, json.wrong);
    else
        snprintf(weights->reason, sizeof weights->reason, "the file has no tensor '%s'", name);
    return -1;
}

int weights_shape(struct weights *weights, const char *name, size_t *rows, size_t *columns)
{
    struct tensor tensor;
    if (find(weights, name, &tensor) != 0)
        return -1;
    *rows = tensor.rows;
    *columns = tensor.columns;
    return 0;
}

const float *weights_get(struct weights *weights, const char *name, size_t rows, size_t columns)
{
    struct tensor tensor;
    if (find(weights, name, &tensor) != 0)
        return NULL;
    if (tensor.rows != rows || tensor.columns != columns || (tensor.end - tensor.begin) / sizeof(float) / columns != rows ||
        tensor.end - tensor.begin != rows * columns * sizeof(float)) {
        snprintf(weights->reason, sizeof weights->reason, "the tensor '%s' has %zu x %zu elements, and %zu x %zu are needed", name,
                 tensor.rows, tensor.columns, rows, columns);
        return NULL;
    }
    return (const float *)(const void *)(weights->file + sizeof(uint64_t) + weights->header_bytes + tensor.begin);
}
