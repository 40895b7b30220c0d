/* Runs a changed kernel through chosen checks in the simulator, and writes what became of it (read by table.lua):
 *
 *   judge --out=FILE --variant=NAME --source=KERNEL --cases=CASE,CASE,... --meant=KINDS [--fault=NUMBER]
 *   [--found=FILE,FILE,...] --FIELD=TEXT...
 *
 * NUMBER is which fault happens of those that choose.lua has put into the kernel: 0, or left out, none. A case is a
 * check's name, or the begin of some, with a * at the end. With --found the checks that found the faults of those
 * outcomes are run in place of the cases. They are run one after another, in orders drawn from two
 * seeds, until the simulator reports something, or an answer is wrong where an answer is among what is meant to catch
 * the change. A change that nothing is meant to catch is run with one seed: every launch has an order of its own. The
 * exit status says whether the outcome could be written, not what it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/checks/runner.h"
#include "tests/hostsim/driver.h"

enum { SEEDS = 2, MESSAGE = 4096, MOST_FIELDS = 16 };

struct argument {
    const char *name, *value;
};

struct outcome {
    char caught[32], place[256], line[512], check[64], message[MESSAGE];
};

static struct argument arguments[MOST_FIELDS];
static size_t argument_count;
int sim_fault_number;

static const char *argument_or(const char *name, const char *missing)
{
    for (size_t i = 0; i < argument_count; i++)
        if (strcmp(arguments[i].name, name) == 0)
            return arguments[i].value;
    return missing;
}

static const char *argument(const char *name)
{
    const char *value = argument_or(name, NULL);
    if (value != NULL)
        return value;
    fprintf(stderr, "judge: --%s= is missing\n", name);
    exit(2);
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (strncmp(argv[i], "--", 2) != 0 || equals == NULL || argument_count == MOST_FIELDS) {
            fprintf(stderr, "judge: what is '%s'?\n", argv[i]);
            exit(2);
        }
        *equals = '\0';
        arguments[argument_count++] = (struct argument){argv[i] + 2, equals + 1};
    }
}

/* Whether `name` is one of the cases, in text[0 ... length). */
static bool matches(const char *text, size_t length, const char *name)
{
    if (length > 0 && text[length - 1] == '*')
        return strncmp(text, name, length - 1) == 0;
    return strlen(name) == length && strncmp(text, name, length) == 0;
}

/* Adds to the list, of all checks, those that found the faults of outcomes, each once. The outcomes' files have commas
 * between their names. */
static void choose_found(struct check_list *list, const struct check_list *all, const char *files)
{
    for (const char *at = files; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        char path[512], line[MESSAGE];
        snprintf(path, sizeof path, "%.*s", (int)length, at);
        FILE *file = fopen(path, "r");
        if (file == NULL) {
            fprintf(stderr, "judge: %s cannot be read\n", path);
            exit(2);
        }
        while (fgets(line, sizeof line, file) != NULL) {
            line[strcspn(line, "\n")] = '\0';
            const char *name = strncmp(line, "case: ", 6) == 0 ? line + 6 : "";
            bool there = false;
            for (size_t i = 0; i < list->count; i++)
                there |= strcmp(list->at[i].name, name) == 0;
            for (size_t i = 0; i < all->count && !there; i++)
                if (strcmp(all->at[i].name, name) == 0)
                    checks_add(list, all->at[i].run, &all->at[i].shape, "%s", name);
        }
        fclose(file);
        at += length + (at[length] == ',');
    }
    if (list->count == 0) {
        fprintf(stderr, "judge: no check found a fault of %s\n", files);
        exit(2);
    }
}

/* The checks of the cases, in the order of the cases. */
static void choose(struct check_list *list, const struct check_list *all, const char *cases)
{
    for (const char *at = cases; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        const size_t before = list->count;
        for (size_t i = 0; i < all->count; i++)
            if (matches(at, length, all->at[i].name))
                checks_add(list, all->at[i].run, &all->at[i].shape, "%s", all->at[i].name);
        if (list->count == before) {
            fprintf(stderr, "judge: no check is named '%.*s'\n", (int)length, at);
            exit(2);
        }
        at += length + (at[length] == ',');
    }
}

