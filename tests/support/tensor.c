#include "tests/support/tensor.h"

#include <stdint.h>
#include <string.h>

const char *const tensor_name[TENSORS] = {"Q", "K", "V", "O", "LSE", "dO", "dQ", "dK", "dV"};
const char *const tensor_field[TENSORS] = {"q", "k", "v", "o", "lse", "dout", "dq", "dk", "dv"};

const enum tensor *pass_outputs(enum glint_pass pass)
{
    static const enum tensor forward[] = {O, LSE, TENSORS}, backward[] = {DQ, DK, DV, TENSORS};
    return pass == GLINT_FORWARD ? forward : backward;
}

bool pass_writes(enum glint_pass pass, enum tensor t)
{
    for (const enum tensor *out = pass_outputs(pass); *out != TENSORS; out++)
        if (*out == t)
            return true;
    return false;
}

bool pass_reads(enum glint_pass pass, enum tensor t)
{
    return t <= V || (pass == GLINT_BACKWARD && t <= DOUT);
}

bool pass_uses(enum glint_pass pass, enum tensor t)
{
    return pass_reads(pass, t) || pass_writes(pass, t);
}

void *tensor_get(const struct glint_tensors *tensors, enum tensor t)
{
    switch (t) {
    case Q: return (void *)(uintptr_t)tensors->q;
    case K: return (void *)(uintptr_t)tensors->k;
    case V: return (void *)(uintptr_t)tensors->v;
    case O: return tensors->o;
    case LSE: return tensors->lse;
    case DOUT: return (void *)(uintptr_t)tensors->dout;
    case DQ: return tensors->dq;
    case DK: return tensors->dk;
    default: return tensors->dv;
    }
}

void tensor_set(struct glint_tensors *tensors, enum tensor t, void *address)
{
    switch (t) {
    case Q: tensors->q = address; break;
    case K: tensors->k = address; break;
    case V: tensors->v = address; break;
    case O: tensors->o = address; break;
    case LSE: memcpy(&tensors->lse, &address, sizeof address); break; /* may be misaligned on purpose: no cast */
    case DOUT: tensors->dout = address; break;
    case DQ: tensors->dq = address; break;
    case DK: tensors->dk = address; break;
    default: tensors->dv = address; break;
    }
}
