/* cp.async: PTX ISA, "Asynchronous copy". */
#ifndef GLINT_HOSTSIM_COPIES_H
#define GLINT_HOSTSIM_COPIES_H

#include "tests/hostsim/engine.h"

namespace sim
{

void copy_begin(uint32_t to, const void *from, uint32_t bytes, bool inside, Site site);
void copy_commit(Site site);
void copy_wait(uint32_t groups, Site site);

} // namespace sim

#endif
