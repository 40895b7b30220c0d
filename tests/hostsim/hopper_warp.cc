/* What else warps do on Hopper: PTX ISA, "elect.sync", "stmatrix", "setmaxnreg"; and a thread's "fence.proxy.async". */
#include <cstring>

#include "tests/hostsim/hopper_state.h"
#include "tests/hostsim/state.h"

namespace sim
{

namespace
{

/* Any lane may be the one, but always the same. */
void perform_election(Warp *warp, void *const arguments[32], Site)
{
    uint32_t &elected = state_of(warp->block).warps[warp->index].elected;

    if (elected == 0)
        elected = 1 + draw(32);
    for (uint32_t lane = 0; lane < 32; ++lane)
        *(bool *)arguments[lane] = lane + 1 == elected;
}

struct Rows {
    const uint32_t *r;
    uint32_t address;
};

template <bool transposed> void perform_store(Warp *warp, void *const arguments[32], Site site)
{
    uint16_t matrix[4][8][8];
    uint32_t rows[32];

    for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t g = lane / 4, q = 2 * (lane % 4), pair = ((const Rows *)arguments[lane])->r[i];
            (transposed ? matrix[i][q][g] : matrix[i][g][q]) = (uint16_t)pair;
            (transposed ? matrix[i][q + 1][g] : matrix[i][g][q + 1]) = (uint16_t)(pair >> 16);
        }
    for (uint32_t lane = 0; lane < 32; ++lane) {
        rows[lane] = ((const Rows *)arguments[lane])->address;
        std::memcpy(shared_as(&warp->thread[lane], rows[lane], 16, Use::write, site), matrix[lane / 8][lane % 8], 16);
    }
    if (counting)
        cost_matrix_rows("stmatrix", rows, site);
}

struct Registers {
    uint32_t count, given; /* given: how often some were, when these were not enough */
    bool take, enough;
};

void perform_registers(Warp *warp, void *const arguments[32], Site site)
{
    BlockState &state = state_of(warp->block);
    WarpState &mine = state.warps[warp->index];
    const Registers &asked = *(const Registers *)arguments[0];
    const uint32_t wanted = asked.count;

    if (wanted % 8 != 0 || wanted < 24 || wanted > 256)
        report(Kind::misuse, site, "setmaxnreg of %u registers; a multiple of 8 from 24 to 256 would be right", wanted);
    if (asked.take ? wanted < mine.registers : wanted > mine.registers)
        report(Kind::misuse, site, "setmaxnreg%s to %u registers, and warp %u has %u", asked.take ? ".inc" : ".dec", wanted,
               warp->index, mine.registers);
    const bool enough = !asked.take || 32 * (wanted - mine.registers) <= state.free_registers;
    if (enough) {
        state.free_registers += 32 * mine.registers - 32 * wanted;
        mine.registers = wanted;
    }
    for (int lane = 0; lane < 32; ++lane) {
        ((Registers *)arguments[lane])->enough = enough;
        ((Registers *)arguments[lane])->given = state.registers_given;
    }
    if (!asked.take) {
        ++state.registers_given;
        for (Thread *thread : state.want_registers)
            wake(thread);
        state.want_registers.clear();
    }
}

const Collective ELECT = {"elect.sync", perform_election}, STORE = {"stmatrix", perform_store<false>},
                 STORE_TRANSPOSED = {"stmatrix.trans", perform_store<true>}, REGISTERS = {"setmaxnreg", perform_registers};

} // namespace

bool elect_one(Site site)
{
    bool elected = false;

    collective(ELECT, &elected, site);
    return elected;
}

void store_matrices(uint32_t row, const uint32_t r[4], bool transposed, Site site)
{
    Rows argument = {r, row};

    collective(transposed ? STORE_TRANSPOSED : STORE, &argument, site);
}

void set_registers(uint32_t registers, bool take, Site site)
{
    Registers argument = {registers, 0, take, false};
    const BlockState &state = state_of(self->block);

    for (;;) {
        collective(REGISTERS, &argument, site);
        if (argument.enough)
            return;
        if (argument.given == state.registers_given) {
            state_of(self->block).want_registers.push_back(self);
            wait("setmaxnreg.inc", site, registers);
        }
    }
}

/* The clock goes on, so that a write after the fence is not taken for one before it. */
void fence_async(Site site)
{
    event("fence.proxy.async", site);
    thread_state().fences.push_back(self->clock++);
    mbarriers_fenced();
}

void fence_async_global(Site site)
{
    event("fence.proxy.async.global", site);
    async_fence_global(self->block->index, self->index, self->clock++);
}

} // namespace sim
