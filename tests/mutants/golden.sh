#!/bin/sh
# The golden kernels against what the generator of this folder makes: as //generated:golden_test, without Bazel.
set -e
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for golden in generated/golden/*__*; do
    name=$(basename "$golden")
    lua5.4 gen/glint.lua emit --spec generated/golden/golden.lua --variant "${name%.*}" --out "$out/$name"
    cmp "$golden" "$out/$name"
done
