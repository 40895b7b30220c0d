/* What memory accesses cost: lanes' k-th execution of a place makes one request of the warp. Shared memory has 32 banks
 * of 4 bytes; a request of 8 bytes a lane is served in halves, one of 16 bytes in quarters of the warp, a matrix of
 * ldmatrix by itself. Global memory moves sectors of 32 bytes. */
#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "tests/hostsim/state.h"

namespace sim
{

bool counting;

namespace
{

struct Request {
    uint32_t lanes, bytes;
    uint64_t address[32];
};

/* One place in one warp. */
struct Stream {
    uint32_t done[32];
    uint32_t first; /* the number of the oldest request that is open */
    bool is_global;
    std::deque<Request> open;
};

std::map<std::pair<uint16_t, std::string>, Cost> table;
std::map<std::pair<const Warp *, std::pair<uint16_t, std::string>>, Stream> streams;

Cost &cost_of(const char *name, Site site)
{
    Cost &cost = table[{site_id(site), name}];
    cost.name = name;
    cost.site = site;
    return cost;
}

/* The most words that one bank must give for lanes from ... to; lanes that ask for the same word share it. */
uint32_t conflicts(const Request &request, uint32_t from, uint32_t to)
{
    std::vector<uint32_t> words;
    uint32_t of_bank[32] = {0}, most = 0;

    for (uint32_t lane = from; lane < to; ++lane)
        if (request.lanes >> lane & 1)
            for (uint32_t w = 0; w < request.bytes / 4; ++w)
                words.push_back((uint32_t)request.address[lane] / 4 + w);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    for (uint32_t word : words)
        most = std::max(most, ++of_bank[word % 32]);
    return most;
}

void account_shared(Cost &cost, const Request &request)
{
    const uint32_t part = request.bytes >= 16 ? 8 : request.bytes >= 8 ? 16 : 32;

    for (uint32_t lane = 0; lane < 32; lane += part) {
        const uint32_t most = conflicts(request, lane, lane + part);
        cost.wavefronts += most;
        cost.least_wavefronts += most > 0;
    }
}

void account_global(Cost &cost, const Request &request)
{
    std::set<uint64_t> addresses, sectors; /* lanes that ask for the same share it */

    for (uint32_t lane = 0; lane < 32; ++lane)
        if (request.lanes >> lane & 1) {
            addresses.insert(request.address[lane]);
            sectors.insert(request.address[lane] / 32);
        }
    cost.sectors += sectors.size();
    cost.least_sectors += (addresses.size() * request.bytes + 31) / 32;
}

void account(Cost &cost, const Stream &stream, const Request &request)
{
    ++cost.instructions;
    if (stream.is_global)
        account_global(cost, request);
    else
        account_shared(cost, request);
}

void add(const char *name, uint64_t address, uint32_t bytes, bool is_global, Site site)
{
    Stream &stream = streams[{self->warp, {site_id(site), name}}];
    const uint32_t lane = self->lane, at = stream.done[lane]++ - stream.first;

    stream.is_global = is_global;
    while (stream.open.size() <= at)
        stream.open.push_back(Request());
    Request &request = stream.open[at];
    request.lanes |= 1u << lane;
    request.bytes = bytes;
    request.address[lane] = address;
    while (!stream.open.empty() && stream.open.front().lanes == 0xffffffffu) {
        account(cost_of(name, site), stream, stream.open.front());
        stream.open.pop_front();
        ++stream.first;
    }
}

} // namespace

void count_costs(bool on)
{
    counting = on;
    if (on) {
        table.clear();
        streams.clear();
    }
}

void cost_instruction(const char *name, Site site)
{
    ++cost_of(name, site).instructions;
}

void cost_shared(const char *name, uint32_t address, uint32_t bytes, Site site)
{
    add(name, address, bytes, false, site);
}

void cost_global(const char *name, const void *address, uint32_t bytes, Site site)
{
    add(name, (uintptr_t)address, bytes, true, site);
}

void cost_matrix_rows(const char *name, const uint32_t row[32], Site site)
{
    Request request = {0xffffffffu, 16, {}};

    for (uint32_t lane = 0; lane < 32; ++lane)
        request.address[lane] = row[lane];
    Cost &cost = cost_of(name, site);
    ++cost.instructions;
    account_shared(cost, request);
}

/* Requests that not all lanes made: what is left when the block ends. */
void costs_block_ends(Block *block)
{
    for (auto at = streams.begin(); at != streams.end();)
        if (at->first.first->block == block) {
            Cost &cost = table[at->first.second];
            cost.name = at->first.second.second;
            cost.site = site_of(at->first.second.first);
            for (const Request &request : at->second.open)
                account(cost, at->second, request);
            at = streams.erase(at);
        } else {
            ++at;
        }
}

std::vector<Cost> costs()
{
    std::vector<Cost> all;

    for (const auto &entry : table)
        all.push_back(entry.second);
    return all;
}

} // namespace sim
