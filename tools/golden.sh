#!/usr/bin/env bash
# golden.sh test|update EMITTED...: compares the sources that the generator emits with those that generated/golden/
# keeps, or renews these.
set -euo pipefail
mode=$1
shift

if [ "$mode" = update ]; then
    kept=${BUILD_WORKSPACE_DIRECTORY:?run it with bazel run //generated:update_golden}/generated/golden
    rm -f "$kept"/*.c "$kept"/*.cu
    for emitted; do
        install -m 644 "$emitted" "$kept/"
        echo "generated/golden/${emitted##*/}"
    done
    exit
fi

kept=generated/golden
status=0
for emitted; do
    diff -u "$kept/${emitted##*/}" "$emitted" || status=1
done
for file in "$kept"/*.c "$kept"/*.cu; do
    [ -e "$file" ] || continue
    case " $* " in */"${file##*/}"\ *) ;; *) echo "$file: no template emits it any more" && status=1 ;; esac
done
[ $# -gt 0 ] || { echo "nothing was emitted" && status=1; }
[ $status = 0 ] || echo "If that is meant: bazel run //generated:update_golden, and commit what changes."
exit $status
