#include "tests/archive/cubins/one.cuh"
