#!/bin/sh
# misra.sh fails when cppcheck stops before the end of a file, though what it found until then has its reason:
# misra_stops_test.sh MISRA.SH MISRA.md
set -eu
script=$1 table=$2
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/misra_stops.XXXXXX")
trap 'rm -rf "$work"' EXIT
# A cppcheck that finds each rule of the table once, and then says $said.
cat >"$work/cppcheck" <<EOF
#!/bin/sh
sed -n 's/^| D[0-9]* | \([0-9.]*\) | .*/lib\/plan.c:1: misra-c2012-\1/p' "$table" >&2
[ -z "\$said" ] || echo "\$said" >&2
EOF
chmod +x "$work/cppcheck"
PATH=$work:$PATH
export PATH
says() { said=$1 sh "$script" "$table" lib/plan.c >"$work/out"; }
says '' || { echo 'it fails though cppcheck found nothing more'; cat "$work/out"; exit 1; }
says 'lib/plan.c:2: variableScope' || { echo 'it fails for a finding of cppcheck that is no rule'; cat "$work/out"; exit 1; }
for stop in 'Bailing out from checking lib/plan.c since there was an internal error: Failed to execute python3' \
    'Did not find addon misra.py' 'lib/plan.c:1: syntaxError' 'lib/plan.c:0: internalError' 'lib/plan.c:9: preprocessorErrorDirective' \
    'lib/plan.c:7: unknownMacro' 'lib/plan.c:3: misra-c2012-99.1'; do
    if says "$stop"; then
        echo "it passes though cppcheck says: $stop"
        exit 1
    fi
    grep -qF "$stop" "$work/out" || { echo "it does not say: $stop"; cat "$work/out"; exit 1; }
done
