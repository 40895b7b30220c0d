#!/bin/sh
# train_step_test.sh TRAIN_STEP.PY LIBRARY: two training runs of a tiny model on the CPU, by Glint and by PyTorch, with
# the system's Python, which has the package `torch` or has not.
command -v python3 >/dev/null 2>&1 && python3 -c 'import torch' 2>/dev/null || {
    echo "skipped: python3 has no package torch"
    exit 0
}
GLINT_LIBRARY=$(readlink -f "$2")
PYTHONPATH=$(dirname "$1")
OMP_NUM_THREADS=1
export GLINT_LIBRARY PYTHONPATH OMP_NUM_THREADS
tiny="--device cpu --layers 2 --dim 128 --heads 4:2 --head-dim 64 --ffn 192 --vocab 64 --batch 2 --steps 3"
# shellcheck disable=SC2086 # a list of words
python3 "$1" $tiny --dtype f32 --seqlens 1,97 && python3 "$1" $tiny --dtype bf16 --seqlens 97
