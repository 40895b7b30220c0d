#!/bin/sh
# serve_text_test.sh TRAIN_TEXT SERVE_TEXT [resident] [SERVE_TEXT_I8]: a small model is trained, and served: every
# answer has the bits that it has alone, whatever the slots, threads and pages, with prompts that share a beginning,
# with eviction and sequences that start again; and wrong options. With `resident` what is in memory may not grow: a
# sanitizer's own does. SERVE_TEXT_I8, of a library with int8, serves with such a cache too. With GLINT_TEST_OF_THREADS set
# it ends after the runs that show whether threads disturb each other.
set -u
train=$1
serve=$2
resident=$([ "${3:-}" = resident ] && echo yes)
narrow=$([ "${3:-}" = resident ] && echo "${4:-}" || echo "${3:-}")
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/serve_text.XXXXXX")
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
        [ -f "$work/log" ] && tail -9 "$work/log"
    fi
}

run() { "$serve" --load "$work/out/model.ckpt" "$@" >"$work/log" 2>&1; }
said() { grep -aq -- "$1" "$work/log"; }
number() { sed -n "s/$1/\\1/p" "$work/log"; } # number PATTERN-WITH-A-GROUP

# A refusal is one sentence that says $2, a status that is not 0 and not a signal's.
refuses() { # refuses NAME SENTENCE OPTIONS...
    name=$1
    sentence=$2
    shift 2
    "$serve" "$@" >"$work/log" 2>&1
    status=$?
    check "$name: status $status" test $status -ge 1 -a $status -le 2
    check "$name: says '$sentence'" said "$sentence"
}

"$train" --text lib/glint.h --layers 2 --heads 1 --context 64 --batch 2 --steps 10 --length 1 --out "$work/out" >"$work/log" 2>&1
check "train_text makes a checkpoint" test -s "$work/out/model.ckpt"

check "nine lines of its own" run --check --length 70
check "all of them compared" said '^checked    9 answers alone, 0 differ'
check "an answer a line" test "$(grep -ac '^\[[0-9]*\] ' "$work/log")" = 9
grep -a '^\[' "$work/log" | sort >"$work/answers"
for options in "--slots 1" "--slots 3 --threads 3" "--pages 40 --threads 2"; do
    check "$options" run --length 70 $options
    grep -a '^\[' "$work/log" | sort >"$work/others"
    check "the same answers with $options" cmp -s "$work/answers" "$work/others"
done

# The likeliest bytes soon come round again, so most proposals are right; drawn ones differ, so some are wrong. Answers
# are those without proposals.
check "no proposals" run --temperature 0 --length 120 --propose 0
check "none is made" said '^proposals  0 bytes proposed'
grep -a '^\[' "$work/log" | sort >"$work/answers"
for options in "--propose 1" "--propose 15 --slots 3" "--propose 6 --threads 3 --pages 40"; do
    check "$options" run --temperature 0 --length 120 --check $options
    check "nothing differs with $options" said '^checked    9 answers alone, 0 differ'
    check "proposals are right with $options" test "$(number '^proposals  .*proposed, \([0-9]*\) of them right.*')" -gt 200
    grep -a '^\[' "$work/log" | sort >"$work/others"
    check "the same answers with $options" cmp -s "$work/answers" "$work/others"
done
if [ -n "${GLINT_TEST_OF_THREADS:-}" ]; then # ThreadSanitizer takes a minute for what follows, whose threads do nothing else
    echo "$passed passed, $failed failed; the runs that show no more of threads were left out"
    [ "$failed" = 0 ]
    exit
fi
check "steps with prompts and without have their times" \
    test "$(grep -ac '^a step     with[a-z ]*: [0-9.]* ms in the middle, 99 of 100 in [0-9.]* ms; [1-9][0-9]* steps$' "$work/log")" = 2
check "wrong proposals" run --soak 400 --check --slots 12 --pages 32 --length 300 --temperature 0.3 --propose 15
check "nothing differs beside them" said '^checked    [1-9][0-9]* answers alone, 0 differ'
check "some are wrong" awk '/^proposals/ { exit !($2 > $5) }' "$work/log"

check "bf16: nine lines of its own" run --cache bf16 --check --length 70
check "bf16: all of them compared" said '^checked    9 answers alone, 0 differ'
check "bf16: it is" said '^cache .* MB of bf16$'
grep -a '^\[' "$work/log" | sort >"$work/answers"
check "bf16: with other slots and threads" run --cache bf16 --length 70 --slots 3 --threads 3
grep -a '^\[' "$work/log" | sort >"$work/others"
check "bf16: the same answers" cmp -s "$work/answers" "$work/others"

