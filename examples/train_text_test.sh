#!/bin/sh
# train_text end to end on a text of the repository: the gradient, learning, checkpoints good and damaged, wrong
# options.
set -u
program=$1
text=lib/glint.h
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/train_text.XXXXXX")
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
        [ -f "$work/log" ] && tail -5 "$work/log"
    fi
}

run() { "$program" --text $text "$@" >"$work/log" 2>&1; }
small="--layers 2 --heads 1 --context 64 --batch 4"

# A refusal is one sentence that says $2, a status that is not 0 and not a signal's.
refuses() { # refuses NAME SENTENCE OPTIONS...
    name=$1
    sentence=$2
    shift 2
    "$program" "$@" >"$work/log" 2>&1
    status=$?
    check "$name: status $status" test $status -ge 1 -a $status -le 2
    check "$name: says '$sentence'" grep -q -- "$sentence" "$work/log"
}

held_out() { sed -n 's/^held-out   loss \([0-9.]*\).*/\1/p' "$work/log"; }

check "the gradient agrees with finite differences" run --check --layers 2 --heads 2 --batch 2 --context 32
check "every tensor was compared" grep -q '^15 tensors, 0 differ' "$work/log"
check "decode agrees with the whole forward" grep -q '^32 steps of decode, at most .* 0 differ' "$work/log"
# Several chunks of keys, with and without threads that share them.
for threads in 1 3; do
    check "decode over 600 keys, $threads threads" run --check --layers 1 --heads 1 --batch 1 --context 600 --threads $threads
    check "all 600 steps were compared, $threads threads" grep -q '^600 steps of decode, at most .* 0 differ' "$work/log"
done

check "training runs" run $small --steps 120 --rate 0.004 --threads 2 --out "$work/a" --length 200
check "a progress line" grep -q '^step .*tokens/s' "$work/log"
check "the checkpoint reads back" grep -q 'read back: held-out loss .* the same' "$work/log"
loss=$(held_out)
entropy=$(sed -n 's/^unigram    entropy \([0-9.]*\).*/\1/p' "$work/log")
check "held-out loss ${loss:-none} is below 0.9 of the unigram entropy ${entropy:-none}" \
    awk "BEGIN { exit !(\"$loss\" != \"\" && ${loss:-9} < 0.9 * ${entropy:-0}) }"
check "the loss curve is an SVG" grep -q '^</svg>$' "$work/a/loss.svg"
check "it has both curves" test "$(grep -c '<polyline' "$work/a/loss.svg")" = 2

run $small --steps 120 --rate 0.004 --threads 1 --out "$work/b" --length 200
check "1 thread gives the same loss as 2" test "$(held_out)" = "$loss"
check "1 thread gives the same checkpoint as 2" cmp -s "$work/a/model.ckpt" "$work/b/model.ckpt"

check "a loaded checkpoint only generates" run --load "$work/a/model.ckpt" --steps 0 --out "$work/c" --length 700 --prompt "enum "
check "with the loss it was saved with" test "$(held_out)" = "$loss"
check "past the length of the context" grep -q '^---- 705 bytes, [0-9]* tokens/s' "$work/log"
cp "$work/log" "$work/first"
run --load "$work/a/model.ckpt" --steps 0 --out "$work/c" --length 700 --prompt "enum "
text_of() { sed '/^---- generated/,/^---- [0-9]/!d; /^----/d' "$1"; }
text_of "$work/first" >"$work/first_text"
text_of "$work/log" >"$work/second_text"
check "the same seed writes the same text" cmp -s "$work/first_text" "$work/second_text"

good=$work/a/model.ckpt
bytes=$(wc -c <"$good")
head -c $((bytes - 1)) "$good" >"$work/short"
head -c 20 "$good" >"$work/shorter"
: >"$work/empty"
{ cat "$good"; printf x; } >"$work/long"
{ printf 'X'; tail -c +2 "$good"; } >"$work/magic"
{ head -c 8 "$good"; printf '\377\377\377\377'; tail -c +13 "$good"; } >"$work/version"
{ head -c 12 "$good"; printf '\377\377\377\177'; tail -c +17 "$good"; } >"$work/layers"
{ head -c 12 "$good"; printf '\003'; tail -c +14 "$good"; } >"$work/other"
{ head -c 5000 "$good"; printf '\252\252'; tail -c +5003 "$good"; } >"$work/flipped"
for name in empty shorter magic; do
    refuses "checkpoint $name" "not a checkpoint of this program" --text $text --load "$work/$name" --out "$work/d"
done
refuses "checkpoint cut" "cut short or too long" --text $text --load "$work/short" --out "$work/d"
refuses "checkpoint with a tail" "cut short or too long" --text $text --load "$work/long" --out "$work/d"
refuses "checkpoint of version 2^32 - 1" "another version" --text $text --load "$work/version" --out "$work/d"
refuses "checkpoint of 2^31 layers" "cannot use" --text $text --load "$work/layers" --out "$work/d"
refuses "checkpoint of one more layer" "another shape" --text $text --load "$work/other" --out "$work/d"
refuses "checkpoint with two bytes changed" "checksum" --text $text --load "$work/flipped" --out "$work/d"
refuses "checkpoint missing" "No such file" --text $text --load "$work/nothing" --out "$work/d"
refuses "checkpoint is a folder" "not a checkpoint" --text $text --load "$work" --out "$work/d"

refuses "text missing" "cannot open the text" --text "$work/nothing"
refuses "text is a folder" "not a regular file" --text "$work"
refuses "text is a device" "not a regular file" --text /dev/zero
refuses "text empty" "has 0 bytes" --text "$work/empty"
echo "too short" >"$work/tiny"
refuses "text too short" "needs at least 1290" --text "$work/tiny"
refuses "unknown option" "no option is called '--stepps'" --stepps 3
refuses "value missing" "needs a value" --steps
refuses "not a number" "whole number" --steps many
refuses "number with a tail" "whole number" --steps 12x
refuses "negative" "whole number" --threads -1
refuses "no threads" "from 1 to" --threads 0
refuses "NaN" "number" --temperature nan
refuses "huge" "from 1 to" --layers 99999999999999999999
refuses "step too large" "make one of them smaller" --text $text --context 65536 --batch 4096
refuses "unknown device" "not known" --text $text --device abacus
refuses "folder cannot be made" "cannot make the folder" --text $text $small --steps 1 --out /proc/nothing/here
mkdir "$work/taken"
refuses "checkpoint cannot be written" "cannot write the checkpoint" --text $text $small --steps 1 --out "$work/e" --save "$work/taken"
check "nothing half-written stays" test ! -e "$work/taken.partial"
"$program" --help >"$work/log" 2>&1
check "--help succeeds" test $? = 0

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 60 ]
