#!/bin/sh
# appliance_test.sh PROGRAM SOURCE [cuda]: the appliance answers every line, right or wrong, with the line it should,
# and ends well; and it is as short as it says. With cuda: on the GPU, and its answers are the CPU's.
set -u
program=$1
source=$2
device=${3:-}
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/appliance.XXXXXX")
answers=$work/answers
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
check() {
    name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $name"; fi
}

cat >"$work/requests" <<'REQUESTS'
forward 128 128 8 64 causal
backward 5 70 2 64 causal
forward 1 1000 4 64 causal
forward 0 0 1 64 causal
hello
forward 1 1 1 9 none
forward -1 1 1 64 none
backward 1000000000 1000000000 1000000000 64 causal
forward 100000 100000 64 64 causal
forward 1 1 0 64 none
froward 128 128 8 64 causal
forward 128 128 8 64 acausal
forward 128 128 8 64 causalcausalcausal
forward 1 1 1 9 none and then so many words that the line is longer than the memory which the appliance has for a line, so that the rest of it is dropped
REQUESTS
# shellcheck disable=SC2086 # nothing or one word
"$program" $device <"$work/requests" >"$answers"
check "it ends well" test $? = 0
cat "$answers"
check "the self test passed" grep -q '^self test: [1-9][0-9]* variants on .*, 0 failed' "$answers"
check "4 requests done" test "$(grep -c '^done: ' "$answers")" = 4
check "10 requests refused" test "$(grep -c '^refused: ' "$answers")" = 10
check "a head_dim of 9 is named" grep -q 'GLINT_BAD_HEAD_DIM' "$answers"
check "a negative length is named" grep -q 'GLINT_BAD_SEQLEN' "$answers"
check "no heads is named" grep -q 'GLINT_BAD_HEADS' "$answers"
check "too large for the memory" grep -q 'does not fit' "$answers"
# A peer that waits for its answer before it asks again gets it.
mkfifo "$work/peer"
# shellcheck disable=SC2086
"$program" $device <"$work/peer" >"$work/live" &
exec 3>"$work/peer"
echo hello >&3
tries=0
until grep -q '^refused: ' "$work/live" || [ $tries -ge 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
check "an answer comes before the next request" test $tries -lt 300
exec 3>&-
wait
sums() { sed -n 's/^done: sum of [a-z]* = \([-.0-9]*\),.*/\1/p' "$1"; }
if [ "$device" = cuda ]; then
    check "the self test was on a GPU" sh -c "! grep -q '^self test: .* on the CPU' '$answers'"
    "$program" <"$work/requests" >"$work/cpu" # the same sums, but for float32 products of 10 bits
    sums "$answers" >"$work/gpu_sums"
    sums "$work/cpu" >"$work/cpu_sums"
    check "the answers are the CPU's" sh -c "paste '$work/gpu_sums' '$work/cpu_sums' | awk '{ d = \$1 - \$2; if (!(d < 0.2 && d > -0.2)) bad = 1 } END { exit bad || NR != 4 }'"
else
    # Where there is no GPU, asking for one is refused with a sentence; where there is one, it serves.
    "$program" cuda </dev/null >"$work/cuda"
    check "cuda is served or refused" grep -qE '^(not starting: GLINT_|self test: )' "$work/cuda"
fi
check "fewer than 120 lines" test "$(wc -l <"$source")" -lt 120
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
