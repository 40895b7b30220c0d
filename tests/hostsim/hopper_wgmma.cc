/* Products of warpgroups: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions". A warp's share is its own 16
 * rows; each warp of a warpgroup issues, commits and waits for itself, as the hardware lets it. */
#include <cstring>

#include "tests/hostsim/hopper_matrix.h"
#include "tests/hostsim/hopper_state.h"
#include "tests/hostsim/numbers.h"
#include "tests/hostsim/tensor_core.h"

namespace sim
{

/* Registers that products under way write. Meanwhile the threads see POISON there. */
struct Accumulator {
    float *lane[32];
    uint32_t n, under_way;
    std::vector<uint32_t> values; /* [16][n] */
};

struct Operation {
    WarpgroupProduct product;
    Accumulator *accumulator;
    bool has_read;
    std::vector<uint32_t> a, b;    /* [16][k], [k][n]; a from registers is there from the beginning */
    const uint32_t *registers[32]; /* that a is from, and what was in them */
    uint32_t taken[32][4];
    std::vector<uint32_t> chunks;
    Site site;
};

namespace
{

constexpr uint32_t POISON = 0x7fbadbadu; /* a signalling NaN */

uint32_t depth(const WarpgroupProduct &product)
{
    return product.element == Element::tf32 ? 8 : 16;
}

uint32_t bytes_of(const WarpgroupProduct &product)
{
    return product.element == Element::tf32 ? 4 : 2;
}

uint32_t first_row(const Warp *warp)
{
    return warp->index % 4 * 16;
}

/* ---- operands ---- */

/* The chunks of 16 bytes that rows [from, to) of an operand lie in. */
void add_chunks(std::vector<uint32_t> &chunks, uint64_t descriptor, bool mn_major, const WarpgroupProduct &product, uint32_t from,
                uint32_t to)
{
    const Matrix matrix = matrix_of(descriptor);
    const uint32_t bytes = bytes_of(product), per_chunk = 16 / bytes;

    for (uint32_t i = from; i < to; i += mn_major ? per_chunk : 1)
        for (uint32_t k = 0; k < depth(product); k += mn_major ? 1 : per_chunk)
            chunks.push_back(matrix_address(matrix, mn_major, bytes, i, k) & ~15u);
}

/* Elements of an operand's chunks, from `chunk` on as add_chunks has put them there, to their places: element (i, k) of its rows
 * goes to to[i * of_row + k * of_column]. Returns the chunk after the last. */
const uint32_t *spread(Block *block, const uint32_t *chunk, bool mn_major, const WarpgroupProduct &product, uint32_t rows,
                       uint32_t of_row, uint32_t of_column, uint32_t *to)
{
    const uint32_t bytes = bytes_of(product), per_chunk = 16 / bytes, step = mn_major ? of_row : of_column;

    for (uint32_t i = 0; i < rows; i += mn_major ? per_chunk : 1)
        for (uint32_t k = 0; k < depth(product); k += mn_major ? 1 : per_chunk) {
            const char *from = (const char *)shared_raw(block, *chunk++);
            uint32_t *place = to + i * of_row + k * of_column;
            for (uint32_t e = 0; e < per_chunk; ++e, place += step)
                if (bytes == 2) {
                    uint16_t half;
                    std::memcpy(&half, from + 2 * e, sizeof half);
                    *place = half;
                } else {
                    std::memcpy(place, from + 4 * e, sizeof *place);
                }
        }
    return chunk;
}

void read_operands(const Warp *warp, Operation *operation)
{
    const WarpgroupProduct &product = operation->product;
    const uint32_t k = depth(product), n = product.n, *chunk = operation->chunks.data();

    if (operation->has_read)
        return;
    operation->has_read = true;
    if (product.a == nullptr) {
        operation->a.resize(16 * k);
        chunk = spread(warp->block, chunk, product.transpose_a, product, 16, k, 1, operation->a.data());
    }
    operation->b.resize(k * n);
    spread(warp->block, chunk, product.transpose_b, product, n, 1, n, operation->b.data());
}

/* As mma's operand a. */
void take_registers(Operation *operation, void *const arguments[32])
{
    const uint32_t k = depth(operation->product);

    operation->a.assign(16 * k, 0);
    for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t *r = ((const WarpgroupProduct *)arguments[lane])->a, g = lane / 4, q = lane % 4;
        operation->registers[lane] = r;
        std::memcpy(operation->taken[lane], r, sizeof operation->taken[lane]);
        for (uint32_t i = 0; i < 4; ++i) {
            uint32_t *to = &operation->a[(g + i % 2 * 8) * k + i / 2 * (k / 2)];
            if (k == 8) {
                to[q] = r[i];
            } else {
                to[2 * q] = r[i] & 0xffff;
                to[2 * q + 1] = r[i] >> 16;
            }
        }
    }
}

/* Operand a is taken when the product begins; a GPU may read its registers until the product is done. */
void check_registers(const Operation *operation)
{
    for (uint32_t lane = 0; lane < 32; ++lane)
        if (std::memcmp(operation->registers[lane], operation->taken[lane], sizeof operation->taken[lane]) != 0)
            report(Kind::pending, operation->site, "lane %u wrote a register of operand a while this product was under way", lane);
}

void negate(std::vector<uint32_t> &elements, const WarpgroupProduct &product)
{
    for (uint32_t &value : elements)
        value ^= bytes_of(product) == 2 ? 0x8000u : 0x80000000u;
}

/* ---- accumulators ---- */

/* Where the i-th register of a lane lies in the warp's 16 rows. */
uint32_t place(uint32_t lane, uint32_t i, uint32_t n)
{
    return (lane / 4 + i / 2 % 2 * 8) * n + i / 4 * 8 + 2 * (lane % 4) + i % 2;
}

Accumulator *accumulator_of(WarpState &state, void *const arguments[32], uint32_t n, Site site)
{
    float *first = ((const WarpgroupProduct *)arguments[0])->d;

    for (auto &entry : state.accumulators) {
        if (entry.first == first && entry.second->n == n)
            return entry.second;
        if (first < entry.first + entry.second->n / 2 && entry.first < first + n / 2)
            report(Kind::pending, site, "a product of another shape writes registers that products under way write");
    }
    Accumulator *accumulator = new Accumulator();
    accumulator->n = n;
    accumulator->values.resize(16 * n);
    for (uint32_t lane = 0; lane < 32; ++lane) {
        float *d = accumulator->lane[lane] = ((const WarpgroupProduct *)arguments[lane])->d;
        for (uint32_t i = 0; i < n / 2; ++i) {
            accumulator->values[place(lane, i, n)] = bits_from(d[i]);
            std::memcpy(&d[i], &POISON, 4);
        }
    }
    state.accumulators[first] = accumulator;
    return accumulator;
}

void deliver(WarpState &state, Accumulator *accumulator, Site site)
{
    for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t i = 0; i < accumulator->n / 2; ++i) {
            float *d = &accumulator->lane[lane][i];
            if (bits_from(*d) != POISON)
                report(Kind::pending, site, "lane %u wrote register %u of an accumulator while this product was under way", lane,
                       i);
            std::memcpy(d, &accumulator->values[place(lane, i, accumulator->n)], 4);
        }
    state.accumulators.erase(accumulator->lane[0]);
    delete accumulator;
}

