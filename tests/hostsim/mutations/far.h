/* Checks of strides so great that a byte offset does not fit in 32 bits, for backends whose memory costs nothing until it is used. */
#ifndef GLINT_TESTS_HOSTSIM_FAR_H
#define GLINT_TESTS_HOSTSIM_FAR_H

#include "tests/check.h"

/* far/batch, far/head and far/row: the extent that is spread over more than 2 GiB. */
void far_checks(struct check_list *list, const struct subject *subject);

#endif
