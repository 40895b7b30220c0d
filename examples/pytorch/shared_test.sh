#!/bin/sh
# shared_test.sh LIBRARY HEADER: the shared object exports every function of glint.h and no other name, needs no library
# but libc's own, and calls from it nothing but what the archives may call.
set -u
library=$1
header=$2
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/shared.XXXXXX")
trap 'rm -rf "$work"' EXIT
LC_ALL=C
export LC_ALL

nm --dynamic --defined-only --format=posix "$library" | cut -d' ' -f1 | sort >"$work/exported"
grep -v '^glint_' "$work/exported" && fail "names that are not ours"
# Every glint_NAME( of the header that is not of a comment's sentence, a type or a macro.
grep -vE '^ ?\*|^/\*|^#|^ ' "$header" | grep -oE 'glint_[a-z0-9_]+\(' | tr -d '(' | sort -u >"$work/declared"
[ "$(wc -l <"$work/declared")" -ge 20 ] || fail "only $(wc -l <"$work/declared") functions found in $header"
diff "$work/declared" "$work/exported" >"$work/difference" || { cat "$work/difference"; fail "exports are not what glint.h declares"; }

nm --dynamic --undefined-only --format=posix "$library" | cut -d' ' -f1 | sed 's/@.*//' |
    grep -vE '^(memcpy|memmove|memset|memcmp|dlopen|dlsym|dlclose|pthread_[a-z_]+|__cxa_finalize|__gmon_start__|_ITM_.*)$' &&
    fail "calls what it may not"
readelf --dynamic "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libdl|libpthread)\.so\.|^ld-linux' && fail "needs other libraries"
echo "$(wc -l <"$work/exported") functions exported"
[ "$failed" -eq 0 ]
