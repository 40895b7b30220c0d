/* The rules of calls: of a plan of any row and any accepted problem, with tensors, arrays, new rows and a workspace at
 * any addresses, and strides of new rows that are any numbers. */
#include "any.h"

static struct glint_context context;
static struct glint_plan plan;
static struct glint_tensors tensors;
static struct glint_append append;

static void *anywhere(void)
{
    return (void *)Frama_C_unsigned_long_interval(0, ULONG_MAX);
}

static struct glint_strides any_strides(void)
{
    return (struct glint_strides){from(INT64_MIN, INT64_MAX), from(INT64_MIN, INT64_MAX), from(INT64_MIN, INT64_MAX)};
}

int main(void)
{
    struct glint_fault fault;
    any_context(&context);
    accepted_problem(&plan.problem);
    plan.struct_size = any_word();
    plan.context = &context;
    plan.pass = any_word();
    plan.workspace_bytes = (size_t)from(0, INT64_MAX);
    for (int i = 0; i < 32; i++)
        plan.internal[i] = (uint64_t)from(INT64_MIN, INT64_MAX);
    plan.variant = any_word();
    void **const address = (void **)&tensors;
    for (unsigned i = 0; i < sizeof tensors / sizeof *address; i++)
        address[i] = anywhere();
    tensors.struct_size = any_word(), tensors.reserved = any_word();
    append.struct_size = any_word(), append.dtype = any_word();
    append.reserved[0] = any_word(), append.reserved[1] = any_word();
    append.k = anywhere(), append.v = anywhere();
    append.k_strides = any_strides(), append.v_strides = any_strides();
    const int pass = Frama_C_interval(GLINT_FORWARD, GLINT_BACKWARD);
    /*@ split pass; */
    if (Frama_C_interval(0, 1))
        glint_check_call(&plan, (enum glint_pass)pass, &tensors, anywhere(), (size_t)from(INT64_MIN, INT64_MAX), anywhere(),
                         &fault);
    else
        glint_check_append(&plan, &append, &tensors, anywhere(), &fault);
    return 0;
}
