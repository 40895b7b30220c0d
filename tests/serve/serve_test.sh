#!/bin/sh
# serve_test.sh SERVE_TEXT CPU_SERVE_TEXT RANDOM_CHECKPOINT simulated|on_device [STEPS]: serve_text with its cache and
# attention on a GPU. Its answers are the CPU's, and have the bits that they have alone, whatever the slots, with
# prompts that share a beginning, with eviction and sequences that start again. On a device also STEPS (10000) steps of
# each cache, in which no memory may grow, with their times.
set -u
serve=$1
cpu=$2
checkpoint=$3
where=$4
steps=${5:-10000}
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/serve.XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

check() { # check NAME CONDITION...
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        tail -9 "$work/log"
    fi
}

run() { "$serve" --load "$work/model" --device cuda "$@" >"$work/log" 2>&1; }
answers() { grep -a '^\[' "$work/log" | sort >"$work/$1"; }
said() { grep -aq -- "$1" "$work/log"; }
number() { sed -n "s/$1/\\1/p" "$work/log"; } # number PATTERN-WITH-A-GROUP

"$checkpoint" 2 1 "$work/model" || exit 1
length=4 soak=40 slots=4
if [ "$where" = on_device ]; then length=70 soak=600 slots=12; fi
cat >"$work/lines" <<'LINES'
A
If the Program specifies that
The GNU General Public License is a free, copyleft license for software and other kinds of works.
The GNU General Public License is a free, copyleft license for software and other programs
LINES

for cache in f32 bf16 i8; do
    check "$cache: four lines" run --cache $cache --check --length $length "$work/lines"
    check "$cache: all of them compared" said '^checked    4 answers alone, 0 differ'
    check "$cache: on a GPU" said '^attention  [a-z0-9_]*__sm'
    answers answers
    check "$cache: one slot" run --cache $cache --length $length --slots 1 "$work/lines"
    answers others
    check "$cache: the same answers in one slot" cmp -s "$work/answers" "$work/others"
    # The likeliest bytes come round again, and are proposed then.
    check "$cache: proposals" run --cache $cache --check --temperature 0 --length 12 --propose 5 "$work/lines"
    check "$cache: nothing differs from an answer without them" said '^checked    4 answers alone, 0 differ'
    # Few pages: prompts share blocks, blocks are evicted, and sequences start again.
    check "$cache: a soak" run --cache $cache --soak $soak --longest 160 --length 40 --slots $slots --pages 11 --check
    check "$cache: nothing differs" said '^checked    [1-9][0-9]* answers alone, 0 differ'
    check "$cache: positions were taken over" test "$(number '^prompts .*computed, \([0-9]*\) taken over.*')" -gt 0
    check "$cache: blocks were evicted" test "$(number '^pages .*; \([0-9]*\) blocks evicted.*')" -gt 0
    check "$cache: sequences started again" test "$(number '^pages .*evicted, \([0-9]*\) sequences.*')" -gt 0
done

# The likeliest bytes, and few of them, as the GPU's products of float32 have 10 bits. The model's weights are large:
# other keys give other bytes.
check "float32, the likeliest bytes" run --temperature 0 --length 4 "$work/lines"
answers answers
"$cpu" --load "$work/model" --temperature 0 --length 4 "$work/lines" >"$work/log" 2>&1
answers others
check "the CPU gives four answers" test "$(wc -l <"$work/others")" -eq 4
check "they are the GPU's" cmp -s "$work/answers" "$work/others"

"$cpu" --load "$work/model" --cache bf16 >"$work/log" 2>&1
check "a cache without a kernel is refused" test $? -eq 1
check "what would be right is said" said 'In the spec, add "same" to kv_dtypes'
if [ "$where" = on_device ]; then
    "$cpu" --load "$work/model" --device cuda >"$work/log" 2>&1
    check "a library without kernels for the GPU is refused" test $? -eq 1
    check "where they are is said" said 'examples/serve_text/spec.lua has them, for f32, bf16 and i8'
fi
check "too few pages for the longest" test "$(run --pages 31; number '.*: \([0-9]*\) pages are needed')" -eq 32

[ "$where" = on_device ] && "$checkpoint" 2 2 "$work/model"
for cache in f32 bf16 i8; do
    [ "$where" = on_device ] || break
    check "$cache: $steps steps" run --cache $cache --soak "$steps" --slots 16 --length 300 --longest 2000 --threads 4 --quiet
    grep -aE '^(attention|cache|served|a step|resident|GPU) ' "$work/log"
    check "$cache: the GPU's memory stays as it is" awk '/^GPU/ { exit !($10 <= $2) }' "$work/log"
    check "$cache: the host's memory stays as it is" awk '/^resident/ { exit !($8 <= $2 + 1) }' "$work/log"
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
