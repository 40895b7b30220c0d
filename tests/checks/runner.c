#define _DEFAULT_SOURCE
#include "tests/checks/runner.h"

#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/cases.h"
#include "tests/support/shards.h"

bool runner_arguments(int argc, char **argv, struct runner_options *options, const char *prefix, const char **value)
{
    uint32_t share, shares;
    bool whole = false;
    *options = (struct runner_options){0};
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--case=", 7) == 0) {
            options->only = argv[i] + 7;
        } else if (strcmp(argv[i], "--list") == 0) {
            options->list = true;
        } else if (strcmp(argv[i], "--margins") == 0) {
            options->margins = true;
        } else if (strcmp(argv[i], "--times") == 0) {
            options->times = true;
        } else if (strcmp(argv[i], "--formats") == 0) {
            options->formats = true;
        } else if (sscanf(argv[i], "--share=%" SCNu32 "/%" SCNu32, &share, &shares) == 2 && share < shares) {
            options->share = share;
            options->shares = shares;
        } else if (strncmp(argv[i], "--dealt=", 8) == 0) {
            options->dealt = argv[i] + 8;
        } else if (strcmp(argv[i], "--whole") == 0) {
            whole = true;
        } else if (prefix != NULL && strncmp(argv[i], prefix, strlen(prefix)) == 0) {
            *value = argv[i] + strlen(prefix);
        } else {
            fprintf(
                stderr,
                "%s: unknown argument '%s'; known: %s%s --case=NAME --list --margins --times --formats --share=I/N --dealt=FILE --whole\n",
                argv[0], argv[i], prefix != NULL ? prefix : "", prefix != NULL ? "NAME" : "");
            return false;
        }
    }
    if (whole || options->only != NULL) {
        options->shares = 0;
        options->dealt = NULL;
    }
    return true;
}

static bool selected(const struct check *check, const char *only)
{
    const size_t length = only != NULL ? strlen(only) : 0;
    if (length == 0)
        return only == NULL;
    return only[length - 1] == '/' ? strncmp(check->name, only, length) == 0 : strcmp(check->name, only) == 0;
}

/* Whether only the checks that use several threads are to run: under ThreadSanitizer, which says nothing of one, where
 * a list has some. */
static bool threads_only(const struct check_list *list, const struct runner_options *options)
{
    bool threads = false;
#if defined(__SANITIZE_THREAD__)
    for (size_t i = 0; i < list->count && options->only == NULL; i++)
        threads |= list->at[i].threads;
#else
    (void)list, (void)options;
#endif
    return threads;
}

/* The checks that are asked for by name, or else this shard's. */
static size_t choose(struct check_list *list, const struct runner_options *options)
{
    const struct shard shard = shard_of_process();
    const bool all_shards = options->only != NULL || options->list, threads = threads_only(list, options);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (selected(&list->at[i], options->only) && (all_shards || shard_has(&shard, i)) && (!threads || list->at[i].threads))
            list->at[kept++] = list->at[i];
    if (kept == 0)
        fprintf(stderr, "no check is named '%s' (of %zu; --list shows them)\n", options->only != NULL ? options->only : "",
                list->count);
    list->count = kept;
    return kept;
}

static void say(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0)
        _exit(1);
}

/* A fence that was touched ends here too. */
static void crashed(int signal)
{
    say(signal == SIGSEGV || signal == SIGBUS ? "FAILED: memory that is not the call's was touched in check "
                                              : "FAILED: a signal ended check ");
    say(check_running());
    say("; again: --test_arg=--case=");
    say(check_running());
    say("\n");
    _exit(1);
}

void runner_prepare(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old;
        sigaction(signals[i], NULL, &old);
        if (old.sa_handler == SIG_DFL) { /* a sanitizer's own handler says more */
            struct sigaction action = {.sa_handler = crashed};
            sigaction(signals[i], &action, NULL);
        }
    }
    /* Keep freed memory: checks come and go by the dozen, and new pages cost more than they do. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

static const struct check_list *checks;

static const char *name_of(size_t i)
{
    return checks->at[i].name;
}

static bool times;

static void run(size_t i)
{
    char message[RUNNER_MESSAGE];
    const clock_t start = clock();
    const bool passed = check_run(checks, &checks->at[i], message, sizeof message);
    if (times)
        printf("time %9.3f s  %s\n", (double)(clock() - start) / CLOCKS_PER_SEC, checks->at[i].name);
    if (!passed)
        cases_fail(message);
}

int runner_run(const char *suite, struct check_list *list, const struct runner_options *options)
{
    if (choose(list, options) == 0)
        return 1;
    checks = list;
    if (options->list) {
        for (size_t i = 0; i < list->count; i++)
            printf("%s\n", name_of(i));
        return 0;
    }
    runner_prepare();
    times = options->times;
    const int status = cases_run(&(struct cases){.suite = suite, .count = list->count, .name = name_of, .run = run});
    if (options->margins)
        check_print_margins();
    return status;
}
