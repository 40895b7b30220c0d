/* The promise tests as programs (tests/support/cases.h): a list of named cases, each in a process of its own. A run
 * that executed no case fails. A case reports through EXPECT alone. */
#ifndef GLINT_TESTS_CONTRACT_SUITE_H
#define GLINT_TESTS_CONTRACT_SUITE_H

#include <stddef.h>

struct contract_case {
    const char *name;
    void (*run)(void);
    int seconds; /* after which it has failed; 0: 60 */
};

/* Runs the cases whose names are in argv, or all of them; the exit status of main. */
int contract_run(const char *suite, const struct contract_case *cases, size_t count, int argc, char **argv);

#define CONTRACT_MAIN(suite, cases)                                                        \
    int main(int argc, char **argv)                                                        \
    {                                                                                      \
        return contract_run(suite, cases, sizeof(cases) / sizeof((cases)[0]), argc, argv); \
    }

/* EXPECT(condition, format, ...): ends the case with file, line and the formatted facts when the condition is false. */
#define EXPECT(condition, ...)                                            \
    do {                                                                  \
        if (!(condition))                                                 \
            contract_failed(__FILE__, __LINE__, #condition, __VA_ARGS__); \
    } while (0)

__attribute__((format(printf, 4, 5), noreturn)) void contract_failed(const char *file, int line, const char *condition,
                                                                     const char *format, ...);

/* A line of the case's own figures (case counts, times) on standard output. */
__attribute__((format(printf, 1, 2))) void contract_note(const char *format, ...);

/* Built with a sanitizer whose instrumentation changes allocation, stack use or system calls. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONTRACT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define CONTRACT_SANITIZED 1
#endif
#endif
#ifndef CONTRACT_SANITIZED
#define CONTRACT_SANITIZED 0
#endif

/* Cross-compiled, so run by an emulator: times mean little, and the process's own memory and limits are the
 * emulator's too. */
#ifdef GLINT_TESTS_WITHOUT_CHECK
#define CONTRACT_EMULATED 1
#else
#define CONTRACT_EMULATED 0
#endif

#endif
