/* WordPiece, as BERT without case uses it (Devlin et al., "BERT", arXiv:1810.04805; Schuster and Nakajima, "Japanese
 * and Korean voice search", 2012). Text is UTF-8. Controls go; marks and case are folded away; it is cut at spaces,
 * around punctuation and around Chinese characters; each word becomes the longest pieces of the vocabulary from its
 * left end on, or [UNK] as a whole. */
#ifndef EXAMPLES_EMBED_TOKENIZER_H
#define EXAMPLES_EMBED_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "examples/common/arena.h"

/* A line of the vocabulary's file, in the file. */
struct piece {
    const char *text;
    size_t bytes;
};

struct tokenizer {
    const unsigned char *file;
    size_t file_bytes, count, slots; /* slots: of the hash table, a power of two */
    struct piece *pieces;            /* [count] */
    uint32_t *table;                 /* [slots]: a piece plus one, or 0 */
    int32_t unknown, first, last;    /* [UNK], [CLS], [SEP] */
    char reason[256];                /* after a failure, what was wrong */
};

/* Maps `vocab.txt`, a piece a line. 0, or -1 with the reason. tokenizer_layout then takes the memory, and
 * tokenizer_fill makes the table. */
int tokenizer_open(struct tokenizer *tokenizer, const char *path);
void tokenizer_layout(struct tokenizer *tokenizer, struct arena *arena);
int tokenizer_fill(struct tokenizer *tokenizer);
void tokenizer_close(struct tokenizer *tokenizer);

/* Writes [CLS], the pieces of the text, [SEP]: `most` tokens at most, the pieces cut off at their end. Returns how
 * many. most >= 2. */
size_t tokenize(const struct tokenizer *tokenizer, const char *text, size_t bytes, int32_t *tokens, size_t most);

#endif
