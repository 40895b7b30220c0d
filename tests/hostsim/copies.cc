/* A copy lands at a moment between its beginning and the end of the wait that covers it: at once, at the wait, or drawn. Whoever
 * touches its destination meanwhile is found out in any case; the moment matters when its source changes. */
#include "tests/hostsim/copies.h"

#include <cstring>

#include "tests/hostsim/state.h"

namespace sim
{

namespace
{

void land(const Thread *thread, Copy &copy)
{
    unsigned char *to = shared_raw(thread->block, copy.to);

    if (copy.from == nullptr)
        std::memset(to, 0, copy.bytes);
    else
        std::memcpy(to, copy.from, copy.bytes);
    copy.landed = true;
    event("copy lands", copy.site, copy.to);
}

} // namespace

void copy_begin(uint32_t to, const void *from, uint32_t bytes, bool inside, Site site)
{
    if (inside)
        global(from, bytes, Use::read, site);
    shared_begin_write(to, bytes, site);
    event("cp.async", site, to, inside ? bytes : 0);
    self->open.push_back(Copy{to, inside ? from : nullptr, bytes, false, site});
    if (draw(2) == 0)
        land(self, self->open.back());
}

void copy_commit(Site site)
{
    event("cp.async.commit_group", site);
    self->groups.push_back(std::move(self->open));
    self->open.clear();
}

void copy_wait(uint32_t groups, Site site)
{
    event("cp.async.wait_group", site, groups);
    while (self->groups.size() > groups) {
        for (Copy &copy : self->groups.front()) {
            if (!copy.landed)
                land(self, copy);
            shared_end_write(self, copy.to, copy.bytes, copy.site);
        }
        self->groups.erase(self->groups.begin());
    }
}

void copies_end(Thread *thread)
{
    thread->open.clear();
    thread->groups.clear();
}

} // namespace sim
