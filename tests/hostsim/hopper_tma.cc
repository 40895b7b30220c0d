/* Tiles of tensors and runs of bytes: PTX ISA, "cp.async.bulk.tensor", "cp.async.bulk" and their reductions. */
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/hostsim/hopper.h"
#include "tests/hostsim/hopper_tensor_map.h"
#include "tests/hostsim/numbers.h"

namespace sim
{

namespace
{

const TensorMap &map_of(const struct tensor_map *map, int rank, const char *what, Site site)
{
    const TensorMap &made = *(const TensorMap *)(const void *)map;

    if (made.magic != TENSOR_MAP_MAGIC)
        report(Kind::misuse, site, "%s of something that is no tensor map", what);
    if (made.rank != rank)
        report(Kind::misuse, site, "%s of %d dimensions through a tensor map of %u", what, rank, made.rank);
    if (made.interleave != TENSOR_MAP_NO_INTERLEAVE)
        report(Kind::misuse, site, "%s: interleaved tensors are not simulated", what);
    return made;
}

/* Shared addresses of elements that lie one after another: with a swizzle, bits 4 (5, 6) are exclusive-ored with bits 7
 * (8, 9). */
uint32_t swizzled(uint32_t address, int swizzle)
{
    return address ^ (address >> 7 & ((1u << swizzle) - 1)) << 4;
}

/* What a tensor map that fills with NaN puts beyond the ends, in every type. */
uint32_t fill_of(const TensorMap &map)
{
    return map.fill == TENSOR_MAP_FILL_ZERO ? 0 : 0x7ff77ff7u;
}

/* A row of the box along dimension 0: whole chunks of 16 bytes in shared memory, of which [first, end) bytes are in the
 * tensor. What lies outside is not loaded, to the byte; but a store or reduction writes every chunk whole that begins
 * inside: bytes between the end of a row and the next multiple of 16 belong to the copy engine. */
void add_row(Transfer *transfer, const TensorMap &map, uint32_t shared, uint32_t bytes, unsigned char *global, int64_t first,
             int64_t end)
{
    const bool load = transfer->what == Transfer::load;

    for (uint32_t at = 0; at < bytes; at += 16) {
        const uint32_t chunk = swizzled(shared + at, map.swizzle);
        const int64_t low = std::max<int64_t>(first, at), high = load ? std::min<int64_t>(end, at + 16) : at < end ? at + 16 : 0;
        transfer->chunks.push_back(chunk);
        if (low >= high) {
            if (load)
                transfer->pieces.push_back({chunk, 16, nullptr});
            continue;
        }
        if (load && low > at)
            transfer->pieces.push_back({chunk, (uint32_t)(low - at), nullptr});
        transfer->pieces.push_back({chunk + (uint32_t)(low - at), (uint32_t)(high - low), global + low});
        if (load && high < at + 16)
            transfer->pieces.push_back({chunk + (uint32_t)(high - at), (uint32_t)(at + 16 - high), nullptr});
    }
}

/* Every row of the box from at[] on; the rows of dimension 0 lie in shared memory one after another, as far apart as
 * the swizzle's pattern is wide. */
void add_box(Transfer *transfer, const TensorMap &map, uint32_t shared, const int32_t at[], Site site)
{
    const uint32_t element = element_bytes(map.type), inner = map.box[0] * element;
    const uint32_t pitch = map.swizzle == TENSOR_MAP_NO_SWIZZLE ? inner : 16u << map.swizzle;
    const bool load = transfer->what == Transfer::load;
    uint32_t count[5] = {1, 1, 1, 1, 1}, index[5] = {0, 0, 0, 0, 0}, rows = 1;

    if (shared % 128 != 0)
        report(Kind::alignment, site, "a tile at shared address %u; a multiple of 128 would be right", shared - shared_window());
    if ((int64_t)at[0] * element % 16 != 0)
        report(Kind::misuse, site, "a tile begins at element %d along dimension 0, %lld bytes; a multiple of 16 would be right",
               at[0], (long long)at[0] * element);
    for (int i = 0; i < map.rank; ++i)
        if (!load && at[i] < 0)
            report(Kind::misuse, site, "a tile is stored to %d along dimension %d; only loads may begin before the tensor", at[i],
                   i);
    for (int i = 1; i < map.rank; ++i)
        rows *= count[i] = (map.box[i] + map.steps[i] - 1u) / map.steps[i];
    for (uint32_t row = 0; row < rows; ++row, shared += pitch) {
        bool inside = true;
        unsigned char *global = map.address + (int64_t)at[0] * element;
        for (int i = 1; i < map.rank; ++i) {
            const int64_t place = (int64_t)at[i] + (int64_t)index[i] * map.steps[i];
            inside &= place >= 0 && place <= map.last[i];
            global += place * (int64_t)map.strides[i - 1];
        }
        const int64_t first = inside ? std::max<int64_t>(0, -(int64_t)at[0] * element) : 0;
        const int64_t end = inside ? ((int64_t)map.last[0] + 1 - at[0]) * element : 0;
        add_row(transfer, map, shared, inner, global, first, end);
        transfer->signal += inner;
        for (int i = 1; i < map.rank && ++index[i] == count[i]; ++i)
            index[i] = 0;
    }
}

float add_f32(float a, float b)
{
    const float sum = a + b;

    return std::isnan(sum) ? float_from(0x7fffffffu) : sum;
}

Transfer *transfer_new(Transfer::What what, Site site)
{
    Transfer *transfer = new Transfer();

    transfer->what = what;
    transfer->block = self->block;
    transfer->site = site;
    return transfer;
}

/* A report ends the launch and leaves the transfer behind, which is small. */
void add_bytes(Transfer *transfer, uint32_t shared, const void *global, uint32_t bytes, Site site)
{
    if (shared % 16 != 0 || (uintptr_t)global % 16 != 0 || bytes % 16 != 0)
        report(Kind::alignment, site, "%s: a bulk copy of %u bytes, shared address %u, global %p: multiples of 16 would be right",
               "thread", bytes, shared - shared_window(), global);
    for (uint32_t at = 0; at < bytes; at += 16) {
        transfer->chunks.push_back(shared + at);
        transfer->pieces.push_back({shared + at, 16, (unsigned char *)const_cast<void *>(global) + at});
    }
}

} // namespace

void tensor_load(uint32_t shared, const struct tensor_map *map, int rank, const int32_t at[], uint32_t barrier, Site site)
{
    tensor_load_to(self->block, shared, map, rank, at, barrier, site);
}

void tensor_load_to(Block *block, uint32_t shared, const struct tensor_map *map, int rank, const int32_t at[], uint32_t barrier,
                    Site site)
{
    const TensorMap &made = map_of(map, rank, "a tensor load", site);
    Transfer *transfer = transfer_new(Transfer::load, site);

    event("cp.async.bulk.tensor load", site, shared - shared_window(), barrier - shared_window());
    transfer->block = block;
    transfer->barrier = barrier;
    transfer->fill = fill_of(made);
    transfer->type = made.type;
    add_box(transfer, made, shared, at, site);
    transfer_begin(transfer);
}

void tensor_store(const struct tensor_map *map, int rank, const int32_t at[], uint32_t shared, bool reduce, Site site)
{
    const TensorMap &made = map_of(map, rank, "a tensor store", site);
    Transfer *transfer = transfer_new(reduce ? Transfer::reduce : Transfer::store, site);

    event(reduce ? "cp.reduce.async.bulk.tensor" : "cp.async.bulk.tensor store", site, shared - shared_window());
    transfer->type = made.type;
    add_box(transfer, made, shared, at, site);
    transfer_begin(transfer);
}

void bulk_load(uint32_t shared, const void *global, uint32_t bytes, uint32_t barrier, Site site)
{
    Transfer *transfer = transfer_new(Transfer::load, site);

    event("cp.async.bulk load", site, shared - shared_window(), barrier - shared_window());
    transfer->barrier = barrier;
    transfer->signal = bytes;
    transfer->type = TENSOR_MAP_U8;
    add_bytes(transfer, shared, global, bytes, site);
    transfer_begin(transfer);
}

void bulk_store(void *global, uint32_t shared, uint32_t bytes, int reduce_type, Site site)
{
    Transfer *transfer = transfer_new(reduce_type < 0 ? Transfer::store : Transfer::reduce, site);

    event(reduce_type < 0 ? "cp.async.bulk store" : "cp.reduce.async.bulk", site, shared - shared_window(), bytes);
    transfer->type = reduce_type;
    add_bytes(transfer, shared, global, bytes, site);
    transfer_begin(transfer);
}

void reduce_add(int type, unsigned char *to, const unsigned char *value)
{
    const uint32_t bytes = element_bytes(type);
    uint64_t a = 0, b = 0;

    std::memcpy(&a, to, bytes);
    std::memcpy(&b, value, bytes);
    switch (type) {
    case TENSOR_MAP_BF16: a = fma_bf16((uint32_t)a, 0x3f80, (uint32_t)b); break;
    case TENSOR_MAP_F16: a = fma_f16((uint32_t)a, 0x3c00, (uint32_t)b); break;
    case TENSOR_MAP_F32: a = bits_from(add_f32(float_from((uint32_t)a), float_from((uint32_t)b))); break;
    case TENSOR_MAP_F32_FTZ: a = bits_from(add_flushed(float_from((uint32_t)a), float_from((uint32_t)b))); break;
    default: a += b; break;
    }
    std::memcpy(to, &a, bytes);
}

} // namespace sim
