/* What attention reads for one new token of a model, and the time that a memory's bandwidth leaves for it: a
 * calculation, nothing is timed.
 *
 *   ./bazelw run //bench/floors:decode_cost                               204.8 GB/s, which the data sheet of a Jetson AGX Orin (64 GB) says
 *   ./bazelw run //bench/floors:decode_cost -- --gbytes-s 102.4 --share 0.7
 *
 * Bytes are those of glint_plan_cost for one query and `keys` keys, times the model's layers. A model's weights are not
 * in them. The time is bytes over `share` of the bandwidth: a decode that reads each byte once and waits for nothing
 * else. int8 has a float32 scale a row. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/glint.h"

/* Shapes of attention, from the models' published configurations. */
static const struct model {
    const char *name;
    int layers, heads_q, heads_kv, head_dim;
} models[] = {
    {"Qwen3-8B", 36, 32, 8, 128},
    {"Llama-3.1-8B", 32, 32, 8, 128},
};

static const int64_t keys_of[] = {8192, 32768};

static void make_problem(struct glint_problem *p, const struct model *m, int64_t keys, uint32_t kv_dtype)
{
    glint_problem_bhsd(p, GLINT_BF16, 1, 1, keys, m->heads_q, m->heads_kv, (uint32_t)m->head_dim);
    p->mask = GLINT_MASK_CAUSAL_BOTTOM_RIGHT;
    p->kv_dtype = kv_dtype;
    p->kv_scales = kv_dtype == GLINT_I8 ? GLINT_SCALES_ROW : GLINT_SCALES_NONE;
}

/* One line, or why there is none. */
static void print_line(const struct glint_context *context, const struct model *m, int64_t keys, uint32_t kv_dtype, double gbytes_s,
                       double share)
{
    struct glint_problem problem;
    struct glint_plan plan;
    struct glint_cost cost = GLINT_COST_INIT;
    make_problem(&problem, m, keys, kv_dtype);
    printf("%-13s %6" PRId64 " keys  %-4s  ", m->name, keys, kv_dtype == GLINT_I8 ? "int8" : "bf16");
    enum glint_status status = glint_plan(context, &problem, GLINT_FORWARD, &plan);
    if (status == GLINT_OK)
        status = glint_plan_cost(&plan, &cost);
    if (status != GLINT_OK) {
        if (status == GLINT_NOT_IN_SPEC)
            printf("the spec lacks bf16 with head_dim %d, or the kv_dtype\n", m->head_dim);
        else
            printf("%s\n", glint_status_name(status));
        return;
    }
    const double bytes = (double)(cost.bytes_read + cost.bytes_written) * m->layers;
    const double ms = bytes / (1e6 * gbytes_s), within = ms / share;
    printf("%9.1f MB  %7.2f ms  %7.2f ms  %7.1f tokens/s\n", 1e-6 * bytes, ms, within, 1e3 / within);
}

static double number_from(const char *text, double most)
{
    char *end;
    const double value = strtod(text, &end);
    return *text == '\0' || *end != '\0' || !(value > 0 && value <= most) ? -1 : value;
}

int main(int count, char **arguments)
{
    double gbytes_s = 204.8, share = 0.79;
    for (int i = 1; i < count; i += 2) {
        double *const to = strcmp(arguments[i], "--gbytes-s") == 0 ? &gbytes_s
                           : strcmp(arguments[i], "--share") == 0  ? &share
                                                                   : NULL;
        if (!to || i + 1 == count || (*to = number_from(arguments[i + 1], to == &share ? 1 : 1e6)) < 0) {
            fprintf(stderr, "usage: decode_cost [--gbytes-s GB_A_SECOND] [--share OF_IT, above 0 and at most 1]\n");
            return 2;
        }
    }
    const size_t bytes = (glint_context_size() + GLINT_CONTEXT_ALIGNMENT - 1) / GLINT_CONTEXT_ALIGNMENT * GLINT_CONTEXT_ALIGNMENT;
    void *const storage = aligned_alloc(GLINT_CONTEXT_ALIGNMENT, bytes);
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU;
    struct glint_context *context = NULL;
    enum glint_status status = glint_context_init(storage, bytes, &options, &context);
    if (status != GLINT_OK) {
        fprintf(stderr, "decode_cost: %s: %s\n", glint_status_name(status), glint_status_sentence(status));
        free(storage);
        return 1;
    }
    printf("attention of one token, all layers              bytes    at %.1f GB/s   at %.0f %% of it\n", gbytes_s, 100 * share);
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++)
        for (size_t k = 0; k < sizeof keys_of / sizeof keys_of[0]; k++) {
            print_line(context, &models[m], keys_of[k], 0, gbytes_s, share);
            print_line(context, &models[m], keys_of[k], GLINT_I8, gbytes_s, share);
        }
    glint_context_close(context);
    free(storage);
    return 0;
}
