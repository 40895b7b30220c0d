#include "tests/hostsim/fiber.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

/* Callee-saved registers of the ABI, then the stack pointer. Rounding modes are the same everywhere and stay. */
#if defined(__x86_64__)
asm(R"(
    .text
    .globl sim_fiber_switch
    .hidden sim_fiber_switch
    .type sim_fiber_switch, @function
sim_fiber_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .size sim_fiber_switch, . - sim_fiber_switch
)");
enum { SAVED_WORDS = 6, FRAME_WORDS = 8 };
#elif defined(__aarch64__)
asm(R"(
    .text
    .globl sim_fiber_switch
    .hidden sim_fiber_switch
    .type sim_fiber_switch, %function
sim_fiber_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size sim_fiber_switch, . - sim_fiber_switch
)");
enum { SAVED_WORDS = 11, FRAME_WORDS = 20 };
#else
#error "the simulator switches stacks on x86-64 and AArch64"
#endif

namespace sim
{

namespace
{

constexpr size_t PAGE = 65536; /* a multiple of every page size in use */
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t STACK = 4 * 65536;
#else
constexpr size_t STACK = 2 * 65536;
#endif
constexpr size_t COLOURS = 32768;
struct Stack {
    unsigned char *bottom;
    void *sanitizer;
};
std::vector<Stack> pool;

} // namespace

size_t fiber_stack_bytes()
{
    return STACK;
}

unsigned char *fiber_stack(void **sanitizer)
{
    *sanitizer = nullptr;
    if (!pool.empty()) {
        const Stack stack = pool.back();
        pool.pop_back();
        *sanitizer = stack.sanitizer;
        return stack.bottom;
    }
    void *map = mmap(nullptr, PAGE + STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED || mprotect((unsigned char *)map + PAGE, STACK, PROT_READ | PROT_WRITE) != 0) {
        std::perror("a fiber's stack");
        std::abort();
    }
    return (unsigned char *)map + PAGE;
}

void fiber_stack_back(unsigned char *stack, void *sanitizer)
{
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(stack, STACK);
#endif
    pool.push_back(Stack{stack, sanitizer});
}

/* Frames of the same function would lie at the same place of every stack, and all of them in the same few sets of the
 * caches: so stacks begin a little further down, each elsewhere. */
static size_t colour()
{
    static uint32_t prepared;
    return prepared++ * UINT32_C(2112) % COLOURS / 64 * 64;
}

void *fiber_prepare(unsigned char *stack, void (*entry)())
{
    uint64_t *top = (uint64_t *)(void *)(stack + STACK - colour());
#if defined(__x86_64__)
    uint64_t *frame = top - FRAME_WORDS; /* a multiple of 16, so that entry finds the stack as a call leaves it */
    for (int i = 0; i < FRAME_WORDS; ++i)
        frame[i] = 0;
    frame[SAVED_WORDS] = (uint64_t)(uintptr_t)entry;
#else
    uint64_t *frame = top - FRAME_WORDS;
    for (int i = 0; i < FRAME_WORDS; ++i)
        frame[i] = 0;
    frame[SAVED_WORDS] = (uint64_t)(uintptr_t)entry; /* x30 */
#endif
    return frame;
}

} // namespace sim
