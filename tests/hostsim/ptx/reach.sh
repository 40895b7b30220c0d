#!/usr/bin/env bash
# Which instructions of kernels no check enters: rows of a table, one a kernel.
#     ./bazelw run //tests/hostsim/ptx:reach -- LABEL...       LABEL: such as //tests:fwd_bf16_d64_causal__sm80_m128n80__ptx_sm80
# A row has the kernel, its instructions, those that were not entered, and the others for which unreached.lua has a
# reason. What is largest among those that were not entered: reach.lua says it of one kernel.
set -euo pipefail

cd "$BUILD_WORKSPACE_DIRECTORY"
./bazelw build "$@"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '| kernel | instructions | not reached | with a reason |\n|---|---|---|---|\n'
for label in "$@"; do
    program=bazel-bin/$(sed 's,^//,,; s,:,/,; s,^/,,' <<<"$label")
    name=$(basename "$program")
    variant=${name%%__ptx*}
    case $name in
        *__ptx_sm*) export HOSTSIM_SM=${name##*__ptx_sm} ;;
        *) unset HOSTSIM_SM ;;
    esac
    ptx=$program.ptx
    arguments=(--variant="$variant")
    if [ ! -e "$ptx" ]; then # a program of one test, whose kernels have a library's name
        ptx=$(dirname "$program")/${name%_test__ptx}_ptx_translated.ptx
        arguments=()
    fi
    HOSTSIM_REACH=$folder/$name "$program" "${arguments[@]}" >"$folder/said" || { tail -5 "$folder/said" && exit 1; }
    "${LUA:-lua5.4}" tests/hostsim/ptx/reach.lua "$folder/$name" "$ptx" table
done
