/* The checks themselves: a right implementation passes all of them, and every fault of tests/checks/stand_in.h is
 * caught by at least one check of one variant. Prints which check caught what. harness_selftest [FAULT]: only that one,
 * with the check's message. */
#include <stdio.h>
#include <string.h>

#include "tests/checks/runner.h"
#include "tests/checks/stand_in.h"
#include "tests/support/cases.h"

/* Runs checks whose names begin with `prefix` until one fails; *message then says why. */
static const struct check *first_failure(struct check_list *list, const char *prefix, char *message, size_t bytes)
{
    for (size_t i = 0; i < list->count; i++)
        if (strncmp(list->at[i].name, prefix, strlen(prefix)) == 0 && !check_run(list, &list->at[i], message, bytes))
            return &list->at[i];
    return NULL;
}

/* Variants in the order in which a fault is likeliest to show: the causal float32 ones first. */
static bool caught(enum fault fault, enum glint_pass pass, const char *prefix, bool verbose)
{
    static const char *const kinds[] = {"f32_d16_causal__stand_in", "bf16_d16_none__stand_in", "f16_d16_causal__stand_in",
                                        "f32_d16_causal__stand_in_tf32", "f32_d16_causal__stand_in_tf32x3"};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        char name[64], message[RUNNER_MESSAGE];
        struct subject subject;
        struct check_list list = {.subject = &subject};
        snprintf(name, sizeof name, "%s_%s", pass == GLINT_FORWARD ? "fwd" : "bwd", kinds[k]);
        if (!subject_open(&subject, stand_in_backend(), name))
            return false;
        variant_checks(&list);
        stand_in_set_fault(fault);
        const struct check *check = first_failure(&list, prefix, message, sizeof message);
        stand_in_set_fault(FAULT_NONE);
        if (check != NULL)
            printf("%-24s caught in %s by %s\n%s%s", fault_name(fault), name, check->name, verbose ? message : "",
                   verbose ? "\n" : "");
        subject_close(&subject);
        checks_free(&list);
        if (check != NULL)
            return true;
    }
    printf("%-24s NOT CAUGHT by %s\n", fault_name(fault), *prefix != '\0' ? prefix : "any check");
    return false;
}

static size_t right_fails(void)
{
    size_t failed = 0;
    for (uint32_t i = 0; i < stand_in_backend()->variant_count(); i++) {
        char message[RUNNER_MESSAGE];
        struct subject subject;
        struct check_list list = {.subject = &subject};
        subject_open_index(&subject, stand_in_backend(), i);
        variant_checks(&list);
        for (size_t c = 0; c < list.count; c++)
            if (!check_run(&list, &list.at[c], message, sizeof message) && ++failed <= CASES_FAILURES)
                printf("a right implementation FAILED %s\n", message);
        printf("%-32s right, %zu checks\n", subject.info.name, list.count);
        subject_close(&subject);
        checks_free(&list);
    }
    return failed;
}

/* A check that compares nothing must fail, and so must a comparison with NaN. */
static void compares_nothing(struct subject *subject, const struct shape *shape)
{
    (void)subject, (void)shape;
}

static bool empty_check_fails(void)
{
    char message[RUNNER_MESSAGE];
    struct subject subject;
    subject_open_index(&subject, stand_in_backend(), 0);
    struct check_list list = {.subject = &subject};
    const struct shape shape = {.mask = GLINT_MASK_NONE};
    checks_add(&list, compares_nothing, &shape, "empty");
    const bool fails = !check_run(&list, &list.at[0], message, sizeof message);
    struct runner_options options = {.only = "accuracy/mistyped"};
    const bool unknown_fails = runner_run("mistyped", &list, &options) != 0;
    checks_free(&list);
    return fails && unknown_fails;
}

/* Numbers that are off: the checks of gradients that need no reference find each of them, too, both kinds alone. */
static const enum fault wrong_gradients[] = {
    FAULT_NO_DELTA,
    FAULT_DELTA_OFF_BY_1E3,
    FAULT_DQ_NOT_SCALED,
    FAULT_DK_NOT_SCALED,
    FAULT_DK_ONLY_LAST_OF_GROUP,
    FAULT_DV_OFF_BY_A_TENTH,
    FAULT_DV_FROM_DS,
    FAULT_BACKWARD_MASK_LONG,
    FAULT_BACKWARD_TAIL_DROPPED,
    FAULT_ONE_TF32_OF_THREE_BACKWARD,
};

int main(int argc, char **argv)
{
    size_t tried = 0, missed = 0;
    runner_prepare();
    const size_t failed = argc > 1 ? 0 : right_fails();
    if (argc == 1)
        check_print_margins();
    for (enum fault fault = FAULT_NONE + 1; fault < FAULTS; fault++) {
        if (fault == FAULT_IGNORED || (argc > 1 && strcmp(argv[1], fault_name(fault)) != 0))
            continue;
        tried++;
        missed += caught(fault, fault < FIRST_BACKWARD_FAULT ? GLINT_FORWARD : GLINT_BACKWARD, "", argc > 1) ? 0 : 1;
    }
    for (size_t i = 0; i < sizeof wrong_gradients / sizeof wrong_gradients[0] && argc == 1; i++) {
        tried += 2;
        missed += caught(wrong_gradients[i], GLINT_BACKWARD, "derivative/", false) ? 0 : 1;
        missed += caught(wrong_gradients[i], GLINT_BACKWARD, "identity/", false) ? 0 : 1;
    }
    if (!empty_check_fails()) {
        printf("a check that compares nothing, or a name that selects nothing, passed\n");
        missed++;
    }
    printf("harness_selftest: %zu faults, %zu missed; %zu failures of right implementations\n", tried, missed, failed);
    return tried > 0 && missed == 0 && failed == 0 ? 0 : 1;
}
