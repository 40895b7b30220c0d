/* A text file as bytes, split into a part to train on and a part held out. */
#ifndef EXAMPLES_TRAIN_TEXT_TEXT_H
#define EXAMPLES_TRAIN_TEXT_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
    unsigned char *bytes; /* the caller's memory */
    size_t count;
    size_t window; /* bytes of context; a window is this many inputs and as many targets, one further on */
};

enum { HOLD_OUT_EVERY = 10 }; /* of each ten pieces of window + 1 bytes, the last one is held out */

/* The size of a regular file, or 0 with a sentence in `reason`. */
size_t text_file_size(const char *path, char *reason, size_t reason_bytes);

/* Reads exactly text->count bytes. 0, or -1 with a sentence. */
int text_read(const char *path, struct text *text, char *reason, size_t reason_bytes);

/* Fewest bytes that have a held-out piece. */
size_t text_smallest(size_t window);

/* The first of the built-in list of texts that exists, or NULL. */
const char *text_default(void);

/* Entropy of single bytes in nats: the loss of the best model that ignores context. */
double text_unigram_entropy(const struct text *text);

/* Start of a training window, none of whose bytes is held out. */
size_t text_training_window(const struct text *text, uint64_t *random);

/* Held-out windows, and the start of one of them. */
size_t text_held_out_count(const struct text *text);
size_t text_held_out_window(const struct text *text, size_t index);

/* A byte drawn with probability proportional to exp(logits[byte] / temperature), of 256; the likeliest one at
 * temperature 0. */
unsigned char text_draw(const float *logits, double temperature, uint64_t *random);

/* Prints a byte; one that would move a terminal's cursor or colours as a dot. */
void text_show(unsigned char byte);

/* SplitMix64 (Steele, Lea and Flood, 2014). */
uint64_t random_next(uint64_t *state);
double random_unit(uint64_t *state); /* in [0, 1) */

#endif
