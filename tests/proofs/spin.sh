#!/bin/sh
# All states of each model: spin.sh MODEL... No assertion fails and nobody waits for ever; with each fault that the
# model lists under FAULTS one does.
set -eu
command -v spin >/dev/null && command -v gcc >/dev/null || { echo 'SKIPPED: spin is not installed'; exit 0; }
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/spin.XXXXXX")
trap 'rm -rf "$work"' EXIT

errors() { # MODEL OPTIMIZATION [-DFAULT]: their number; 0 counts only after all states
    model=$(readlink -f "$1") optimization=$2
    shift 2
    (cd "$work" && rm -f pan* && spin "$@" -a "$model" >log 2>&1 && gcc "$optimization" -DSAFETY -o pan pan.c >log 2>&1 && ./pan -m200000 -w20 >log 2>&1 || true
        grep -q 'error: max search depth\|reached -DMEMLIM' log && { cat log; exit 1; }
        sed -n 's/.*errors: \([0-9]*\)$/\1/p' log)
}

for model; do
    [ "$(errors "$model" -O1)" = 0 ] || { cat "$work/log"; echo "spin.sh: $model has an error"; exit 1; }
    echo "$model: $(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' "$work/log") states, no error"
    faults=$(sed -n 's/^ \* FAULTS: //p' "$model")
    [ -n "$faults" ] || { echo "spin.sh: $model lists no faults"; exit 1; }
    for fault in $faults; do # they are found soon: most of the time is the compiler's
        [ "$(errors "$model" -O0 "-D$fault")" = 1 ] || { cat "$work/log"; echo "spin.sh: $model: $fault is not found"; exit 1; }
        echo "  $fault: $(sed -n 's/^pan:1: //p' "$work/log" | head -1)"
    done
done
