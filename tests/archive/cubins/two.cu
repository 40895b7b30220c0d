#include "tests/archive/cubins/two.cuh"
