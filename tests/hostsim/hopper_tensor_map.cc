#include "tests/hostsim/hopper_tensor_map.h"

#include <cstring>

namespace sim
{

namespace
{

constexpr int INVALID_VALUE = 1;

/* From the largest box that the driver takes: that of a multiprocessor's shared memory. */
constexpr uint64_t MOST_BOX_BYTES = 228 * 1024;

bool is_float(int type)
{
    return type >= TENSOR_MAP_F16;
}

} // namespace

uint32_t element_bytes(int type)
{
    static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

    return bytes[type];
}

int encode_tiled(struct tensor_map *map, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,
                 const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int l2, int fill)
{
    TensorMap made;

    if (type < 0 || type > TENSOR_MAP_TF32_FTZ || rank < 1 || rank > TENSOR_MAP_RANK || interleave < 0 || interleave > 2 ||
        swizzle < 0 || swizzle > TENSOR_MAP_SWIZZLE_128B || l2 < 0 || l2 > TENSOR_MAP_L2_256B || fill < 0 || fill > 1)
        return INVALID_VALUE;
    const uint64_t unit = interleave == TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
    if ((uintptr_t)map % 64 != 0 || (uintptr_t)address % unit != 0 || (interleave != TENSOR_MAP_NO_INTERLEAVE && rank < 3) ||
        (fill == TENSOR_MAP_FILL_NAN && !is_float(type)))
        return INVALID_VALUE;
    std::memset(&made, 0, sizeof made);
    made.magic = TENSOR_MAP_MAGIC;
    made.rank = (uint8_t)rank;
    made.type = (uint8_t)type;
    made.swizzle = (uint8_t)swizzle;
    made.fill = (uint8_t)fill;
    made.interleave = (uint8_t)interleave;
    made.address = (unsigned char *)address;
    uint64_t box_bytes = element_bytes(type);
    for (uint32_t i = 0; i < rank; ++i) {
        if (dims[i] == 0 || dims[i] > UINT64_C(1) << 32 || box[i] == 0 || box[i] > 256 || steps[i] == 0 || steps[i] > 8)
            return INVALID_VALUE;
        made.last[i] = (uint32_t)(dims[i] - 1);
        made.box[i] = (uint16_t)box[i];
        made.steps[i] = (uint8_t)steps[i];
        box_bytes *= (box[i] + steps[i] - 1) / steps[i];
        if (i + 1 < rank) {
            if (strides[i] % unit != 0 || strides[i] >= UINT64_C(1) << 40)
                return INVALID_VALUE;
            made.strides[i] = strides[i];
        }
    }
    const uint32_t inner = box[0] * element_bytes(type);
    if (interleave == TENSOR_MAP_NO_INTERLEAVE && (inner % 16 != 0 || (swizzle != TENSOR_MAP_NO_SWIZZLE && inner > 16u << swizzle)))
        return INVALID_VALUE;
    if (box_bytes > MOST_BOX_BYTES)
        return INVALID_VALUE;
    std::memset(map, 0, sizeof *map);
    std::memcpy(map, &made, sizeof made);
    return 0;
}

} // namespace sim
