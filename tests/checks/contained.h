/* How special values spread. */
#ifndef GLINT_TESTS_CONTAINED_H
#define GLINT_TESTS_CONTAINED_H

#include "tests/checks/experiment.h"

/* `poisoned` is `clean` with special values; before: results of clean, whose reference has run. The two references say
 * for every element of the result what must become of it:
 *   unchanged there -> the same bits here;  NaN or an infinity there -> the same here; another number there -> near
 *                                           it here.
 * Gradients of infinities depend on the order of operations: there only `unchanged` is judged, and dV where a softcap
 * makes P finite. */
void expect_contained(struct experiment *clean, const struct results *before, struct experiment *poisoned, bool unchanged_only);

#endif
