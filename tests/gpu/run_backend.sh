#!/bin/sh
# run_backend.sh [PART]...: the GPU tests, on a machine with a GPU and its driver and nothing else. Programs and kernels lie beside this
# script (//tests/cuda:gpu_bundle), or come from tests/gpu/build_backend.py, run where there are gcc and nvcc: then the folder
# .gpu/backend must travel with the checkout.
#
#   promises   memory, graphs, repeat, latency, self test, several GPUs, a lost device (tests/cuda/on_device.c)
#   variants   each variant's own checks against fp64, the gradient checks and the laws (tests/variant_test.c)
#   sanitize   compute-sanitizer's four tools over every variant; only if it is installed
#   quick      promises with a hundredth of the repetitions
# Without PART: promises, then variants. Logs are left in $OUT (default logs beside the programs). The exit status is 0 when something was checked and
# nothing failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
bin=$here
[ -x "$bin/on_device" ] || bin=$here/../../.gpu/backend
logs=${OUT:-$bin/logs}
jobs=${JOBS:-8}
parts=${*:-promises variants}
failed=0
ran=0
mkdir -p "$logs"

if [ ! -x "$bin/on_device" ]; then
    echo "$bin/on_device is missing: run tests/gpu/build_backend.py where there are gcc and nvcc, and bring $bin along"
    exit 1
fi

# step NAME COMMAND...: its output to the log and, shortened, here
step() {
    name=$1
    shift
    "$@" >"$logs/$name.log" 2>&1
    status=$?
    ran=$((ran + 1))
    tail -n 25 "$logs/$name.log"
    if [ $status -eq 0 ]; then
        echo "ok: $name"
    else
        echo "NOT OK: $name, exit status $status, $logs/$name.log"
        failed=$((failed + 1))
    fi
}

# One variant a line, the failing ones with their log.
variants() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    "$bin/on_device" names | sed -n 's/^variant //p' | xargs -r -n 1 -P "$jobs" sh -c '
        if timeout 300 "$0" --variant="$2" >"$1/variant_$2.txt" 2>&1; then
            echo "ok $2: $(tail -n 1 "$1/variant_$2.txt")"; rm -f "$1/variant_$2.txt"
        else
            echo "FAILED $2"; tail -n 12 "$1/variant_$2.txt"; false
        fi' "$bin/variant_test" "${TMPDIR:-/tmp}" &&
        "$bin/on_device" names >/dev/null # that there was one at least
}

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)

for part in $parts; do
    case $part in
    promises)
        step promises timeout 500 "$bin/on_device" all
        step lost timeout 60 "$bin/on_device" lost
        ;;
    quick)
        step quick timeout 200 "$bin/on_device" --launches 10000 --replays 100 --runs 10 all
        step lost timeout 60 "$bin/on_device" lost
        ;;
    variants) step variants variants ;;
    sanitize)
        if [ ! -x "$sanitizer" ]; then
            echo "compute-sanitizer is not installed: not run"
            continue
        fi
        for tool in memcheck racecheck initcheck synccheck; do
            step "sanitize_$tool" timeout 500 "$sanitizer" --tool "$tool" --error-exitcode 9 "$bin/on_device" --runs 1 repeat
        done
        ;;
    *)
        echo "unknown part '$part': promises variants sanitize quick"
        exit 2
        ;;
    esac
done
echo "$ran parts, $failed failed"
[ "$ran" -gt 0 ] && [ "$failed" -eq 0 ]
