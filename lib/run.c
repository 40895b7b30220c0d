/* glint_forward, glint_backward and glint_append: check what can change between calls, then hand over to the
 * backend. */
#include "lib/backend.h"
#include "lib/check.h"

static enum glint_status run(const struct glint_plan *plan, enum glint_pass pass, const struct glint_tensors *tensors,
                             void *workspace, size_t workspace_bytes, void *stream)
{
    struct glint_fault fault;
    enum glint_status status = glint_check_call(plan, pass, tensors, workspace, workspace_bytes, stream, &fault);
    if (status != GLINT_OK)
        return status;
    return plan->context->backend->run(plan->context, &glint_variants[plan->variant], plan, tensors, workspace, stream);
}

enum glint_status glint_forward(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                size_t workspace_bytes, void *stream)
{
    return run(plan, GLINT_FORWARD, tensors, workspace, workspace_bytes, stream);
}

enum glint_status glint_backward(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                 size_t workspace_bytes, void *stream)
{
    return run(plan, GLINT_BACKWARD, tensors, workspace, workspace_bytes, stream);
}

enum glint_status glint_append(const struct glint_plan *plan, const struct glint_append *append,
                               const struct glint_tensors *tensors, void *stream)
{
    struct glint_fault fault;
    const enum glint_status status = glint_check_append(plan, append, tensors, stream, &fault);
    return status == GLINT_OK ? plan->context->backend->append(plan->context, plan, append, tensors, stream) : status;
}