/* ---- instructions ---- */

/* Registers that a thread touched are a product's again after a wgmma.fence. */
void check_touched(const WarpState &state, void *const arguments[32], Site site)
{
    for (uint32_t lane = 0; lane < 32; ++lane) {
        const WarpgroupProduct &product = *(const WarpgroupProduct *)arguments[lane];
        const char *d = (const char *)product.d, *a = (const char *)product.a;
        for (const Touched &touched : state.touched[lane]) {
            const bool of_d = d < touched.end && touched.first < d + 2 * product.n;
            if (of_d || (a != nullptr && a < touched.end && touched.first < a + 16))
                report(Kind::misuse, site, "wgmma without wgmma.fence since lane %u touched registers of its %s", lane,
                       of_d ? "result" : "operand a");
        }
    }
}

void check(const Warp *warp, const WarpState &state, void *const arguments[32], Site site)
{
    const WarpgroupProduct &product = *(const WarpgroupProduct *)arguments[0];

    if (warp->block->threads.size() < warp->index / 4 * 128 + 128)
        report(Kind::misuse, site, "warp %u is in no whole warpgroup", warp->index);
    if (!state.fenced)
        report(Kind::misuse, site, "warp %u: wgmma without wgmma.fence since %s", warp->index,
               "its start or its last wait, after which registers may have been touched");
    check_touched(state, arguments, site);
    for (int lane = 1; lane < 32; ++lane) {
        const WarpgroupProduct &other = *(const WarpgroupProduct *)arguments[lane];
        if (other.b_descriptor != product.b_descriptor || (product.a == nullptr && other.a_descriptor != product.a_descriptor) ||
            other.accumulate != product.accumulate)
            report(Kind::divergence, site, "lanes of warp %u have different operands of one wgmma", warp->index);
    }
    if (!matrix_of(product.b_descriptor).right || (product.a == nullptr && !matrix_of(product.a_descriptor).right))
        report(Kind::misuse, site, "a matrix descriptor has bits outside of its fields");
}

void perform_product(Warp *warp, void *const arguments[32], Site site)
{
    WarpState &state = state_of(warp->block).warps[warp->index];
    const WarpgroupProduct &product = *(const WarpgroupProduct *)arguments[0];

    check(warp, state, arguments, site);
    Operation *operation = new Operation();
    operation->product = product;
    operation->site = site;
    state.open.push_back(operation);
    operation->accumulator = accumulator_of(state, arguments, product.n, site);
    ++operation->accumulator->under_way;
    if (product.a != nullptr)
        take_registers(operation, arguments);
    else
        add_chunks(operation->chunks, product.a_descriptor, product.transpose_a, product, first_row(warp), first_row(warp) + 16);
    add_chunks(operation->chunks, product.b_descriptor, product.transpose_b, product, 0, product.n);
    for (uint32_t chunk : operation->chunks)
        shared_begin_read(&warp->thread[0], chunk, 16, site);
    if (draw(2) == 0)
        read_operands(warp, operation);
}

