/* random_checkpoint LAYERS HEADS FILE: a checkpoint as train_text writes them, of a model that has learnt nothing. For
 * tests and timings of serve_text where there is no time to train. */
#include <stdio.h>
#include <stdlib.h>

#include "examples/train_text/checkpoint.h"

int main(int count, char **arguments)
{
    char reason[512];
    struct arena arena = {NULL, 0};
    static struct model model;
    struct adam adam = {NULL, NULL, 0};
    const struct glint_executor serial = {.concurrency = 1};
    struct config config = {.context = 64, .batch = 1};
    config.layers = count == 4 ? strtoul(arguments[1], NULL, 10) : 0;
    config.heads = count == 4 ? strtoul(arguments[2], NULL, 10) : 0;
    config.width = config.heads * HEAD_DIM;
    if (config.layers < 1 || config.layers > MAX_LAYERS || config.heads < 1 || config.heads > MAX_HEADS) {
        fprintf(stderr, "random_checkpoint LAYERS HEADS FILE: 1 to %d layers, 1 to %d heads\n", MAX_LAYERS, MAX_HEADS);
        return 2;
    }
    for (int placed = 0; placed < 2; placed++) {
        model_layout_weights(&model, &config, &serial, &arena);
        model.rotation = arena_floats(&arena, config.context * HEAD_DIM);
        adam.mean = adam.square = arena_floats(&arena, model.parameter_floats);
        if (!placed && !(arena.base = calloc(1, arena.used))) {
            fprintf(stderr, "random_checkpoint: no memory for %zu bytes\n", arena.used);
            return 1;
        }
        arena.used = 0;
    }
    model_initialise(&model, 1);
    for (size_t i = 0; i < model.parameter_count; i++) /* so large that other keys give other answers */
        for (size_t j = 0; model.parameter[i].is_matrix && j < model.parameter[i].count; j++)
            model.flat[model.parameter[i].offset + j] *= 8.0F;
    const int failed = checkpoint_save(arguments[3], &model, &adam, reason, sizeof reason);
    if (failed)
        fprintf(stderr, "random_checkpoint: %s\n", reason);
    free(arena.base);
    return failed != 0;
}
