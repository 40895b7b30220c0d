/* What the simulator found, and what it counted: for those who ask. Kernels include engine.h alone, which is read once
 * a kernel and has few headers for that reason. */
#ifndef GLINT_HOSTSIM_FINDINGS_H
#define GLINT_HOSTSIM_FINDINGS_H

#include <string>
#include <vector>

#include "tests/hostsim/engine.h"

namespace sim
{

struct Finding {
    Kind kind;
    Site site;
    std::string text; /* what, where, who; more lines for the state of every barrier */
};

const std::vector<Finding> &findings(); /* since the last clear_findings() */

/* A line a place: name, file, line, requests, wavefronts, the fewest possible, sectors, the fewest possible. */
struct Cost {
    std::string name;
    Site site;
    uint64_t instructions; /* of a warp */
    uint64_t wavefronts, least_wavefronts;
    uint64_t sectors, least_sectors;
};
std::vector<Cost> costs();

} // namespace sim

#endif
