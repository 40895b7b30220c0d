#!/bin/sh
# transformers_test.sh TEST_TRANSFORMERS.PY LIBRARY: the tests of the registration, with the system's Python, which has the packages `torch`
# and `transformers` or has not.
command -v python3 >/dev/null 2>&1 && python3 -c 'import torch, transformers.masking_utils' 2>/dev/null || {
    echo "skipped: python3 has no packages torch and transformers"
    exit 0
}
GLINT_LIBRARY=$(readlink -f "$2")
OMP_NUM_THREADS=1
export GLINT_LIBRARY OMP_NUM_THREADS
python3 "$1"
