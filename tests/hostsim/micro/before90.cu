/* The micro-kernels of device.h as they are for a GPU before sm_90: where a primitive has two texts, here is the other one. A GPU of compute
 * capability 9.0 runs these too. */
#include "tests/hostsim/micro/sm80.cu"
