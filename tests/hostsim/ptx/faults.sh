#!/usr/bin/env bash
# Plants faults in the PTX of a kernel and says which of them the kernel's checks find.
#     ./bazelw run //tests/hostsim/ptx:search -- LABEL SEED COUNT       LABEL: such as //tests:fwd_bf16_d64_causal__sm80_m128n80__ptx_sm80
#     faults.sh PROGRAM [VARIANT]                                       a program that was built with --//tests/hostsim/ptx:faults=SEED:COUNT
# First each check runs by itself, without a fault, and tells what it reaches; then a fault is asked of the checks that
# reach it, the shortest first. A line a fault: found (with the check's first words), NOT FOUND, or not reached, which no
# check enters. The last line counts them. As many run at a time as there are processors.
set -euo pipefail

# reach NUMBER: what the check of that line of the list enters, and how many milliseconds it takes.
reach() {
    local name start
    name=$(sed -n "$1p" "$folder/checks")
    start=$(date +%s%N)
    HOSTSIM_REACH=$folder/reach.$1 "$program" $variant ${name:+"--case=$name"} >/dev/null 2>&1 || true
    echo "$((($(date +%s%N) - start) / 1000000)) $name" >"$folder/time.$1"
}

# judge NUMBER: the outcome of one fault, in FOLDER/NUMBER.
judge() {
    local text line name first='' outcome='not reached'
    text=$(sed -n "$1p" "$folder/faults")
    line=${text##*:}
    while read -r _ name; do
        # The first failure is enough: the program ends when nobody reads what it says.
        first=$(HOSTSIM_FAULT=$1 timeout 300 stdbuf -oL "$program" $variant ${name:+"--case=$name"} 2>"$folder/$1.said" | grep -a -m1 FAILED || true)
        if [ -n "$first" ] || ! grep -q "^fault $1:" "$folder/$1.said"; then
            outcome=$(printf 'found: %.160s' "${first:-the program ended}")
            break
        fi
        if grep -q "^fault $1:.*, reached" "$folder/$1.said"; then outcome='NOT FOUND'; fi
    done < <(awk -v line="$line" '$5 == 1 && $2 <= line && line <= $3 { sub(/.*reach\./, "", FILENAME); print FILENAME; nextfile }' \
        "$folder"/reach.* | while read -r n; do cat "$folder/time.$n"; done | sort -n)
    printf '%s\n    %s\n' "$text" "$outcome" >"$folder/$1"
}
export -f reach judge

program=$1
variant=${2:+--variant=$2}
if [ $# = 3 ]; then
    cd "$BUILD_WORKSPACE_DIRECTORY"
    ./bazelw build --//tests/hostsim/ptx:faults="$2:$3" "$1"
    program=bazel-bin/$(sed 's,^//,,; s,:,/,' <<<"$1")
    variant=--variant=$(basename "$program" | sed 's/__ptx.*//')
    case $variant in *_test) variant= ;; esac # a program of one test
fi
case $program in *__ptx_sm*) export HOSTSIM_SM=${program##*__ptx_sm} ;; esac
folder=$(mktemp -d)
export program variant folder
trap 'rm -rf "$folder"' EXIT
"$program" $variant --list | grep / | sed 's/^ *//' >"$folder/checks" || echo >"$folder/checks" # which has no names: it runs as a whole
HOSTSIM_FAULT=list "$program" 2>&1 | grep '^fault ' >"$folder/faults" || true
seq "$(wc -l <"$folder/checks")" | xargs -P "$(nproc)" -I{} bash -c 'reach {}'
count=$(wc -l <"$folder/faults")
seq "$count" | xargs -P "$(nproc)" -I{} bash -c 'judge {}'
for number in $(seq "$count"); do cat "$folder/$number"; done | tee "$folder/all"
count_of() { grep -c "^    $1" "$folder/all" || true; }
printf '%d faults: %d found, %d NOT FOUND, %d not reached\n' "$count" "$(count_of found:)" "$(count_of 'NOT FOUND')" "$(count_of 'not reached')"
