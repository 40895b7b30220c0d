#!/bin/sh
# shellcheck disable=SC2086 # $few is several words on_device_test.sh PROGRAM: do the checks of on_device.c pass on a
# GPU that is right, and fail on one that is wrong? PROGRAM is on_device linked with the fake GPU (fake_gpu.c says what
# each fault is).
set -u
program=$1
only=f16_d64
cases=0
failed=0

# expect STATUS FAULT ARGUMENT...
expect() {
    want=$1
    fault=$2
    shift 2
    if [ -n "$fault" ]; then FAKE_GPU_FAULT=$fault && export FAKE_GPU_FAULT; else unset FAKE_GPU_FAULT; fi
    output=$("$program" --only "$only" "$@" 2>&1)
    got=$?
    cases=$((cases + 1))
    if [ "$got" -ne "$want" ]; then
        failed=$((failed + 1))
        printf 'fault "%s", %s: exit status %d, not %d\n%s\n' "$fault" "$*" "$got" "$want" "$output"
    fi
}

few='--launches 600 --replays 32 --runs 20'
expect 0 '' $few graphs repeat memory devices
expect 0 '' --runs 60 repeat
expect 0 '' bare
expect 0 '' lost
expect 1 replay graphs
expect 1 output graphs
expect 1 outside graphs
expect 1 outside $few memory
expect 1 workspace $few repeat
expect 1 outside $few repeat
expect 1 flicker --runs 60 repeat
expect 1 output bare
expect 1 outside bare
expect 1 leak $few memory
expect 1 heap $few memory
expect 1 outside devices
expect 1 deaf lost
expect 2 '' nonsense
expect 2 ''
expect 1 '' --only no_such_variant graphs
only=d128 # rows with tensor maps, and with words that are cleared ahead of their kernels
expect 0 '' $few graphs repeat memory bare
expect 1 counter graphs
expect 1 counter $few repeat
expect 1 replay graphs
only=dec # rows that read lengths
expect 0 '' $few lengths
expect 1 stale $few lengths
expect 1 outside $few lengths
only=f16_d64
expect 1 '' lengths # a check that looks at no row
export FAKE_GPU_IDLE=1
expect 0 '' latency
expect 1 slow latency
expect 1 '' selftest

printf '%d cases, %d failed\n' "$cases" "$failed"
[ "$cases" -gt 0 ] && [ "$failed" -eq 0 ]
