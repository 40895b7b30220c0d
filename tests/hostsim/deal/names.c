/* The names of every row's checks: ROOM_names [ROW...] prints a line `row check` for each check of each row that it was
 * linked with, in the order in which they run. Of the rows that are named it prints only those that formats_checks()
 * leaves.
 *
 * Which checks a row has depends on what it takes, so each row is opened on an architecture that runs it. Nothing is
 * launched: images without kernels do (tests/hostsim/image.h). */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/checks/backend.h"
#include "tests/checks/check.h"

int main(int argc, char **argv)
{
    const struct backend *backend = test_backend();
    for (uint32_t i = 0; i < backend->variant_count(); i++) {
        struct subject subject;
        subject_open_index(&subject, backend, i);
        setenv("HOSTSIM_VARIANT", subject.info.name, 1);
        struct check_list list = {.subject = &subject};
        variant_checks(&list);
        for (int k = 1; k < argc; k++)
            if (strcmp(argv[k], subject.info.name) == 0)
                formats_checks(&list);
        for (size_t c = 0; c < list.count; c++)
            printf("%s %s\n", subject.info.name, list.at[c].name);
        subject_close(&subject);
        checks_free(&list);
    }
    return ferror(stdout) || fflush(stdout) != 0;
}
