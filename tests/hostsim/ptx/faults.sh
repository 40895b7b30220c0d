#!/usr/bin/env bash
# Plants faults in the PTX of a kernel and says which of them the kernel's checks find.
#     ./bazelw run //tests/hostsim/ptx:search -- LABEL SEED COUNT       LABEL: such as //tests:fwd_bf16_d64_causal__sm80_m128n80__ptx_sm80
#     faults.sh PROGRAM VARIANT                                         a program that was built with --//tests/hostsim/ptx:faults=SEED:COUNT
# A line a fault: found (with the check's first words), NOT FOUND, or not reached, which no check enters. The last line
# counts them. As many faults are asked about at a time as there are processors.
set -euo pipefail

# one PROGRAM VARIANT NUMBER FOLDER: the outcome of one fault, in FOLDER/NUMBER.
one() {
    local program=$1 variant=$2 number=$3 folder=$4 text first outcome
    text=$(sed -n "${number}p" "$folder/list")
    # The first failure is enough: the program ends when nobody reads what it says.
    first=$(HOSTSIM_FAULT=$number timeout 300 stdbuf -oL "$program" --variant="$variant" 2>"$folder/$number.said" | grep -a -m1 FAILED || true)
    if [ -n "$first" ] || ! grep -q "^fault $number:" "$folder/$number.said"; then
        outcome=$(printf 'found: %.160s' "${first:-the program ended}")
    elif grep -q "^fault $number:.*, not reached" "$folder/$number.said"; then
        outcome='not reached'
    else
        outcome='NOT FOUND'
    fi
    printf '%s\n    %s\n' "$text" "$outcome" >"$folder/$number"
}
export -f one

program=$1
if [ $# = 3 ]; then
    cd "$BUILD_WORKSPACE_DIRECTORY"
    ./bazelw build --//tests/hostsim/ptx:faults="$2:$3" "$1"
    program=bazel-bin/$(sed 's,^//,,; s,:,/,' <<<"$1")
    set -- "$program" "$(basename "$program" | sed 's/__ptx.*//')"
fi
case $program in *__ptx_sm*) export HOSTSIM_SM=${program##*__ptx_sm} ;; esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
HOSTSIM_FAULT=list "$program" 2>&1 | grep '^fault ' >"$folder/list" || true
count=$(wc -l <"$folder/list")
seq "$count" | xargs -P "$(nproc)" -I{} bash -c 'one "$@"' one "$program" "$2" {} "$folder"
for number in $(seq "$count"); do cat "$folder/$number"; done | tee "$folder/all"
count_of() { grep -c "^    $1" "$folder/all" || true; }
printf '%d faults: %d found, %d NOT FOUND, %d not reached\n' "$count" "$(count_of found:)" "$(count_of 'NOT FOUND')" "$(count_of 'not reached')"
