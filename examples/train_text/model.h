/* A byte-level transformer: pre-norm, RMSNorm (Zhang and Sennrich, arXiv:1910.07467), rotary positions (Su et al.,
 * arXiv:2104.09864), squared ReLU (So et al., arXiv:2109.08668). Attention is Glint's; every gradient is written out.
 *
 *   x = embed[byte]
 *   for each layer:   x += attention(rotate(norm(x) Wqkv)) Wproj        x += relu(norm(x) Wup)^2 Wdown
 *   logits = norm(x) Whead
 */
#ifndef EXAMPLES_TRAIN_TEXT_MODEL_H
#define EXAMPLES_TRAIN_TEXT_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "examples/common/arena.h"
#include "examples/train_text/attention.h"

enum { VOCABULARY = 256, MAX_LAYERS = 32, MAX_HEADS = 64 };

struct config {
    size_t layers, heads, context, batch;
    size_t width; /* heads * HEAD_DIM */
};

/* Pointers into one flat array of parameters, or of their gradients. d = width. */
struct layer_weights {
    float *norm1; /* [d]       */
    float *qkv;   /* [d][3 d]  */
    float *proj;  /* [d][d]    */
    float *norm2; /* [d]       */
    float *up;    /* [d][4 d]  */
    float *down;  /* [4 d][d]  */
};
struct weights {
    float *embed; /* [VOCABULARY][d] */
    struct layer_weights layer[MAX_LAYERS];
    float *norm; /* [d] */
    float *head; /* [d][VOCABULARY] */
};

/* One parameter tensor in the flat array. */
struct parameter {
    const char *name;
    size_t layer, offset, count;
    int is_matrix; /* decays, and starts random; a gain does not decay and starts at 1 */
};
enum { MAX_PARAMETERS = 3 + 6 * MAX_LAYERS };

/* What forward leaves for backward. n = batch * context rows. */
struct layer_activations {
    float *normed1, *inverse1; /* [n][d], [n]: norm(x) and 1 / rms(x) */
    float *qkv;                /* [n][3 d], rotated */
    float *o, *lse;            /* [n][d], [batch][heads][context] */
    float *x_mid;              /* [n][d]: x after attention */
    float *normed2, *inverse2;
    float *up, *active; /* [n][4 d] before and after relu^2 */
    float *x_out;       /* [n][d] */
};

struct model {
    struct config config;
    const struct glint_executor *executor;
    struct attention *attention; /* of training and generation; model_layout_weights sets none */
    size_t parameter_floats, parameter_count;
    struct parameter parameter[MAX_PARAMETERS];
    float *flat, *flat_gradient; /* [parameter_floats] */
    struct weights w, g;

    float *rotation; /* [context][HEAD_DIM]: cos and sin of each pair's angle */
    float *x0;       /* [n][d]: the embedded bytes */
    struct layer_activations a[MAX_LAYERS];
    float *normed, *inverse; /* [n][d], [n]: the last norm */
    float *logits;           /* [n][VOCABULARY]; model_backward turns it into its gradient */
    float *row_loss;         /* [n], nats */
    float *dx, *dbranch;     /* [n][d]: gradient of the residual stream, and of a branch */
    float *dwide;            /* [n][4 d]: gradient of qkv or of the MLP's inside */
    float *scratch;          /* of matmul */
};

/* Lists the parameters and places all arrays; with a counting arena it only counts. */
void model_layout(struct model *model, const struct config *config, struct attention *attention, struct arena *arena);

/* The parameters alone, for a program that does not train. */
void model_layout_weights(struct model *model, const struct config *config, const struct glint_executor *executor,
                          struct arena *arena);

void model_initialise(struct model *model, uint64_t seed);

/* inputs and targets [batch][context] -> row_loss; returns the mean loss in nats, or NaN when attention failed (its
 * reason says why). */
double model_forward(struct model *model, const unsigned char *inputs, const unsigned char *targets);

/* The gradient of the mean loss of the last model_forward, for all parameters. 0, or -1 when attention failed. */
int model_backward(struct model *model, const unsigned char *inputs, const unsigned char *targets);

/* ---- rows at positions of their own, for generation and for a server ---- */

struct model_rows {
    size_t count;
    const unsigned char *bytes; /* [count] */
    const size_t *positions;    /* [count]: of each in its sequence */

    /* Keeps K and V of all rows, and writes their O: qkv [count][3][heads][HEAD_DIM], o [count][heads][HEAD_DIM]. 0, or
     * -1 to end. */
    int (*attend)(void *user, size_t layer, const float *qkv, float *o);
    void *user;

    float *x, *normed, *branch, *wide, *inverse, *rotation; /* room for the most rows */
    float *logits;                                          /* [count][VOCABULARY]: of the byte after each row */
};
void model_rows_layout(struct model_rows *rows, const struct config *config, size_t most, struct arena *arena);

/* All of the model for these rows. A row's logits do not depend on the rows beside it, to the bit, if `attend` keeps to
 * that. */
int model_rows_forward(struct model *model, struct model_rows *rows);

/* ---- generation, one byte at a time ---- */

/* Keys and values of the last `context` positions, in a ring; rotary positions make any length work. */
struct decoder {
    float *keys[MAX_LAYERS], *values[MAX_LAYERS]; /* [context][d] */
    float *lse;
    struct model_rows row;
    float *logits;   /* [VOCABULARY] */
    size_t position; /* bytes read so far */
};
void decoder_layout(struct decoder *decoder, const struct config *config, struct arena *arena);

/* Reads one byte; decoder->logits then predicts the next. 0, or -1 when attention failed. */
int decoder_step(struct decoder *decoder, struct model *model, unsigned char byte);

#endif
