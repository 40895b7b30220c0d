#include "examples/train_text/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "checkpoints are little-endian, and this program writes them as they lie in memory"
#endif

enum { VERSION = 1 };
static const char MAGIC[8] = {'G', 'L', 'T', 'T', 'E', 'X', 'T', '\n'};

struct header {
    char magic[8];
    uint32_t version, layers, heads, context, vocabulary, head_dim;
    uint64_t step, parameter_floats, checksum;
};
_Static_assert(sizeof(struct header) == 56, "the header has no padding");

static uint64_t checksum(uint64_t sum, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &values[i], sizeof word);
        sum = (sum ^ word) * UINT64_C(0x100000001b3);
    }
    return sum;
}

static uint64_t checksum_all(const struct model *model, const struct adam *adam)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    sum = checksum(sum, model->flat, model->parameter_floats);
    sum = checksum(sum, adam->mean, model->parameter_floats);
    return checksum(sum, adam->square, model->parameter_floats);
}

static int write_all(int file, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t done = write(file, at, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        at += done;
        bytes -= (size_t)done;
    }
    return 0;
}

static int read_all(int file, void *data, size_t bytes)
{
    char *at = data;
    while (bytes > 0) {
        ssize_t done = read(file, at, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        at += done;
        bytes -= (size_t)done;
    }
    return 0;
}

int checkpoint_save(const char *path, const struct model *model, const struct adam *adam, char *reason, size_t reason_bytes)
{
    char beside[PATH_MAX];
    if (snprintf(beside, sizeof beside, "%s.partial", path) >= (int)sizeof beside) {
        snprintf(reason, reason_bytes, "the checkpoint's path is too long");
        return -1;
    }
    struct header header = {.version = VERSION,
                            .layers = (uint32_t)model->config.layers,
                            .heads = (uint32_t)model->config.heads,
                            .context = (uint32_t)model->config.context,
                            .vocabulary = VOCABULARY,
                            .head_dim = HEAD_DIM,
                            .step = adam->step,
                            .parameter_floats = model->parameter_floats,
                            .checksum = checksum_all(model, adam)};
    memcpy(header.magic, MAGIC, sizeof MAGIC);
    size_t bytes = model->parameter_floats * sizeof(float);
    int file = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int failed = file < 0 || write_all(file, &header, sizeof header) != 0 || write_all(file, model->flat, bytes) != 0 ||
                 write_all(file, adam->mean, bytes) != 0 || write_all(file, adam->square, bytes) != 0 || fsync(file) != 0;
    int error = errno;
    if (file >= 0 && close(file) != 0 && !failed) {
        failed = 1;
        error = errno;
    }
    if (!failed && rename(beside, path) != 0) {
        failed = 1;
        error = errno;
    }
    if (!failed)
        return 0;
    snprintf(reason, reason_bytes, "cannot write the checkpoint '%s': %s", path, strerror(error));
    if (file >= 0)
        unlink(beside);
    return -1;
}

/* Opens the file, reads its header and checks all of it. The open file, or -1 with a sentence. */
static int open_checked(const char *path, struct header *header, char *reason, size_t reason_bytes)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) {
        snprintf(reason, reason_bytes, "cannot open the checkpoint '%s': %s", path, strerror(errno));
        if (file >= 0)
            close(file);
        return -1;
    }
    const char *wrong = NULL;
    if (!S_ISREG(status.st_mode) || read_all(file, header, sizeof *header) != 0 || memcmp(header->magic, MAGIC, sizeof MAGIC) != 0)
        wrong = "it is not a checkpoint of this program";
    else if (header->version != VERSION)
        wrong = "it is of another version of this program";
    else if (header->vocabulary != VOCABULARY || header->head_dim != HEAD_DIM || header->layers < 1 ||
             header->layers > MAX_LAYERS || header->heads < 1 || header->heads > MAX_HEADS || header->context < 1 ||
             header->context > 65536 || header->parameter_floats > (uint64_t)1 << 40)
        wrong = "its header holds a size that this program cannot use";
    else if ((uint64_t)status.st_size != sizeof *header + 3 * sizeof(float) * header->parameter_floats)
        wrong = "it is cut short or too long";
    if (!wrong)
        return file;
    snprintf(reason, reason_bytes, "cannot use the checkpoint '%s': %s", path, wrong);
    close(file);
    return -1;
}

int checkpoint_config(const char *path, struct config *config, char *reason, size_t reason_bytes)
{
    struct header header;
    int file = open_checked(path, &header, reason, reason_bytes);
    if (file < 0)
        return -1;
    close(file);
    config->layers = header.layers;
    config->heads = header.heads;
    config->context = header.context;
    config->width = config->heads * HEAD_DIM;
    return 0;
}

/* The same where Adam's state is read only to be checked; 0, which nobody expects, when it could not be read. */
static uint64_t checksum_rest(int file, const struct model *model)
{
    float some[1024];
    uint64_t sum = checksum(UINT64_C(0xcbf29ce484222325), model->flat, model->parameter_floats);
    for (uint64_t left = 2 * (uint64_t)model->parameter_floats, count; left > 0; left -= count) {
        count = left < 1024 ? left : 1024;
        if (read_all(file, some, (size_t)count * sizeof *some) != 0)
            return 0;
        sum = checksum(sum, some, (size_t)count);
    }
    return sum;
}

int checkpoint_load(const char *path, struct model *model, struct adam *adam, char *reason, size_t reason_bytes)
{
    struct header header;
    int file = open_checked(path, &header, reason, reason_bytes);
    if (file < 0)
        return -1;
    size_t bytes = model->parameter_floats * sizeof(float);
    const char *wrong = NULL;
    if (header.parameter_floats != model->parameter_floats)
        wrong = "it holds a model of another shape";
    else if (read_all(file, model->flat, bytes) != 0 ||
             (adam && (read_all(file, adam->mean, bytes) != 0 || read_all(file, adam->square, bytes) != 0)))
        wrong = "it could not be read to its end";
    else if (header.checksum != (adam ? checksum_all(model, adam) : checksum_rest(file, model)))
        wrong = "its checksum does not fit its contents: the file is damaged";
    close(file);
    if (wrong) {
        snprintf(reason, reason_bytes, "cannot use the checkpoint '%s': %s", path, wrong);
        return -1;
    }
    if (adam)
        adam->step = header.step;
    return 0;
}
