#!/bin/sh
# Training, saving, loading and generating allocate nothing once the arena is there; and the trap itself works.
set -u
program=$1
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/no_allocation.XXXXXX")
trap 'rm -rf "$work"' EXIT
for threads in 1 2; do
    "$program" --text lib/glint.h --steps 8 --layers 2 --heads 2 --batch 2 --threads "$threads" --length 40 --out "$work/out" >"$work/log" 2>&1
    status=$?
    if [ $status -ne 0 ]; then
        cat "$work/log"
        echo "failed: status $status with $threads threads; 99 means that something allocated"
        exit 1
    fi
done
grep -q 'generated text' "$work/log" || { echo "failed: the run did not get to its end"; exit 1; }
echo "2 passed, 0 failed"
