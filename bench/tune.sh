#!/bin/sh
# tune.sh LUA [option]...: bench/tune.lua in the checkout that `bazel run` was called from.
set -eu
lua=$(readlink -f "$1")
shift
cd "${BUILD_WORKSPACE_DIRECTORY:?run it with ./bazelw run //bench:tune}"
exec "$lua" bench/tune.lua "$@"
