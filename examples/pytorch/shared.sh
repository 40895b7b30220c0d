#!/bin/sh
# shared.sh HEADER LIBRARY POOL OUT: makes a shared object of libglint.a and libglint_pool.a that exports the functions
# of glint.h and nothing else. Bazel runs it for //examples/pytorch:libglint_shared.so; with what was installed
# (//:dist) it is
#     sh shared.sh glint/include/glint.h glint/lib/libglint.a glint/lib/libglint_pool.a libglint_shared.so
# CC and OBJCOPY name the tools, if not gcc and objcopy.
set -eu
header=$1
library=$2
pool=$3
out=$4
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A declaration starts at the margin with its type and ends in NAME(.
grep -oE '^[a-z][a-z0-9_ ]*[ *]glint_[a-z0-9_]+\(' "$header" | grep -oE 'glint_[a-z0-9_]+\(' | tr -d '(' | LC_ALL=C sort -u >"$work/names"
[ -s "$work/names" ] || { echo "shared.sh: $header declares nothing" >&2; exit 1; }
sed 's/.*/& archive_&/' "$work/names" >"$work/renamed"
sed 's/.*/EXPORT(&)/' "$work/names" >"$work/exports.h"
for archive in "$library" "$pool"; do
    "${OBJCOPY:-objcopy}" -D --redefine-syms="$work/renamed" "$archive" "$work/$(basename "$archive")"
done
"${CC:-gcc}" -std=gnu11 -O2 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Werror -I"$work" -I"$(dirname "$header")" \
    "$here/shared.c" "$work/$(basename "$library")" "$work/$(basename "$pool")" \
    -Wl,-soname,libglint_shared.so -Wl,-z,defs -Wl,-z,noexecstack -Wl,--gc-sections -Wl,--build-id=none -ldl -pthread -o "$out"
