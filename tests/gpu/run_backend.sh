#!/bin/sh
# run_backend.sh [PART]...: the GPU tests, on a machine with a GPU and its driver and nothing else. The programs lie
# beside this script in the tar of //tests:gpu_bundle.
#
#   selftest   the library's own power-on test, through every variant
#   promises   memory, graphs, repeat, latency, self test, several GPUs, a lost device (tests/cuda/on_device.c)
#   launches   clusters, persistent blocks, tensor maps and cleared words through the library's launch code
#              (tests/hostsim/launch), on 9.0 alone
#   rows       glint_merge and glint_append, every byte beside the CPU's (tests/hostsim/rows); 34 GB of device memory
#              for rows that lie far apart
#   variants   each variant's own checks against fp64, the gradient checks and the laws (tests/checks/variant_test.c)
#   sanitize   compute-sanitizer's four tools over every variant; only if it is installed
#   serve      examples/serve_text with its cache on this GPU: answers, and bytes a second, percentiles of a step and
#              memory over $STEPS steps (10000)
#   bench      glint_bench on this GPU, a CSV file beside the logs
#   quick      promises with a hundredth of the repetitions
# Without PART: promises, launches, rows, then variants. $ONLY: only variants whose name contains it. $JOBS: processes
# at a time (8). Logs are left in $OUT (default logs beside the programs). The exit status is 0 when something was
# checked and nothing failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
bin=$here
[ -x "$bin/on_device" ] || bin=$here/../cuda # among Bazel's files
launches=$bin/tiles_on_device
[ -x "$launches" ] || launches=$here/../hostsim/launch/tiles_on_device
rows=$bin/rows_on_device
[ -x "$rows" ] || rows=$here/../hostsim/rows/rows_on_device
logs=${OUT:-${TEST_UNDECLARED_OUTPUTS_DIR:-$bin/logs}}
jobs=${JOBS:-8}
parts=${*:-promises launches rows variants}
only=${ONLY:-}
failed=0
ran=0
mkdir -p "$logs"

if [ ! -x "$bin/on_device" ]; then
    echo "$here/on_device is missing: unpack bazel-bin/tests/cuda/gpu_bundle.tar (./bazelw build //tests:gpu_bundle) and run gpu/run_backend.sh"
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
    "$bin/on_device" ${only:+--only "$only"} names | sed -n 's/^variant //p' | xargs -r -n 1 -P "$jobs" sh -c '
        if timeout 300 "$0" --variant="$2" >"$1/variant_$2.txt" 2>&1; then
            echo "ok $2: $(tail -n 1 "$1/variant_$2.txt")"; rm -f "$1/variant_$2.txt"
        else
            echo "FAILED $2"; tail -n 12 "$1/variant_$2.txt"; false
        fi' "$bin/variant_test" "${TMPDIR:-/tmp}" &&
        "$bin/on_device" names >/dev/null # that there was one at least
}

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)

# clean LOG: whether a tool ended without a finding
clean() {
    tail -n 1 "$1" | grep -qE 'SUMMARY: 0 (errors|hazards)'
}

# Whether a tool finds fault with a right program that copies as Hopper's backward rows do ("right"), or hands on what all
# lanes of a warp wrote as its steps do ("lanes", tests/hostsim/launch/control.cu): initcheck before 2025.4 does not see
# what bulk copies write, nor yet what tensor copies do, and racecheck before 2026.3 not all of the order that mbarriers
# make (docs/limits.md). And whether racecheck sees a race there.
misjudges() {
    log=$logs/sanitize_control_$1_$2.log
    timeout 100 "$sanitizer" --tool "$1" "$bin/control_on_device" "$2" >"$log" 2>&1
    if ! clean "$log" && grep -q '^done' "$log"; then
        echo "control: $1 finds fault with a right program, $2: $(tail -n 1 "$log")"
        return 0
    fi
    if [ "$1 $2" = "racecheck right" ]; then
        timeout 100 "$sanitizer" --tool racecheck "$bin/control_on_device" early >"$log.early" 2>&1
        clean "$log.early" && echo "control: racecheck does not see a race of bulk copies; that it finds none says nothing of them"
    fi
    return 1
}

