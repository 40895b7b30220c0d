/* What Hopper (sm_90a) adds to the machine of device.h: mbarriers, the copy engine for bulk data and tensors, clusters,
 * the registers that warpgroups pass to each other, and, in wgmma.h, matrix products of a warpgroup. As there, every
 * inline function is one PTX instruction (or the loop round one that waits), and its comment in ptx/hopper_impl.h names
 * the instruction's section in the PTX ISA. What PTX wants as an immediate is a template parameter.
 *
 * Two ways lead to shared memory: the generic proxy (ordinary loads and stores, ldmatrix, cp.async) and the async proxy
 * (bulk copies, wgmma). Data that one wrote is not seen by the other by itself: written with stores, it takes a
 * fence_async_shared by each writer and then a barrier before a bulk copy or wgmma may read it; written by a bulk load,
 * the mbarrier's wait is enough. */
#ifndef GLINT_DEVICE_HOPPER_H
#define GLINT_DEVICE_HOPPER_H

#include "lib/device/device.h"
#include "lib/device/tensor_map.h"

/* Cache hints of copies, as createpolicy makes them ("Cache Eviction Priority Hints"). */
#define GLINT_L2_EVICT_NORMAL 0x1000000000000000ull
#define GLINT_L2_EVICT_FIRST 0x12f0000000000000ull
#define GLINT_L2_EVICT_LAST 0x14f0000000000000ull

#include "hopper_impl.h"
#include "lib/device/wgmma.h"

#endif
