#!/bin/bash
# Records the golden files of the micro-tests on a GPU of compute capability 9.0.
#     record.sh build OUT          compiles everything into the folder OUT: needs nvcc, g++ and Lua, no GPU
#     record.sh run OUT GOLDEN     writes the golden files into GOLDEN: needs the folder OUT, a GPU and its driver
#     record.sh all GOLDEN         both, here
# A golden file begins with the digests of the texts that it is of (texts.lua), taken when they are compiled; primitives_test compares them.
set -euo pipefail
groups="sm80 before90 wgmma tensor hopper"

build() {
    local here root arch lua
    lua=$(command -v lua5.4 || command -v lua || { echo 'record.sh: no Lua (apt install lua5.4)' >&2 && exit 1; })
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    root=$(cd "$here/../../.." && pwd)
    mkdir -p "$1"
    for group in $groups; do
        case $group in
        before90) arch=compute_80,code=sm_90 ;; # the texts for sm_80, which a GPU of 9.0 runs too
        *) arch=compute_90a,code=sm_90a ;;
        esac
        "$lua" "$here/texts.lua" "$root" "$group" >"$1/$group.texts"
        nvcc -std=c++17 -O3 -I"$root" -I"$root/lib/device/ptx" -gencode "arch=$arch" -cubin -o "$1/$group.cubin" "$here/$group.cu"
    done
    g++ -std=c++17 -O2 -Wall -Wextra -I"$root" "$here"/record.cc "$here"/groups.cc "$here"/cases*.cc -o "$1/record" -ldl -static-libstdc++ -static-libgcc
    cp "${BASH_SOURCE[0]}" "$1/"
}

run() {
    local driver
    driver=$(cat /proc/driver/nvidia/version 2>/dev/null | grep -o '[0-9]*\.[0-9.]*' | head -1 || true)
    driver=${driver:-$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)}
    mkdir -p "$2"
    for group in $groups; do
        {
            echo "# What tests/hostsim/micro/$group.cu gave on the GPU below, driver $driver, $(date -u +%Y-%m-%d); by tests/hostsim/micro/record.sh."
            cat "$1/$group.texts"
            "$1/record" "$group" "$1/$group.cubin" ${RAW:+"$RAW/$group.raw"}
        } > "$2/$group.txt"
    done
}

case ${1-} in
build) build "$2" ;;
run) run "$2" "$3" ;;
all)
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
    build "$out"
    run "$out" "$2"
    ;;
*)
    sed -n '2,6p' "$0" >&2
    exit 2
    ;;
esac
