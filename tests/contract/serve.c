#include "tests/contract/serve.h"

#include "lib/takes.h"

void serve(struct glint_problem *p, const struct glint_variant *v, size_t number)
{
    p->mask = glint_mask_of(v);
    p->kv_dtype = v->kv_dtype, p->kv_scales = v->kv_dtype != 0 ? GLINT_SCALES_ROW : 0;
    if ((v->features & GLINT_FEATURE_LEFT_BOUND) != 0)
        p->window_left = 100, p->window_right = 3;
    p->softcap = (v->features & GLINT_FEATURE_SOFTCAP) != 0 ? 20 : 0;
    p->sinks = number % 3 == 1;
    p->tree = (v->features & GLINT_FEATURE_TREE) != 0;
    p->intervals = (v->features & GLINT_FEATURE_INTERVALS) != 0 && (p->tree == 0 || number % 2 == 0);
    p->alibi = (v->features & GLINT_FEATURE_ALIBI) != 0;
    p->max_logit = (v->takes & GLINT_TAKES_MAX_LOGIT) != 0 && number % 4 != 2;
    p->bias_dtype = (v->features & GLINT_FEATURE_BIAS) == 0 ? 0 : number % 2 == 0 ? GLINT_F32 : v->dtype;
    p->dbias = p->bias_dtype != 0 && v->pass == GLINT_BACKWARD && number % 5 != 4;
}
