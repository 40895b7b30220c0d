/* The context of tests/contract/edges.c on a driver that owns no GPU. */
#include <stdlib.h>

#include "tests/contract/edges.h"
#include "tests/cuda/fake_driver.h"

struct glint_context *edges_context(void)
{
    static _Alignas(64) unsigned char storage[1 << 14];
    struct glint_options options = GLINT_OPTIONS_INIT;
    struct glint_context *context = NULL;
    fake_reset();
    options.device = GLINT_DEVICE_CUDA;
    if (glint_context_size() > sizeof storage || glint_context_init(storage, sizeof storage, &options, &context) != GLINT_OK)
        exit(1);
    return context;
}