/* The text of a line of a file, without the space in front. */
static void read_line(const char *path, int line, char *text, size_t bytes)
{
    FILE *file = fopen(path, "r");
    char buffer[512];
    snprintf(text, bytes, "-");
    for (int i = 1; file != NULL && fgets(buffer, sizeof buffer, file) != NULL; i++)
        if (i == line) {
            buffer[strcspn(buffer, "\n")] = '\0';
            snprintf(text, bytes, "%s", buffer + strspn(buffer, " "));
        }
    if (file != NULL)
        fclose(file);
}

static void one_line(char *text)
{
    text[strcspn(text, "\n")] = '\0';
}

/* A finding's text is "KIND at FILE:LINE: ..."; the backend puts it behind these words. */
static bool read_finding(struct outcome *outcome, const char *message)
{
    static const char words[] = "the device failed: ";
    const char *text = strstr(message, words);
    int line = 0;
    if (text == NULL || sscanf(text + strlen(words), "%31s at %200[^:]:%d", outcome->caught, outcome->place, &line) != 3)
        return false;
    const char *source = argument("source"), *base = strrchr(source, '/');
    const bool in_kernel = strstr(outcome->place, base != NULL ? base + 1 : source) != NULL;
    read_line(in_kernel ? source : outcome->place, line, outcome->line, sizeof outcome->line);
    snprintf(outcome->place + strlen(outcome->place), sizeof outcome->place - strlen(outcome->place), ":%d", line);
    snprintf(outcome->message, sizeof outcome->message, "%s", text + strlen(words));
    return true;
}

/* Runs the checks until it is clear what becomes of the change. */
static void search(struct outcome *outcome, const struct check_list *list)
{
    const bool harmless = strcmp(argument("meant"), "nothing") == 0;
    const bool answers = harmless || strstr(argument("meant"), "answer") != NULL;
    char message[MESSAGE];

    *outcome = (struct outcome){"nothing", "-", "-", "-", "-"};
    for (uint64_t seed = 1; seed <= (harmless ? 1 : SEEDS); seed++)
        for (size_t i = 0; i < list->count; i++) {
            sim_seed(seed);
            sim_clear();
            if (check_run(list, &list->at[i], message, sizeof message))
                continue;
            const bool first = strcmp(outcome->caught, "nothing") == 0;
            struct outcome found = *outcome;
            const bool reported = read_finding(&found, message);
            if (!reported && first) {
                snprintf(found.caught, sizeof found.caught, "answer");
                snprintf(found.message, sizeof found.message, "%s", message);
            }
            if (reported || first) {
                snprintf(found.check, sizeof found.check, "%s", list->at[i].name);
                one_line(found.message);
                *outcome = found;
            }
            if (reported || answers)
                return;
        }
}

static int write_outcome(const struct outcome *outcome)
{
    FILE *file = fopen(argument("out"), "w");
    if (file == NULL)
        return 2;
    static const char *const told[] = {"name", "kernel", "breaks", "meant"};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        fprintf(file, "%s: %s\n", told[i], argument(told[i]));
    fprintf(file, "caught: %s\nplace: %s\nline: %s\ncase: %s\nmessage: %s\n", outcome->caught, outcome->place, outcome->line,
            outcome->check, outcome->message);
    return fclose(file) == 0 ? 0 : 2;
}

int main(int argc, char **argv)
{
    struct subject subject;
    struct outcome outcome;

    read_arguments(argc, argv);
    sim_fault_number = atoi(argument_or("fault", "0"));
    runner_prepare();
    if (!subject_open(&subject, test_backend(), argument("variant"))) {
        fprintf(stderr, "judge: no variant %s\n", argument("variant"));
        return 2;
    }
    struct check_list all = {.subject = &subject}, chosen = {.subject = &subject};
    variant_checks(&all);
    if (argument_or("found", NULL) != NULL)
        choose_found(&chosen, &all, argument("found"));
    else
        choose(&chosen, &all, argument("cases"));
    search(&outcome, &chosen);
    subject_close(&subject);
    checks_free(&all);
    checks_free(&chosen);
    return write_outcome(&outcome);
}
