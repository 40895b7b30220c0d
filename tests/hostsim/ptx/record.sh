#!/bin/bash
# Records what a GPU gives for every instruction of kinds.lua: golden/kinds.txt, which the test kinds_recorded compares
# with.
#     record.sh build OUT          compiles everything into the folder OUT: needs nvcc, g++ and Lua, no GPU
#     record.sh run OUT GOLDEN     writes GOLDEN/kinds.txt, and says which lines are not kinds.lua's own: needs OUT,
#                                  a GPU of compute capability 9.0
set -euo pipefail

build() {
    local lua root out
    mkdir -p "$1"
    out=$(cd "$1" && pwd)
    root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
    lua=$(command -v lua5.4 || command -v lua || { echo 'record.sh: no Lua (apt install lua5.4)' >&2 && exit 1; })
    cp "${BASH_SOURCE[0]}" "$out/"
    cd "$root"
    mkdir -p "$out/tests/hostsim/ptx"
    "$lua" tests/hostsim/ptx/kinds.lua ptx >"$out/kinds.ptx"
    "$lua" tests/hostsim/ptx/kinds.lua table >"$out/tests/hostsim/ptx/kinds_table.h"
    "$lua" tests/hostsim/ptx/kinds.lua expected >"$out/kinds_expected.txt"
    nvcc -cubin -arch=sm_90a -o "$out/kinds.cubin" "$out/kinds.ptx"
    g++ -std=c++17 -O2 -Wall -Wextra -I. -I"$out" tests/hostsim/micro/record.cc tests/hostsim/ptx/kinds.cc tests/hostsim/micro/cases.cc \
        -o "$out/record" -ldl -static-libstdc++ -static-libgcc
}

run() {
    local driver
    driver=$(cat /proc/driver/nvidia/version 2>/dev/null | grep -o '[0-9]*\.[0-9.]*' | head -1 || true)
    driver=${driver:-$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)}
    mkdir -p "$2"
    {
        echo "# What the instructions of tests/hostsim/ptx/kinds.lua gave on the GPU below, driver $driver, $(date -u +%Y-%m-%d); by tests/hostsim/ptx/record.sh."
        "$1/record" kinds "$1/kinds.cubin" ${RAW:+"$RAW"}
    } >"$2/kinds.txt"
    grep -v '^#' "$2/kinds.txt" | diff "$1/kinds_expected.txt" - && echo "all lines are those of kinds.lua"
}

case ${1-} in
build) build "$2" ;;
run) run "$2" "$3" ;;
*)
    sed -n '2,4p' "$0" >&2
    exit 2
    ;;
esac
