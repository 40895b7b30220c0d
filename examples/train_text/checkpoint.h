/* The model and the optimizer's state in one file. Layout, all little-endian:
 *   char magic[8] = "GLTTEXT\n"; uint32 version, layers, heads, context, vocabulary, head_dim; uint64 step,
 *   parameter_floats, checksum; then parameter_floats floats three times: parameters, Adam's mean, Adam's square.
 * The checksum is FNV-1a (64 bits, over 32-bit words) of everything after the header. */
#ifndef EXAMPLES_TRAIN_TEXT_CHECKPOINT_H
#define EXAMPLES_TRAIN_TEXT_CHECKPOINT_H

#include "examples/train_text/adam.h"
#include "examples/train_text/model.h"

/* Writes beside `path`, syncs, then renames: a crash leaves the old file or the new one, never half of one. 0, or -1
 * with a sentence in `reason`. */
int checkpoint_save(const char *path, const struct model *model, const struct adam *adam, char *reason, size_t reason_bytes);

/* Reads the header only: layers, heads, context and width of the model in the file. */
int checkpoint_config(const char *path, struct config *config, char *reason, size_t reason_bytes);

/* Reads into a model of that very shape. The checks come first, but a file that fails its checksum has already
 * overwritten the model's memory: give up then. Without `adam` its state is checked and not kept. */
int checkpoint_load(const char *path, struct model *model, struct adam *adam, char *reason, size_t reason_bytes);

#endif