# Without a GPU, or without kernels for one that read pages, a sentence says so; with both it serves.
"$serve" --load "$work/out/model.ckpt" --device cuda --length 1 >"$work/log" 2>&1
check "--device cuda is served or refused" test $? -le 1
check "and it says what for" grep -aqE '^(serve_text: the GPU: there is no NVIDIA driver|.*examples/serve_text/spec.lua has them|device     )' "$work/log"

# Few pages: prompts share blocks, blocks are evicted, and sequences start again.
check "a soak" run --soak 500 --check --slots 12 --pages 32 --length 300 --threads 2
check "nothing differs" said '^checked    [1-9][0-9]* answers alone, 0 differ'
check "positions were taken over" test "$(number '^prompts .*computed, \([0-9]*\) taken over.*')" -gt 0
check "blocks were evicted" test "$(number '^pages .*; \([0-9]*\) blocks evicted.*')" -gt 0
check "sequences started again" test "$(number '^pages .*evicted, \([0-9]*\) sequences.*')" -gt 0
check "every page was used" said '^pages      at least 0 of 32 free'
[ -z "$resident" ] || check "memory stays as it is" awk '/^resident/ { exit !($8 <= $2 + 0.5) }' "$work/log"
check "short sequences, and no page is lost" run --soak 300 --slots 4 --longest 64 --length 20

if [ -n "$narrow" ]; then
    serve=$narrow
    check "int8: nine lines of its own" run --cache i8 --check --length 70
    check "int8: all of them compared" said '^checked    9 answers alone, 0 differ'
    check "int8: it is" said '^cache .* MB of int8$'
    grep -a '^\[' "$work/log" | sort >"$work/answers"
    check "int8: with other slots and threads" run --cache i8 --length 70 --slots 3 --threads 3
    grep -a '^\[' "$work/log" | sort >"$work/others"
    check "int8: the same answers" cmp -s "$work/answers" "$work/others"
    check "int8: a soak" run --cache i8 --soak 300 --check --slots 12 --pages 32 --length 300 --threads 2
    check "int8: nothing differs" said '^checked    [1-9][0-9]* answers alone, 0 differ'
    check "int8: positions were taken over" test "$(number '^prompts .*computed, \([0-9]*\) taken over.*')" -gt 0
    check "int8: blocks were evicted" test "$(number '^pages .*; \([0-9]*\) blocks evicted.*')" -gt 0
    check "int8: sequences started again" test "$(number '^pages .*evicted, \([0-9]*\) sequences.*')" -gt 0
    serve=$2
fi

printf 'one line\n\nanother line that is longer than what may be\n' >"$work/lines"
check "lines of a file" run --longest 20 --length 8 --check "$work/lines"
check "an empty line is none" said '^checked    2 answers alone, 0 differ'
check "a line that is too long is cut off, and it says so" said 'is cut off after 12: --longest is 20'

refuses "no checkpoint" "name a checkpoint with --load"
refuses "a checkpoint that is not there" "cannot open the checkpoint" --load "$work/none"
head -c 1000 "$work/out/model.ckpt" >"$work/cut"
refuses "a checkpoint that is cut off" "cut short" --load "$work/cut"
{ head -c 5000 "$work/out/model.ckpt"; printf 'XXXX'; tail -c +5005 "$work/out/model.ckpt"; } >"$work/damaged"
refuses "a damaged checkpoint" "the file is damaged" --load "$work/damaged"
set -- --load "$work/out/model.ckpt"
refuses "no such option" "there is no option '--slot'" "$@" --slot 3
refuses "no value" "--slots needs a value" "$@" --slots
refuses "no slots" "--slots takes a whole number from 1 to 256" "$@" --slots 0
refuses "too many proposals" "--propose takes a whole number from 0 to 15" "$@" --propose 16
refuses "a wrong temperature" "--temperature takes a number from 0 to 100" "$@" --temperature hot
refuses "a wrong cache" "--cache takes f32, bf16 or i8, not 'f16'" "$@" --cache f16
refuses "a wrong device" "--device takes cpu or cuda, not 'tpu'" "$@" --device tpu
refuses "too few pages" "32 pages are needed" "$@" --pages 31
refuses "no such file" "cannot read" "$@" "$work/nothing"
refuses "both" "leave the file out" "$@" --soak 10 "$work/lines"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
