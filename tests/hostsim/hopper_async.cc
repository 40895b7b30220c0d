/* Bulk copies under way: PTX ISA, "Asynchronous operations", "cp.async.bulk". */
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "tests/hostsim/hopper_state.h"
#include "tests/hostsim/hopper_tensor_map.h"
#include "tests/hostsim/state.h"

namespace sim
{

namespace
{

std::vector<Transfer *> under_way;
std::vector<BlockState *> states;
/* Clocks of fence.proxy.async.global in this launch, also of blocks that have ended; the key is block << 32 |
 * thread. */
std::unordered_map<uint64_t, std::vector<uint32_t>> global_fences;

uint32_t first_after(const std::vector<uint32_t> &clocks, uint32_t clock)
{
    const auto found = std::lower_bound(clocks.begin(), clocks.end(), clock);
    return found == clocks.end() ? 0 : *found;
}

void forget(Transfer *transfer)
{
    under_way.erase(std::remove(under_way.begin(), under_way.end(), transfer), under_way.end());
}

/* Tensors of tf32 are rounded as they are loaded: to the nearest, ties to even; NaN is 0x7fffe000, and denormals stay,
 * with _FTZ too. */
void round_all(unsigned char *floats, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i += 4) {
        uint32_t bits;
        std::memcpy(&bits, floats + i, 4);
        bits = (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffe000u : (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000u;
        std::memcpy(floats + i, &bits, 4);
    }
}

void land(Transfer *transfer)
{
    for (const Piece &piece : transfer->pieces) {
        unsigned char *to = shared_raw(transfer->block, piece.shared);
        if (piece.global != nullptr)
            std::memcpy(to, global_raw(piece.global), piece.bytes);
        else
            for (uint32_t i = 0; i < piece.bytes; ++i)
                to[i] = (unsigned char)(transfer->fill >> 8 * ((piece.shared + i) % 4));
        if (piece.global != nullptr && (transfer->type == TENSOR_MAP_TF32 || transfer->type == TENSOR_MAP_TF32_FTZ))
            round_all(to, piece.bytes);
    }
    transfer->done = true;
    forget(transfer);
    event("bulk copy lands", transfer->site, transfer->barrier - shared_window(), transfer->signal);
    mbarrier_landed(transfer->block, transfer->barrier, transfer->signal, transfer->known, transfer->pieces, transfer->site);
    drop(transfer->known);
    delete transfer;
}

void read_shared(Transfer *transfer)
{
    if (transfer->has_read)
        return;
    for (const Piece &piece : transfer->pieces) {
        const unsigned char *from = shared_raw(transfer->block, piece.shared);
        transfer->data.insert(transfer->data.end(), from, from + piece.bytes);
    }
    transfer->has_read = true;
    event("bulk copy has read", transfer->site);
}

/* Whenever it did read, only a wait tells: to others, that read is one of the thread that waits, at this time. */
void let_go(Transfer *transfer)
{
    read_shared(transfer);
    for (uint32_t chunk : transfer->chunks)
        if (!transfer->let_go) {
            shared_end_read(transfer->block, chunk, 16);
            shared_was_read(self, chunk, 16);
        }
    transfer->let_go = true;
}

void write_global(Transfer *transfer)
{
    const unsigned char *from = transfer->data.data();

    if (transfer->done)
        return;
    for (const Piece &piece : transfer->pieces) {
        unsigned char *to = global_raw(piece.global);
        if (transfer->what == Transfer::store)
            std::memcpy(to, from, piece.bytes);
        else
            for (uint32_t i = 0; i < piece.bytes; i += element_bytes(transfer->type))
                reduce_add(transfer->type, to + i, from + i);
        from += piece.bytes;
    }
    transfer->done = true;
    forget(transfer);
    event("bulk copy has written", transfer->site);
}

/* The next thing that a transfer does. */
void advance(Transfer *transfer)
{
    if (transfer->what == Transfer::load)
        land(transfer);
    else if (!transfer->has_read)
        read_shared(transfer);
    else
        write_global(transfer);
}

/* Of global memory. */
Use use_of(const Transfer *transfer)
{
    return transfer->what == Transfer::load ? Use::read : transfer->what == Transfer::store ? Use::write : Use::atomic;
}

} // namespace

BlockState &state_of(Block *block)
{
    if (block->more == nullptr) {
        BlockState *state = new BlockState();
        const uint32_t threads = (uint32_t)block->threads.size();
        /* What a kernel bounded to its number of threads, one block a multiprocessor, is given. */
        const uint32_t registers = std::min(65536 / threads / 8 * 8, 256u);

        state->warps.resize(block->warps.size());
        state->threads.resize(threads);
        for (WarpState &warp : state->warps)
            warp.registers = registers;
        states.push_back(state);
        block->more = state;
    }
    return *(BlockState *)block->more;
}

BlockState::~BlockState()
{
    for (auto &entry : mbarriers) {
        drop(entry.second.gathered);
        drop(entry.second.last);
    }
    for (WarpState &warp : warps)
        operations_dropped(warp);
    for (ThreadState &thread : threads) {
        for (Transfer *transfer : thread.open)
            delete transfer;
        for (const auto &group : thread.groups)
            for (Transfer *transfer : group)
                delete transfer;
    }
}

void transfer_begin(Transfer *transfer)
{
    const bool load = transfer->what == Transfer::load;

    transfer->thread = self->index;
    transfer->lazy = draw(2) == 0;
    if (load)
        mbarrier_take_signals(transfer->block, transfer->barrier, transfer->site);
    for (uint32_t chunk : transfer->chunks)
        transfer->block != self->block ? shared_remote_begin_write(transfer->block, chunk, 16, transfer->site)
        : load                         ? shared_begin_write(chunk, 16, transfer->site)
                                       : shared_begin_read(self, chunk, 16, transfer->site);
    for (const Piece &piece : transfer->pieces)
        if (piece.global != nullptr)
            global_begin_async(piece.global, piece.bytes, use_of(transfer), transfer->site);
    under_way.push_back(transfer);
    if (load)
        transfer->known = transfer->block == self->block ? publish() : nullptr;
    else
        thread_state().open.push_back(transfer);
    if (draw(3) == 0)
        advance(transfer);
}

void bulk_commit(Site site)
{
    ThreadState &thread = thread_state();

    event("cp.async.bulk.commit_group", site);
    thread.groups.push_back(std::move(thread.open));
    thread.open.clear();
}

void bulk_wait(uint32_t groups, bool read_only, Site site)
{
    ThreadState &thread = thread_state();

    event(read_only ? "cp.async.bulk.wait_group.read" : "cp.async.bulk.wait_group", site, groups);
    for (size_t i = 0; i + groups < thread.groups.size(); ++i)
        for (Transfer *transfer : thread.groups[i]) {
            let_go(transfer);
            if (!read_only)
                write_global(transfer);
        }
    while (!read_only && thread.groups.size() > groups) {
        for (Transfer *transfer : thread.groups.front()) {
            for (const Piece &piece : transfer->pieces)
                global_end_async(piece.global, piece.bytes, use_of(transfer), transfer->site);
            delete transfer;
        }
        thread.groups.pop_front();
    }
}

/* ---- what the engine calls ---- */

bool async_step(bool must)
{
    std::vector<Transfer *> able;

    if (under_way.empty() || (!must && draw(4) != 0))
        return false;
    for (Transfer *transfer : under_way)
        if (must ? transfer->what == Transfer::load : !transfer->lazy)
            able.push_back(transfer);
    if (able.empty())
        return false;
    advance(able[draw((uint32_t)able.size())]);
    return true;
}

uint32_t async_fence_after(Block *block, uint32_t thread, uint32_t clock)
{
    return first_after(state_of(block).threads[thread].fences, clock);
}

void async_fence_global(uint32_t block, uint32_t thread, uint32_t clock)
{
    global_fences[(uint64_t)block << 32 | thread].push_back(clock);
}

uint32_t async_global_fence_after(uint32_t block, uint32_t thread, uint32_t clock)
{
    const auto found = global_fences.find((uint64_t)block << 32 | thread);
    return found == global_fences.end() ? 0 : first_after(found->second, clock);
}

void async_thread_ends(Thread *thread)
{
    if (thread->block->more == nullptr)
        return;
    BlockState &state = state_of(thread->block);
    ThreadState &mine = state.threads[thread->index];
    Site site;

    if (!mine.open.empty())
        report(Kind::misuse, mine.open.front()->site, "%s ends, and this bulk copy is in no committed group", who(thread).c_str());
    for (const auto &group : mine.groups)
        for (const Transfer *transfer : group)
            if (!transfer->let_go)
                report(Kind::pending, transfer->site,
                       "%s ends, and this bulk copy may still read the block's shared memory: wait_group.read comes first",
                       who(thread).c_str());
    if (thread->lane == 0 && products_under_way(state.warps[thread->warp->index], site))
        report(Kind::pending, site, "%s ends, and this product is under way", who(thread).c_str());
}

void async_block_ends(Block *block)
{
    for (size_t i = under_way.size(); i-- > 0;) {
        Transfer *transfer = under_way[i];
        if (transfer->block != block)
            continue;
        if (transfer->what == Transfer::load)
            report(Kind::pending, transfer->site, "block %u ends, and this bulk copy may still write its shared memory",
                   block->index);
        write_global(transfer);
    }
}

void async_block_gone(Block *block)
{
    states.erase(std::remove(states.begin(), states.end(), (BlockState *)block->more), states.end());
    delete (BlockState *)block->more;
    block->more = nullptr;
}

void async_launch_ends()
{
    for (Transfer *transfer : under_way)
        if (transfer->what == Transfer::load) { /* the others belong to their threads */
            drop(transfer->known);
            delete transfer;
        }
    under_way.clear();
    global_fences.clear();
    clusters_launch_ends();
}

} // namespace sim
