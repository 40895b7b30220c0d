#include "tests/contract/suite.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cases.h"
#include "tests/support/shards.h"

enum { DEFAULT_SECONDS = 60, MOST_CASES = 64 };

static const struct contract_case *chosen_ones[MOST_CASES];

void contract_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("    ");
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    va_end(arguments);
}

void contract_failed(const char *file, int line, const char *condition, const char *format, ...)
{
    char facts[1536], message[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(facts, sizeof facts, format, arguments);
    va_end(arguments);
    snprintf(message, sizeof message, "%s:%d: %s: %s", file, line, condition, facts);
    cases_fail(message);
}

static bool chosen(const char *name, int argc, char **argv)
{
    if (argc < 2)
        return true;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return false;
}

static const char *name_of(size_t i)
{
    return chosen_ones[i]->name;
}

static void run(size_t i)
{
    chosen_ones[i]->run();
}

static int seconds_of(size_t i)
{
    return chosen_ones[i]->seconds > 0 ? chosen_ones[i]->seconds : DEFAULT_SECONDS;
}

int contract_run(const char *suite, const struct contract_case *cases, size_t count, int argc, char **argv)
{
    struct cases all = {.suite = suite, .name = name_of, .run = run, .seconds = seconds_of};
    const struct shard shard = shard_of_process();
    for (size_t i = 0; i < count; i++) {
        if (!chosen(cases[i].name, argc, argv) || (argc < 2 && !shard_has(&shard, i)))
            continue;
        if (all.count == MOST_CASES)
            abort();
        chosen_ones[all.count++] = &cases[i];
    }
    return cases_run(&all);
}
