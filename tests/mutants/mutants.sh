#!/bin/sh
# mutants.lua on the checkout that Bazel was called in: ./bazelw run //tests:mutants -- --seed 1
set -eu
for tool in gcc gcov make lua5.4; do
    command -v $tool >/dev/null || { echo "mutants: there is no $tool" >&2; exit 1; }
done
cd "$BUILD_WORKSPACE_DIRECTORY"
exec lua5.4 tests/mutants/mutants.lua "$@"
