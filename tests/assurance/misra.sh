#!/bin/sh
# Every rule of MISRA C:2012 that cppcheck's add-on finds broken has its reason in docs/assurance/misra.md: misra.sh
# MISRA.md FILE.c... Prints the findings of each rule.
set -eu
table=$1
shift
command -v cppcheck >/dev/null || { echo 'SKIPPED: cppcheck is not installed'; exit 0; }
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/misra.XXXXXX")
trap 'rm -rf "$work"' EXIT
cppcheck --std=c11 --platform=unix64 --addon=misra --enable=style --quiet -I. --suppress=missingIncludeSystem --template='{file}:{line}: {id}' "$@" \
    2>"$work/findings" || true
# What is no finding, or one that says that a file was not looked at to its end: the add-on that bails out, a file that
# is not parsed. The findings of the other files would hide it.
if grep -vE '^[^:]+:[0-9]+: [A-Za-z0-9_.-]+$' "$work/findings" >"$work/stopped" ||
    grep -iE ': ([a-z]*error[a-z]*|unknownMacro|noValidConfiguration|toomanyconfigs)$' "$work/findings" >"$work/stopped"; then
    echo 'misra.sh: cppcheck did not look at all of it:'
    cat "$work/stopped"
    exit 1
fi
sed -n 's/.*misra-c2012-\([0-9.]*\)$/\1/p' "$work/findings" | sort | uniq -c | sort -rn >"$work/rules"
cat "$work/rules"
[ "$(wc -l <"$work/rules")" -gt 10 ] || { echo "misra.sh: cppcheck found too little to have looked"; cat "$work/findings"; exit 1; }
bad=0
for rule in $(awk '{ print $2 }' "$work/rules"); do
    grep -q "^| D[0-9]* | $rule | [0-9]* | [A-Z\`].*\. |$" "$table" && continue
    echo "misra.sh: rule $rule has no reason in $table:"
    grep "misra-c2012-$rule\$" "$work/findings"
    bad=1
done
# Nor is a deviation left behind that nothing needs, and each has a number of its own.
for rule in $(sed -n 's/^| D[0-9]* | \([0-9.]*\) | .*/\1/p' "$table"); do
    awk -v rule="$rule" '$2 == rule { found = 1 } END { exit !found }' "$work/rules" && continue
    echo "misra.sh: $table has a reason for rule $rule, which has no finding"
    bad=1
done
twice=$(sed -n 's/^| \(D[0-9]*\) | .*/\1/p' "$table" | sort | uniq -d)
[ -z "$twice" ] || { echo "misra.sh: two deviations have the number" $twice; bad=1; }
exit $bad
