#!/usr/bin/env bash
# Plants faults in the PTX of a kernel and says which of them the kernel's checks find.
#     ./bazelw run //tests/hostsim/ptx:search -- LABEL SEED COUNT       LABEL: such as //tests:fwd_bf16_d64_causal__sm80_m128n80__ptx_sm80
#     faults.sh PROGRAM VARIANT                                         a program that was built with --//tests/hostsim/ptx:faults=SEED:COUNT
# A line a fault: found (with the check's first words), NOT FOUND, or not reached, which no check enters. The last line counts them.
set -euo pipefail

program=$1
if [ $# = 3 ]; then
    cd "$BUILD_WORKSPACE_DIRECTORY"
    ./bazelw build --//tests/hostsim/ptx:faults="$2:$3" "$1"
    program=bazel-bin/$(sed 's,^//,,; s,:,/,' <<<"$1")
    set -- "$program" "$(basename "$program" | sed 's/__ptx.*//')"
fi
case $program in *__ptx_sm*) export HOSTSIM_SM=${program##*__ptx_sm} ;; esac
said=$(mktemp)
trap 'rm -f "$said"' EXIT
found=0 unreached=0 missed=0
count=$(HOSTSIM_FAULT=list "$program" 2>&1 | grep -c '^fault ')
for number in $(seq "$count"); do
    text=$(HOSTSIM_FAULT=list "$program" 2>&1 | sed -n "${number}p")
    # The first failure is enough: the program ends when nobody reads what it says.
    first=$(HOSTSIM_FAULT=$number timeout 300 stdbuf -oL "$program" --variant="$2" 2>"$said" | grep -a -m1 FAILED || true)
    if [ -n "$first" ] || ! grep -q "^fault $number:" "$said"; then
        found=$((found + 1))
        printf '%s\n    found: %.160s\n' "$text" "${first:-the program ended}"
    elif grep -q "^fault $number:.*, not reached" "$said"; then
        unreached=$((unreached + 1))
        printf '%s\n    not reached\n' "$text"
    else
        missed=$((missed + 1))
        printf '%s\n    NOT FOUND\n' "$text"
    fi
done
printf '%d faults: %d found, %d NOT FOUND, %d not reached\n' "$count" "$found" "$missed" "$unreached"
