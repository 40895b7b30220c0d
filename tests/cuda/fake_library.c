/* The fake driver as libcuda.so.1, for a program linked with -Wl,--wrap=dlopen,--wrap=dlsym,--wrap=dlclose: the
 * library under test takes the same path as beside a real driver. Other libraries (a sanitizer looks for its own)
 * are left alone. */
#include <string.h>

#include "tests/cuda/fake_driver.h"

void *__real_dlopen(const char *name, int flags);
void *__real_dlsym(void *library, const char *symbol);
int __real_dlclose(void *library);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *library, const char *symbol);
int __wrap_dlclose(void *library);

static char handle; /* only its address is used */

void *__wrap_dlopen(const char *name, int flags)
{
    if (!name || strcmp(name, "libcuda.so.1") != 0)
        return __real_dlopen(name, flags);
    if (fake.library_missing)
        return NULL;
    fake.libraries++;
    return &handle;
}

void *__wrap_dlsym(void *library, const char *symbol)
{
    void *address = NULL;
    if (library != &handle)
        return __real_dlsym(library, symbol);
    if (fake.libraries == 0 || (fake.symbol_missing && strcmp(symbol, fake.symbol_missing) == 0))
        return NULL;
    for (int i = 0; i < FAKE_ENTRIES; i++)
        if (strcmp(symbol, fake_symbol(i)) == 0)
            memcpy(&address, (const char *)&fake_table + (size_t)i * sizeof address, sizeof address);
    return address || !fake.symbol_elsewhere ? address : fake.symbol_elsewhere(symbol);
}

int __wrap_dlclose(void *library)
{
    if (library != &handle)
        return __real_dlclose(library);
    fake.libraries--; /* below 0 counts as held */
    return 0;
}
