/* Linked into the test's copy of train_text only: replaces the C library's allocator. The arena is the program's second
 * aligned_alloc; whoever allocates after it ends the process with a message and status 99. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static int aligned_blocks;

static void refuse_when_running(void)
{
    static const char message[] = "an allocation after the arena\n";
    if (aligned_blocks < 2)
        return;
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0)
        _exit(98);
    _exit(99);
}

void *malloc(size_t bytes)
{
    refuse_when_running();
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    refuse_when_running();
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    refuse_when_running();
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    refuse_when_running();
    aligned_blocks++;
    return __libc_memalign(alignment, bytes);
}