void complete(Warp *warp, WarpState &state, Operation *operation)
{
    const WarpgroupProduct &product = operation->product;
    Accumulator *accumulator = operation->accumulator;

    read_operands(warp, operation);
    if (product.a != nullptr)
        check_registers(operation);
    for (uint32_t chunk : operation->chunks)
        shared_end_read(warp->block, chunk, 16);
    if (product.negate_a)
        negate(operation->a, product);
    if (product.negate_b)
        negate(operation->b, product);
    if (!product.accumulate)
        accumulator->values.assign(accumulator->values.size(), 0);
    tensor_core(product.element, 16, product.n, operation->a.data(), operation->b.data(), accumulator->values.data());
    if (--accumulator->under_way == 0)
        deliver(state, accumulator, operation->site);
}

struct Wait {
    uint32_t groups;
};

/* The reads of shared memory are over for all lanes alike: an event of lane 0's that the others know of. */
void reads_are_over(Warp *warp, const std::vector<uint32_t> &chunks)
{
    Thread *first = &warp->thread[0];

    ++first->clock;
    for (uint32_t chunk : chunks)
        shared_was_read(first, chunk, 16);
    Known over = {1, nullptr, std::vector<uint32_t>(warp->block->threads.size(), 0)};
    over.clock[first->index] = first->clock++;
    for (int lane = 1; lane < 32; ++lane)
        learn(&warp->thread[lane], &over);
}

void perform_wait(Warp *warp, void *const arguments[32], Site)
{
    WarpState &state = state_of(warp->block).warps[warp->index];
    std::vector<uint32_t> chunks;

    state.fenced = false;
    while (state.groups.size() > ((const Wait *)arguments[0])->groups) {
        for (Operation *&operation : state.groups.front()) {
            complete(warp, state, operation);
            chunks.insert(chunks.end(), operation->chunks.begin(), operation->chunks.end());
            delete operation;
            operation = nullptr; /* the next one may end in a report */
        }
        state.groups.pop_front();
    }
    if (!chunks.empty())
        reads_are_over(warp, chunks);
}

void perform_fence(Warp *warp, void *const[32], Site)
{
    WarpState &state = state_of(warp->block).warps[warp->index];

    state.fenced = true;
    for (std::vector<Touched> &touched : state.touched)
        touched.clear();
}

void perform_commit(Warp *warp, void *const[32], Site)
{
    WarpState &state = state_of(warp->block).warps[warp->index];

    state.groups.push_back(std::move(state.open));
    state.open.clear();
}

const Collective PRODUCT = {"wgmma.mma_async", perform_product}, WAIT = {"wgmma.wait_group", perform_wait},
                 FENCE = {"wgmma.fence", perform_fence}, COMMIT = {"wgmma.commit_group", perform_commit};

} // namespace

void wgmma(const WarpgroupProduct &product, Site site)
{
    collective(PRODUCT, const_cast<WarpgroupProduct *>(&product), site);
}

void wgmma_fence(Site site)
{
    collective(FENCE, nullptr, site);
}

void wgmma_commit(Site site)
{
    collective(COMMIT, nullptr, site);
}

void wgmma_wait(uint32_t groups, Site site)
{
    Wait argument = {groups};

    collective(WAIT, &argument, site);
}

void wgmma_hold(const void *registers, uint32_t count, Site site)
{
    WarpState &state = state_of(self->warp->block).warps[self->warp->index];
    const char *first = (const char *)registers, *end = first + 4 * count;
    std::vector<Touched> &touched = state.touched[self->lane];
    bool known = false;

    for (const Touched &each : touched)
        known = known || (each.first <= first && end <= each.end);
    if (!known)
        touched.push_back({first, end});

    for (const auto &entry : state.accumulators) {
        const char *d = (const char *)entry.second->lane[self->lane];
        if (d < end && first < d + 2 * entry.second->n)
            report(Kind::pending, site, "registers are held for use that a product under way writes");
    }
    auto check = [&](const std::vector<Operation *> &group) {
        for (const Operation *operation : group) {
            const char *a =
                operation != nullptr && operation->product.a != nullptr ? (const char *)operation->registers[self->lane] : nullptr;
            if (a != nullptr && a < end && first < a + 16)
                report(Kind::pending, site, "registers are held for use that a product under way reads");
        }
    };
    check(state.open);
    for (const auto &group : state.groups)
        check(group);
}

bool products_under_way(const WarpState &warp, Site &site)
{
    for (const auto &group : warp.groups)
        if (!group.empty()) {
            site = group.front()->site;
            return true;
        }
    if (!warp.open.empty())
        site = warp.open.front()->site;
    return !warp.open.empty();
}

void operations_dropped(WarpState &warp)
{
    for (Operation *operation : warp.open)
        delete operation;
    for (const auto &group : warp.groups)
        for (Operation *operation : group)
            delete operation;
    for (const auto &entry : warp.accumulators)
        delete entry.second;
}

} // namespace sim
