// In the order in which ptxas writes the sections of the first one first.
#include "tests/archive/cubins/two.cuh"

#include "tests/archive/cubins/one.cuh"
