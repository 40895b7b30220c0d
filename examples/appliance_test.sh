#!/bin/sh
# The appliance answers every line, right or wrong, with the line it should, and ends well; and it is as short as it says.
set -u
program=$1
source=$2
answers=$(mktemp "${TEST_TMPDIR:-/tmp}/appliance.XXXXXX")
trap 'rm -f "$answers"' EXIT
passed=0
failed=0
check() {
    name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $name"; fi
}

"$program" >"$answers" <<'REQUESTS'
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
REQUESTS
check "it ends well" test $? = 0
cat "$answers"
check "the self test passed" grep -q '^self test: [1-9][0-9]* variants, 0 failed' "$answers"
check "4 requests done" test "$(grep -c '^done: ' "$answers")" = 4
check "6 requests refused" test "$(grep -c '^refused: ' "$answers")" = 6
check "a head_dim of 9 is named" grep -q 'GLINT_BAD_HEAD_DIM' "$answers"
check "a negative length is named" grep -q 'GLINT_BAD_SEQLEN' "$answers"
check "no heads is named" grep -q 'GLINT_BAD_HEADS' "$answers"
check "too large for the memory" grep -q 'does not fit' "$answers"
check "fewer than 120 lines" test "$(wc -l <"$source")" -lt 120
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
