#!/bin/sh
# Searches for problems that break glint.h's promises, with clang's libFuzzer and both sanitizers, and grows the kept corpus.
#
#   tests/fuzz/search.sh SECONDS [SPEC]     from anywhere; needs clang and libclang-rt-14-dev (Debian)
#
# What it finds new is appended to problem_corpus.txt; a culprit is left as crash-* in the current folder, and
# `xxd -p crash-* | tr -d '\n'` is its line for the corpus.
set -eu
seconds=${1:?SECONDS}
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
spec=$(readlink -f "${2:-$root/spec/minimal.lua}")
corpus=$root/tests/fuzz/problem_corpus.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags="-std=c11 -O1 -g -I$root -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined"

glint() { (cd "$root" && lua5.4 gen/glint.lua "$@" --spec "$spec"); }
glint emit --table --arch x86_64 --out "$work/table.c"
names=$(glint list --arch x86_64 | grep __cpu_)
for name in $names; do glint emit --variant "$name" --out "$work/$name.c"; done
cd "$work"
for name in $names; do
    case $name in *x86_64_v3*) march=-march=x86-64-v3 ;; *x86_64_v4*) march=-march=x86-64-v4 ;; *) march= ;; esac
    # shellcheck disable=SC2086 # the flags are words
    clang $flags $march -c "$name.c"
done
core=$(find "$root"/lib/*.c "$root"/lib/cpu/*.c "$root"/lib/cuda/*.c ! -name pool.c)
# shellcheck disable=SC2086 # the flags and files are words
clang $flags -fsanitize=fuzzer -o search table.c ./*.o $core \
    "$root"/tests/fuzz/problem.c "$root"/tests/contract/world.c "$root"/tests/contract/refusal_oracle.c "$root"/tests/support/*.c \
    "$root"/tests/oracle/half.c "$root"/tests/oracle/ref.c -ldl -lm
mkdir inputs grown
i=0
while read -r line; do
    i=$((i + 1))
    echo "$line" | xxd -r -p >"inputs/$i"
done <"$corpus"
cd "$OLDPWD"
"$work/search" -max_total_time="$seconds" -max_len=100 "$work/grown" "$work/inputs"
for input in "$work"/grown/*; do
    [ -s "$input" ] && { xxd -p "$input" | tr -d '\n'; echo; }
done >>"$corpus" || true
sort -u "$corpus" -o "$corpus"
echo "$(wc -l <"$corpus") inputs in $corpus"