# The four tools side by side, each over forward, backward and decode variants by themselves: most of their time is one
# host thread's. A log that does not end in "0 errors" is a failure, whatever the exit status was; but for Hopper's
# backward rows and steps under a tool that misjudges the control.
sanitize() {
    pids=
    doubtful=
    "$sanitizer" --version | tail -n 2
    for tool in memcheck racecheck initcheck synccheck; do
        misjudges "$tool" right && doubtful="$doubtful $tool:hopper"
        misjudges "$tool" lanes && doubtful="$doubtful $tool:step"
        for pass in fwd bwd dec hopper step; do
            case $pass in # hopper: backward rows of sm90a; step: its steps
            fwd) set -- --only "fwd$only" --without __sm90a_step ;;
            step) set -- --only "fwd$only" --only __sm90a_step ;;
            hopper) set -- --only "bwd$only" --only __sm90a ;;
            bwd) set -- --only "bwd$only" --without __sm90a ;;
            *) set -- --only "$pass$only" ;;
            esac
            "$bin/on_device" "$@" names | grep -q '^variant ' || continue
            timeout 500 "$sanitizer" --tool "$tool" --error-exitcode 9 "$bin/on_device" "$@" bare \
                >"$logs/sanitize_${tool}_$pass.log" 2>&1 &
            pids="$pids $tool:$pass:$!"
        done
    done
    bad=0
    for entry in $pids; do
        what=${entry%:*}
        wait "${entry##*:}"
        ended=$?
        log=$logs/sanitize_${what%:*}_${what#*:}.log
        checked=$(grep -c '^PASS bare' "$log")
        if [ $ended -eq 0 ] && [ "$checked" -eq 1 ] && clean "$log"; then
            echo "ok $what: $(grep '^PASS bare' "$log"); $(tail -n 1 "$log")"
        elif [ "$checked" -eq 1 ] && echo "$doubtful " | grep -q " $what "; then
            echo "not judged $what, as the control is misjudged: $(grep '^PASS bare' "$log"); $(tail -n 1 "$log")"
        else
            echo "FAILED $what, exit status $ended"
            tail -n 30 "$log"
            bad=1
        fi
    done
    return $bad
}

for part in $parts; do
    case $part in
    promises)
        step promises timeout 500 "$bin/on_device" ${only:+--only "$only"} all
        step lost timeout 60 "$bin/on_device" lost
        ;;
    launches)
        timeout 60 "$launches" >"$logs/launches.log" 2>&1
        if [ $? -eq 77 ]; then
            tail -n 1 "$logs/launches.log"
            continue
        fi
        step launches timeout 60 "$launches"
        ;;
    rows) step rows timeout 100 "$rows" ;;
    serve) step serve timeout 500 sh "$bin/serve_test.sh" "$bin/serve_text_on_device" "$bin/serve_text_i8" "$bin/random_checkpoint" on_device "${STEPS:-10000}" ;;
    selftest) step selftest timeout 100 "$bin/on_device" selftest ;;
    bench)
        # shellcheck disable=SC2086 # several words
        step bench timeout 500 "$bin/glint_bench" --gpu ${BENCH:---dtype bf16 --head-dim 64,128,256 --seqlen 512,2048,8192 --heads 16} \
            --csv "$logs/bench.csv"
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
        step sanitize sanitize
        ;;
    *)
        echo "unknown part '$part': selftest promises launches rows variants sanitize serve bench quick"
        exit 2
        ;;
    esac
done
echo "$ran parts, $failed failed"
[ "$ran" -gt 0 ] && [ "$failed" -eq 0 ]
