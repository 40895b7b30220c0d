#!/bin/sh
# train_text_cuda_test.sh PROGRAM [STEPS]: with the attention on the GPU, train_text learns as it does on the CPU. The
# same seed gives the same start and the same batches, so only rounding separates the two loss curves (products of the
# GPU's float32 have 10 bits). Training amplifies whatever separates two runs, so what counts as noise is measured: a
# run on the CPU whose learning rate is 2^-11 larger, which is as much as such a product is off. The GPU must agree
# closely at first, stay within three times that noise later, and repeat itself to the bit.
set -u
program=$1
steps=${2:-200}
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/train_text_cuda.XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}

train() { # train NAME OPTIONS...
    name=$1
    shift
    "$program" --text lib/glint.h --layers 2 --heads 2 --context 64 --batch 4 --steps "$steps" --length 200 --out "$work/$name" "$@" \
        >"$work/$name.log" 2>&1 || { cat "$work/$name.log"; fail "$name ends with status $?"; exit 1; }
}
train cpu --device cpu --rate 0.004
train cuda --device cuda --rate 0.004
train again --device cuda --rate 0.004
train nudged --device cpu --rate 0.004002
grep '^device' "$work/cuda.log" || fail "cuda does not say which GPU it used"
grep -q '_f32_d64_causal__sm' "$work/cuda.log" || fail "cuda did not use a GPU variant"

# difference CURVE A B UNTIL: the mean difference of two runs at the same step, and how many steps were compared
difference() {
    awk -F, -v curve="$1" -v until="$4" '$1 == curve && FNR == NR { y[$2] = $3 } $1 == curve && FNR != NR && $2 in y && $2 <= until {
        d = y[$2] - $3; sum += d < 0 ? -d : d; n++ }
        END { printf "%.6f %d\n", n ? sum / n : 9, n }' "$work/$2/loss.csv" "$work/$3/loss.csv"
}
for curve in 'training batch' 'held-out text'; do
    # shellcheck disable=SC2046 # two numbers each
    set -- $(difference "$curve" cpu cuda "$steps") $(difference "$curve" cpu nudged "$steps")
    echo "$curve: CPU and GPU differ by $1 nats on average over $2 points, CPU and nudged CPU by $3"
    [ "$2" -ge 20 ] || fail "$curve: only $2 points"
    awk "BEGIN { exit !($1 <= 3 * $3) }" || fail "$curve: more than noise"
done
# shellcheck disable=SC2046
set -- $(difference 'training batch' cpu cuda 20)
echo "training batch, first $2 steps: $1 nats"
{ [ "$2" -eq 20 ] && awk "BEGIN { exit !($1 < 0.002) }"; } || fail "the curves differ from the start"
held_out() { sed -n 's/^held-out   loss \([0-9.]*\).*/\1/p' "$work/$1.log"; }
echo "held-out loss at the end: CPU $(held_out cpu), GPU $(held_out cuda), nudged CPU $(held_out nudged)"
cmp -s "$work/cuda/model.ckpt" "$work/again/model.ckpt" || fail "the GPU does not repeat itself"
grep -q '^---- 204 bytes' "$work/cuda.log" || fail "no text was written"
sed -n '/^---- generated/,$p' "$work/cuda.log"
[ "$failed" -eq 0 ] && echo "the curves agree"
