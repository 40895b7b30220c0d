/* Tensor maps as the simulator makes and reads them. */
#ifndef GLINT_HOSTSIM_HOPPER_TENSOR_MAP_H
#define GLINT_HOSTSIM_HOPPER_TENSOR_MAP_H

#include <cstdint>

#include "lib/device/tensor_map.h"

namespace sim
{

/* What is in a tensor map; the hardware's own form is not known, and no kernel looks inside. */
struct TensorMap {
    uint32_t magic;
    uint8_t rank, type, swizzle, fill;
    uint8_t interleave, steps[5];
    uint16_t box[5];
    unsigned char *address;
    uint32_t last[5];    /* dimensions, less one */
    uint64_t strides[4]; /* bytes */
};
static_assert(sizeof(TensorMap) <= sizeof(struct tensor_map), "a tensor map has 128 bytes");

constexpr uint32_t TENSOR_MAP_MAGIC = 0x50414d54u;

/* cuTensorMapEncodeTiled: 0, or the driver's CUDA_ERROR_INVALID_VALUE where the driver (580, recorded in
 * tests/hostsim/micro) gives it. */
int encode_tiled(struct tensor_map *map, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,
                 const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int l2, int fill);

uint32_t element_bytes(int type);

} // namespace sim

#endif
