#include "tests/checks/check.h"

void variant_checks(struct check_list *list)
{
    gradient_checks(list, list->subject);
    laws_checks(list, list->subject);
    special_values_checks(list, list->subject);
    far_checks(list, list->subject);
    lengths_checks(list, list->subject);
}
