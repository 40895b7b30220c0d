/* A sentence encoder of the BERT kind (Devlin et al., arXiv:1810.04805; Reimers and Gurevych, "Sentence-BERT",
 * arXiv:1908.10084). With x [tokens][width]:
 *
 *   x = norm(word[token] + position[place] + segment[0])
 *   each layer:   x = norm(x + project(attention(q(x), k(x), v(x))))        x = norm(x + down(gelu(up(x))))
 *   a sentence:   the mean of its tokens' x, divided by its length
 *
 * norm is a layer norm with a gain and a bias, gelu is x Phi(x), and every projection has a bias. A batch of sentences
 * of any lengths is one ragged problem of Glint's: the tokens of all lie one after another, and nothing is padded. */
#ifndef EXAMPLES_EMBED_MODEL_H
#define EXAMPLES_EMBED_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "examples/common/arena.h"
#include "examples/embed/weights.h"
#include "lib/glint.h"

enum { MODEL_LAYERS = 64 };

struct projection {
    const float *weight, *bias; /* [outputs][inputs], [outputs]; y = weight x + bias */
};

struct norm {
    const float *gain, *bias; /* [width] */
};

struct layer {
    struct projection q, k, v, out, up, down;
    struct norm after_attention, after_mlp;
};

struct model {
    size_t layers, heads, width, inner, places, pieces; /* places: the longest sentence in tokens; pieces: of the vocabulary */
    float epsilon;                                      /* of norm */
    const float *word, *position, *segment;
    struct norm first;
    struct layer layer[MODEL_LAYERS];

    /* Activations of a batch, [rows][width], `up` [rows][inner]. */
    size_t rows, sentences; /* at most, in a batch */
    float *x, *q, *k, *v, *attention, *projected, *up, *lse, *scratch;
    int32_t *first_row; /* [sentences + 1]: where each sentence begins */

    const struct glint_executor *executor;
    const struct glint_context *context;
    struct glint_plan plan;
    void *workspace;
    size_t workspace_bytes;
    char reason[256];
};

/* Reads `config.json` and finds every tensor. 0, or -1 with the reason; `weights` must stay open. */
int model_open(struct model *model, struct weights *weights, const char *config_path);

/* Plans attention for `sentences` of `longest` tokens, `rows` in all, at most. 0, or -1 with the reason. */
int model_plan(struct model *model, const struct glint_context *context, const struct glint_executor *executor, size_t sentences,
               size_t rows, size_t longest);

void model_layout(struct model *model, struct arena *arena);

/* Embeds sentences, whose tokens lie one after another, first_row[count] of them: [count][width], each of length 1. 0,
 * or -1 with the reason. A sentence's embedding does not depend on the others in its batch. */
int model_embed(struct model *model, const int32_t *tokens, size_t count, float *embeddings);

#endif
