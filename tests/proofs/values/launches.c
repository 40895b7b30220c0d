/* What is planned and laid out for a GPU, and what its kernels are given, up to the driver's calls: of each row, any
 * accepted problem, any number of multiprocessors, and tensors anywhere. */
#include "any.h"

static struct glint_context context;
static struct glint_plan plan;
static char device[1 << 20];

static void *somewhere(void)
{
    return Frama_C_interval(0, 1) ? device + from(0, sizeof device - 1) : NULL;
}

static glint_cu_result any_result(void)
{
    return (glint_cu_result)Frama_C_interval(0, 1000);
}

/* A driver whose entries do nothing and answer with any number. */
#define ENTRY(member, symbol, presence, parameters) \
    static glint_cu_result of_##member parameters   \
    {                                               \
        return any_result();                        \
    }
GLINT_CUDA_ENTRIES(ENTRY)

enum glint_status glint_cuda_begin(struct glint_cuda *cuda, bool *pushed)
{
    *pushed = Frama_C_interval(0, 1);
    return Frama_C_interval(0, 1) ? GLINT_OK : GLINT_DEVICE_LOST;
}

enum glint_status glint_cuda_note(struct glint_cuda *cuda, glint_cu_result result)
{
    return result == GLINT_CU_SUCCESS ? GLINT_OK : GLINT_DRIVER_ERROR;
}

enum glint_status glint_cuda_leave(struct glint_cuda *cuda, bool pushed, enum glint_status status)
{
    return status;
}

int main(void)
{
#define SET(member, symbol, presence, parameters) cuda_state.cuda.driver.member = of_##member;
    GLINT_CUDA_ENTRIES(SET)
    any_context(&context);
    const struct glint_variant *row = &glint_variants[ROW];
    struct glint_family_plan family = {0};
    struct glint_tensors tensors = {0};
    accepted_problem(&plan.problem);
    plan.problem.head_dim = plan.problem.head_dim_v = row->head_dim;
    if (!glint_cuda_plan(row, &plan.problem, context.executor.concurrency, &family))
        return 0;
    plan.struct_size = sizeof plan;
    plan.context = &context;
    plan.pass = row->pass;
    plan.variant = ROW;
    plan.workspace_bytes = family.workspace_bytes;
    for (int i = 0; i < GLINT_FAMILY_WORDS; i++)
        plan.internal[i] = family.word[i];
    void **const address = (void **)&tensors;
    for (unsigned i = 0; i < sizeof tensors / sizeof *address; i++)
        address[i] = somewhere();
    glint_cuda_run(&context, row, &plan, &tensors, somewhere(), NULL);
    return 0;
}
