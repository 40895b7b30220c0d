#!/bin/sh
# train_text_cuda_test.sh PROGRAM [STEPS]: with the attention on the GPU, train_text learns as it does on the CPU. The same seed gives the same
# start and the same batches, so only rounding separates the two loss curves (products of the GPU's float32 have 10 bits). They must stay much
# closer to each other than the curve of another seed does, end at the same held-out loss, and the GPU must repeat itself to the bit.
set -u
program=$1
steps=${2:-120}
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
    "$program" --text lib/glint.h --layers 2 --heads 2 --context 64 --batch 4 --rate 0.004 --steps "$steps" --length 200 --out "$work/$name" "$@" \
        >"$work/$name.log" 2>&1 || { cat "$work/$name.log"; fail "$name ends with status $?"; exit 1; }
}
train cpu --device cpu
train cuda --device cuda
train again --device cuda
train other --device cpu --seed 2
grep '^device' "$work/cuda.log" || fail "cuda does not say which GPU it used"
grep -q '_f32_d64_causal__sm' "$work/cuda.log" || fail "cuda did not use a GPU variant"

# difference CURVE A B: the largest and the mean difference of two runs at the same step, and how many steps were compared
difference() {
    awk -F, -v curve="$1" '$1 == curve && FNR == NR { y[$2] = $3 } $1 == curve && FNR != NR && $2 in y {
        d = y[$2] - $3; d = d < 0 ? -d : d; sum += d; n++; if (d > most) most = d }
        END { printf "%.5f %.5f %d\n", most, n ? sum / n : 9, n }' "$work/$2/loss.csv" "$work/$3/loss.csv"
}
for curve in 'training batch' 'held-out text'; do
    # shellcheck disable=SC2046 # three numbers each
    set -- $(difference "$curve" cpu cuda) $(difference "$curve" cpu other)
    echo "$curve: CPU and GPU differ by $1 nats at most, $2 on average, over $3 points; two seeds on the CPU by $4 and $5"
    [ "$3" -ge 20 ] || fail "$curve: only $3 points"
    awk "BEGIN { exit !($2 < 0.2 * $5 && $1 < 0.5 * $4) }" || fail "$curve: the GPU's is another curve"
done
held_out() { sed -n 's/^held-out   loss \([0-9.]*\).*/\1/p' "$work/$1.log"; }
echo "held-out loss at the end: CPU $(held_out cpu), GPU $(held_out cuda), another seed on the CPU $(held_out other)"
awk "BEGIN { d = $(held_out cpu) - $(held_out cuda); exit !(d < 0.03 && d > -0.03) }" || fail "the losses at the end differ"
cmp -s "$work/cuda/model.ckpt" "$work/again/model.ckpt" || fail "the GPU does not repeat itself"
grep -q '^---- 204 bytes' "$work/cuda.log" || fail "no text was written"
sed -n '/^---- generated/,$p' "$work/cuda.log"
[ "$failed" -eq 0 ] && echo "the curves agree"
