/* Launches on a CPU: of the row, of one enum glint_lengths (OF_LENGTHS), with dBias or without (OF_DBIAS), as Eva loses
 * which pointers go with which where it takes several at once. The problem is small and accepted, without a tree or
 * intervals, with lengths, first rows and pages of any numbers. Arrays of the workspace lie far apart here; that they
 * lie one after another is a contract (contracts/workspace.acsl). Other bodies draw tasks at any time: a counter has
 * any number from its first one on. */
#include <stdatomic.h>
#undef atomic_init
#undef atomic_fetch_add_explicit
#define atomic_init(counter, first) (*(counter) = (first))
#define atomic_fetch_add_explicit(counter, more, order) from(*(counter), INT64_MAX)
#include "any.h"
#include "lib/cpu/cpu.h"
#include "signed.h"

/* As the contract `place` has it, which is proved of the function. */
/*@ requires \valid(side);
    assigns side->end \from side->end, side->rows;
    assigns \result \from side->end, side->rows, side->bound;
    ensures 0 <= side->end <= side->rows;
    ensures 0 <= \result.at <= side->rows && 0 <= \result.length <= side->bound;
    ensures \result.right == 0 || \result.right == 1; */
struct glint_cpu_place glint_cpu_place_of(struct glint_cpu_side *side, int64_t b);

#include "lib/cpu/geometry.c"
#include "lib/cpu/launch.c"

enum { BATCH = 2, LANES = 2, ROWS = 1 << 12, APART = 1 << 28 };
static struct glint_context context;
static struct glint_plan plan;
static struct glint_tensors tensors;
static unsigned char workspace[4l * APART];
static float floats[1 << 24];
static int32_t numbers[1l << 32];

/* A kernel may use all of its scratch, and it has a problem and tensors. */
void glint_cpu_run_task(uint32_t kernel, uint32_t phase, const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    /*@ assert \valid(scratch + (0 .. call->geometry.region[GLINT_CPU_REGIONS] - 1)); */
    /*@ assert \valid_read(call->problem) && \valid_read(call->tensors) && 1 <= call->problem->batch; */
}

static void run_all(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument)
{
    /*@ loop unroll LANES; */
    for (uint32_t i = 0; i < count; i++)
        body(argument, i);
}

static struct glint_strides small_strides(void)
{
    return (struct glint_strides){from(0, INT64_C(1) << 40), from(0, INT64_C(1) << 40), from(0, INT64_C(1) << 40)};
}

static const int32_t *any_numbers(void)
{
    return Frama_C_interval(0, 1) ? numbers : NULL;
}

static void small_problem(struct glint_problem *p)
{
    accepted_problem(p);
    p->batch = from(1, BATCH), p->heads_q = from(1, 16), p->heads_kv = from(1, 4);
    p->seqlen_q = from(0, ROWS), p->seqlen_k = from(0, ROWS), p->rows_q = from(0, ROWS), p->rows_k = from(0, ROWS);
    p->q = small_strides(), p->k = small_strides(), p->v = small_strides(), p->o = small_strides();
    p->dout = small_strides(), p->dq = small_strides(), p->dk = small_strides(), p->dv = small_strides();
    p->tree = p->intervals = 0;
    p->lengths = OF_LENGTHS;
    p->dbias = OF_DBIAS;
    p->bias.batch = from(0, INT64_C(1) << 40);
    if (p->page_rows > 0)
        p->pages = from(1, ROWS), p->pages_per_sequence = from(ROWS / 16, ROWS);
}

int main(void)
{
    const struct glint_variant *row = &glint_variants[ROW];
    struct glint_problem *const p = &plan.problem;
    struct glint_family_plan family = {0};
    Frama_C_make_unknown((char *)numbers, sizeof numbers);
    Frama_C_make_unknown((char *)workspace, sizeof workspace);
    any_context(&context);
    small_problem(p);
    if (row->pass == GLINT_BACKWARD)
        p->page_rows = p->pages = p->pages_per_sequence = p->kv_dtype = p->kv_scales = p->max_logit = 0;
    context.executor.concurrency = word(1, LANES);
    context.executor.parallel_for = run_all;
    if (!glint_cpu_plan(row, p, context.executor.concurrency, &family))
        return 0;
    struct glint_cpu_geometry g;
    memcpy(&g, family.word, sizeof g);
    g.partials_offset = APART, g.dbias_offset = 2l * APART, g.scratch_offset = 3l * APART;
    /*@ split g.lanes; */
    /*@ split p->batch; */
    memcpy(plan.internal, &g, sizeof g);
    plan.struct_size = sizeof plan;
    plan.context = &context;
    plan.pass = row->pass;
    plan.variant = ROW;
    tensors.q = tensors.k = tensors.v = tensors.dout = floats;
    tensors.o = tensors.dq = tensors.dk = tensors.dv = floats;
    tensors.lse = tensors.max_logit = tensors.dsinks = floats;
    tensors.dlse = Frama_C_interval(0, 1) ? floats : NULL;
    tensors.seqlens_q = any_numbers(), tensors.seqlens_k = any_numbers();
    if (p->lengths == GLINT_LENGTHS_RAGGED)
        tensors.first_q = numbers, tensors.first_k = numbers;
    tensors.page_table = numbers, tensors.key_begin = numbers, tensors.key_end = numbers;
    tensors.tree_bits = (const uint32_t *)numbers;
    tensors.k_scale = tensors.v_scale = tensors.bias = floats;
    uint32_t fault;
    fault = any_word();
    tensors.fault = Frama_C_interval(0, 1) ? &fault : NULL;
    glint_cpu_run(&context, row, &plan, &tensors, workspace, NULL);
    return 0;
}
