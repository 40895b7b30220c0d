/* A copy reads its source and writes its destination at any moment between its beginning and the end of the wait that
 * covers it. So whoever touches the destination meanwhile is found out, and whoever changes the source; then the moment
 * makes no difference. */
#include "tests/hostsim/copies.h"

#include <cstring>

#include "tests/hostsim/state.h"

namespace sim
{

namespace
{

/* What the source holds must be what it held when the copy began: the copy reads it at any moment until the wait. So it
 * is looked at a second time at the wait, which whoever writes there must come after. */
void check_source(const Thread *thread, const Copy &copy)
{
    if (copy.from == nullptr)
        return;
    if (std::memcmp(shared_raw(thread->block, copy.to), global(copy.from, copy.bytes, Use::read, copy.site), copy.bytes) != 0)
        report(Kind::pending, copy.site, "%s: the source of a copy was written before the copy's wait", who(thread).c_str());
}

} // namespace

void copy_begin(uint32_t to, const void *from, uint32_t bytes, bool inside, Site site)
{
    const unsigned char *source = inside ? global(from, bytes, Use::read, site) : nullptr;
    shared_begin_write(to, bytes, site);
    event("cp.async", site, to, inside ? bytes : 0);
    self->open.push_back(Copy{to, inside ? from : nullptr, bytes, site});
    if (inside)
        std::memcpy(shared_raw(self->block, to), source, bytes);
    else
        std::memset(shared_raw(self->block, to), 0, bytes);
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
        for (const Copy &copy : self->groups.front()) {
            check_source(self, copy);
            event("copy lands", copy.site, copy.to);
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
