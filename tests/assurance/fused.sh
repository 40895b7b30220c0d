#!/bin/sh
# Kernels name each product that is fused with a sum: fused.sh "FLAGS" "COPTS FILE.c"... from the root of the repository.
# So gcc makes the same of an emitted source whether it may fuse by itself or not, and as many such instructions
# whichever CPU it tunes for. (For some it leaves them out of long sums, and gcc 12.3 and later do so for any.) A sum in
# the inner loop of the products that is not named is found.
set -eu
flags=$1
shift
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/fused.XXXXXX")
trap 'rm -rf "$work"' EXIT
compile() { # ROOT, "COPTS FILE.c", OUT, further flags
    root=$1 what=$2 out=$3
    shift 3
    # shellcheck disable=SC2086
    gcc $flags "$@" -I"$root" -S $what -o "$out"
}
fused() { # of an assembly's instructions
    grep -cE '\sv?fn?m(add|sub)[0-9]*[ps]s\s' "$1" || true
}
kernels=0 all=0
for what; do
    for way in off fast; do compile . "$what" "$work/$way.s" "-ffp-contract=$way"; done
    if ! cmp -s "$work/off.s" "$work/fast.s"; then
        echo "fused.sh: gcc finds something to fuse in $what: it is $(fused "$work/off.s") instructions as written, and $(fused "$work/fast.s")" >&2
        exit 1
    fi
    compile . "$what" "$work/tuned.s" -mtune=znver3
    if [ "$(fused "$work/off.s")" != "$(fused "$work/tuned.s")" ]; then
        echo "fused.sh: $(fused "$work/off.s") instructions in $what, and $(fused "$work/tuned.s") with another -mtune" >&2
        exit 1
    fi
    kernels=$((kernels + 1)) all=$((all + $(fused "$work/off.s")))
done
[ "$all" -gt "$kernels" ] || { echo "fused.sh: $all fused instructions in $kernels kernels" >&2; exit 1; }
echo "$kernels kernels, $all fused instructions, all named"

mkdir "$work/tree"
cp -rL lib "$work/tree/lib"
gemm=$work/tree/lib/cpu/gemm.h
sed 's/= glint_fma(ar, bv\[v\], acc\[r\]\[v\]);/+= ar * bv[v];/' lib/cpu/gemm.h >"$gemm.new"
mv -f "$gemm.new" "$gemm"
for way in off fast; do compile "$work/tree" "$1" "$work/$way.s" "-ffp-contract=$way"; done
if cmp -s lib/cpu/gemm.h "$gemm" || cmp -s "$work/off.s" "$work/fast.s"; then
    echo "fused.sh: a sum that is not named is not found in $1" >&2
    exit 1
fi
echo "found: $(fused "$work/off.s") fused instructions where a sum is not named, and $(fused "$work/fast.s") if gcc may fuse it"
