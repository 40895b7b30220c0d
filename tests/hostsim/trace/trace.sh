#!/bin/sh
# ./bazelw run //tests:hostsim_trace -- VARIANT [--kernel=_dq] [--block=N] [--seqlen_q=N] [--seqlen_k=N] [--seed=N]
#
# Writes what one block of a variant's kernel does, step by step, to VARIANT.trace.txt and a picture of it to
# VARIANT.trace.svg, in the folder that it is called from. The variant is one of the library's spec, or of the spec that
# GLINT_SPEC in the environment names.
set -eu
case ${1-} in
'' | -h | --help)
    cat <<'END'
./bazelw run //tests:hostsim_trace -- VARIANT [OPTION...]

Simulates one launch of a GPU variant's kernel and writes what one of its blocks did, step by step, to VARIANT.trace.txt, and a picture
of it (warps from top to bottom, time from left to right, who waited for whom) to VARIANT.trace.svg, in the current folder.
`lua5.4 gen/glint.lua list` shows the variants. Those of another spec: GLINT_SPEC=FILE ./bazelw run //tests:hostsim_trace -- VARIANT

  --kernel=_dq      of a backward variant with strategy "split", its kernel for dQ
  --block=N         the block to follow, from 0
  --seqlen_q=N      queries; --seqlen_k=N: keys
  --seed=N          another order of threads
END
    [ $# -gt 0 ] || exit 2
    exit 0
    ;;
esac
variant=$1
shift
into=${BUILD_WORKING_DIRECTORY:-$PWD}
cd "${BUILD_WORKSPACE_DIRECTORY:?run it with ./bazelw run}"

suffix=
for argument; do
    case $argument in --kernel=*) suffix=${argument#--kernel=} ;; esac
done
spec=${GLINT_SPEC:-spec/attention.lua}
./bazelw build "--repo_env=GLINT_SPEC=$spec" "//tests:${variant}__trace"
lua=$(command -v lua5.4 || command -v lua)
part=$("$lua" gen/glint.lua explain --spec "$spec" "$variant" | sed -n 's/^.*shared memory of .*, bytes: //p')
if [ -n "$suffix" ]; then
    part=$(echo "$part" | tail -n 1)
else
    part=$(echo "$part" | head -n 1)
fi
events=$(mktemp)
trap 'rm -f "$events"' EXIT
"bazel-bin/tests/${variant}__trace" "--variant=$variant" "--out=$events" "--shared=$part" "$@"
"$lua" tests/hostsim/trace/trace.lua "$events" "$into/$variant$suffix.trace.txt" "$into/$variant$suffix.trace.svg"
echo "$into/$variant$suffix.trace.txt"
echo "$into/$variant$suffix.trace.svg"
