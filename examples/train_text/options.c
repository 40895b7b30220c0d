#include "examples/train_text/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/train_text/model.h"

enum kind { STRING, NUMBER, REAL, FLAG };
struct option {
    const char *name;
    enum kind kind;
    void *value; /* const char **, size_t *, double * or int * */
    double least, most;
    const char *help;
};

static void print_help(const struct option *table, size_t count)
{
    printf("Trains a byte-level transformer on a text, attention by Glint, then writes text.\n\n");
    for (size_t i = 0; i < count; i++) {
        printf("  %-14s %s", table[i].name, table[i].help);
        if (table[i].kind == NUMBER)
            printf(" (%zu)", *(const size_t *)table[i].value);
        if (table[i].kind == REAL)
            printf(" (%g)", *(const double *)table[i].value);
        if (table[i].kind == STRING && *(const char **)table[i].value)
            printf(" (%s)", *(const char **)table[i].value);
        printf("\n");
    }
}

static int read_value(const struct option *option, const char *text)
{
    char *end = NULL;
    errno = 0;
    if (option->kind == STRING) {
        *(const char **)option->value = text;
        return 0;
    }
    double value = option->kind == REAL ? strtod(text, &end) : (double)strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || !(value >= option->least && value <= option->most)) {
        fprintf(stderr, "train_text: %s %s: give a %s from %.15g to %.15g\n", option->name, text,
                option->kind == REAL ? "number" : "whole number", option->least, option->most);
        return -1;
    }
    if (option->kind == REAL)
        *(double *)option->value = value;
    else
        *(size_t *)option->value = (size_t)value;
    return 0;
}

int options_read(struct options *o, int count, char **arguments)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t seed = 1;
    double no_limit = 0;
    *o = (struct options){.out = "train_text.out",
                          .device = "cpu",
                          .steps = 400,
                          .length = 600,
                          .layers = 4,
                          .heads = 4,
                          .context = 128,
                          .batch = 8,
                          .seconds = 90,
                          .temperature = 0.7,
                          .rate = 0.002};
    o->threads = processors < 1 ? 1 : processors > 16 ? 16 : (size_t)processors;
    const struct option table[] = {
        {"--text", STRING, &o->text, 0, 0, "the text file to learn (the first of a few that every Debian system has)"},
        {"--steps", NUMBER, &o->steps, 0, 1e9, "training steps in all; without it --seconds may end the training earlier"},
        {"--seconds", REAL, &o->seconds, 0, 1e9, "a limit on the training time; 0 for none"},
        {"--save", STRING, &o->save, 0, 0, "where to write the checkpoint (model.ckpt in the folder of --out)"},
        {"--load", STRING, &o->load, 0, 0, "start from this checkpoint; its shape is taken from it"},
        {"--out", STRING, &o->out, 0, 0, "folder for the loss curve and the checkpoint"},
        {"--prompt", STRING, &o->prompt, 0, 0, "what the generated text starts with"},
        {"--length", NUMBER, &o->length, 0, 1e6, "bytes to generate"},
        {"--temperature", REAL, &o->temperature, 0, 100, "of the generated text; 0 takes the likeliest byte"},
        {"--threads", NUMBER, &o->threads, 1, GLINT_POOL_MAX_THREADS, "threads; the results do not depend on it"},
        {"--device", STRING, &o->device, 0, 0, "where the attention runs: cpu, or cuda for the first GPU"},
        {"--seed", NUMBER, &seed, 0, 9e15, "of the start values, the batches and the generated text"},
        {"--rate", REAL, &o->rate, 0, 1, "peak learning rate"},
        {"--layers", NUMBER, &o->layers, 1, MAX_LAYERS, "layers"},
        {"--heads", NUMBER, &o->heads, 1, MAX_HEADS, "heads, of 64 each"},
        {"--context", NUMBER, &o->context, 8, 65536, "bytes that a prediction can look back on"},
        {"--batch", NUMBER, &o->batch, 1, 4096, "windows of text in a step"},
        {"--check", FLAG, &o->check, 0, 0,
         "compare the model's gradient with finite differences and decode with the whole forward, and stop"},
    };
    size_t options_count = sizeof table / sizeof table[0];
    int asked_steps = 0, asked_seconds = 0;
    for (int i = 1; i < count; i++) {
        const struct option *found = NULL;
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
            print_help(table, options_count);
            return 1;
        }
        for (size_t j = 0; j < options_count; j++)
            if (strcmp(arguments[i], table[j].name) == 0)
                found = &table[j];
        if (!found) {
            fprintf(stderr, "train_text: no option is called '%s'; --help lists them\n", arguments[i]);
            return -1;
        }
        asked_steps |= strcmp(found->name, "--steps") == 0;
        asked_seconds |= strcmp(found->name, "--seconds") == 0;
        if (found->kind == FLAG) {
            *(int *)found->value = 1;
        } else if (i + 1 == count) {
            fprintf(stderr, "train_text: %s needs a value after it\n", found->name);
            return -1;
        } else if (read_value(found, arguments[++i]) != 0) {
            return -1;
        }
    }
    if (asked_steps && !asked_seconds)
        o->seconds = no_limit;
    o->seed = seed;
    return 0;
}
