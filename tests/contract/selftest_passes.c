/* glint_selftest passes on every row of a right library, whatever its rows take: biases, intervals, trees. So what the
 * self test expects of them is right, too, of keys before and behind a query. */
#include <stdlib.h>
#include <string.h>

#include "tests/contract/suite.h"
#include "tests/contract/world.h"

static void passes(void)
{
    struct counting counting;
    void *storage = NULL;
    struct glint_context *context = open_context(&counting, 3, &storage);
    struct glint_device_info device = {.struct_size = sizeof device};
    struct glint_selftest_result result = {.struct_size = sizeof result};
    size_t bytes = 0;
    EXPECT(glint_context_device(context, &device) == GLINT_OK && device.variants_loaded > 0, "no rows");
    EXPECT(glint_selftest_size(context, &bytes) == GLINT_OK && bytes > 0, "size");
    struct guarded memory = guarded_make(bytes, GLINT_WORKSPACE_ALIGNMENT, false);
    memset(memory.at, 0xFF, bytes);
    const enum glint_status status = glint_selftest(context, memory.at, memory.bytes, NULL, &result);
    EXPECT(status == GLINT_OK && result.variants_failed == 0, "%s: row %u, error %g of the tolerance", glint_status_name(status),
           result.first_failed, (double)result.worst_error);
    EXPECT(result.variants_run == device.variants_loaded, "%u of %u rows were run", result.variants_run, device.variants_loaded);
    EXPECT(guarded_canaries_hold(&memory), "the self test wrote outside its memory");
    guarded_free(&memory);
    EXPECT(glint_context_close(context) == GLINT_OK, "close");
    free(storage);
}

static const struct contract_case cases[] = {{"passes", passes, 0}};
CONTRACT_MAIN("selftest_passes", cases)
