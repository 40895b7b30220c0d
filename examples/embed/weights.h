/* The weights of a model, read in place from a file in the safetensors format:
 *
 *   uint64, little endian   bytes of the header
 *   header                  JSON: { "name": { "dtype": "F32", "shape": [..], "data_offsets": [begin, end] }, .. }
 *   data                    the tensors, little endian, row-major; offsets count from here
 *
 * The file is mapped, not copied; a tensor of another size, shape or type, or outside of the file, is refused. */
#ifndef EXAMPLES_EMBED_WEIGHTS_H
#define EXAMPLES_EMBED_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

struct weights {
    const unsigned char *file;
    size_t bytes, header_bytes;
    char reason[256]; /* after a failure, what was wrong */
};

/* A whole file, mapped to be read only; file_close gives it back. NULL with the reason in `reason`. An empty file is
 * refused. */
const unsigned char *file_open(const char *path, size_t *bytes, char *reason, size_t reason_bytes);
void file_close(const unsigned char *file, size_t bytes);

/* 0, or -1 with the reason. */
int weights_open(struct weights *weights, const char *path);
void weights_close(struct weights *weights);

/* The shape of a tensor of up to two dimensions; rows is 1 for a vector. 0, or -1 with the reason. */
int weights_shape(struct weights *weights, const char *name, size_t *rows, size_t *columns);

/* A float32 tensor of this shape, in the file; NULL with the reason. */
const float *weights_get(struct weights *weights, const char *name, size_t rows, size_t columns);

#endif
