/* The groups of cases of the primitives. A program of other cases has other groups. */
#include "tests/hostsim/micro/cases.h"

std::vector<micro_case> micro_cases(const std::string &group)
{
    if (group == "sm80")
        return sm80_cases();
    if (group == "before90")
        return before90_cases();
    if (group == "wgmma")
        return wgmma_cases();
    if (group == "tensor")
        return tensor_cases();
    if (group == "hopper")
        return hopper_cases();
    return {};
}
