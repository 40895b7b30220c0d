#!/bin/sh
# The library's call graph has no cycle, and its call paths are short: calls.sh LUA CALLS.LUA FILE.c... from the root of
# the repository. gcc writes the graph. A recursion that is planted is found, also one through a pointer, and so is a
# path that is deeper than is allowed.
set -eu
lua=$1 calls=$2
shift 2
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/calls.XXXXXX")
trap 'rm -rf "$work"' EXIT
for file; do
    gcc -std=c11 -O2 -I. -fstack-usage -fcallgraph-info=su,da -c "$file" -o "$work/$(echo "$file" | tr / _).o"
done
"$lua" "$calls" 4096 "$work"/*.ci

refused() { # WORD, LIMIT: what the graph in the folder says
    if (cd "$work/tree" && "$lua" "$calls" "$2" ../*.ci) >"$work/log" 2>&1 || ! grep -q "$1" "$work/log"; then
        cat "$work/log"
        echo "calls.sh: not found: $1" >&2
        exit 1
    fi
    echo "found: $(grep -m1 "$1" "$work/log")"
}
lua=$(readlink -f "$lua") calls=$(readlink -f "$calls")
mkdir "$work/tree"
cp -rL lib "$work/tree/lib"
refused 'TOO MANY  glint_explain_append' 2000
planted() { # WORD, then C that is put behind lib/text.c
    cat lib/text.c - >"$work/tree/lib/text.c"
    (cd "$work/tree" && gcc -std=c11 -O1 -fno-inline -fno-optimize-sibling-calls -I. -fstack-usage -fcallgraph-info=su,da -c lib/text.c -o ../lib_text.c.o)
    refused "$1" 4096
}
planted 'recursion: .*glint_even' <<'C'
int glint_odd(int n);
int glint_even(int n);
int glint_even(int n) { return n == 0 ? 1 : glint_odd(n - 1) + 1; }
int glint_odd(int n) { return n == 0 ? 0 : glint_even(n - 1) + 2; }
C
planted 'recursion: .*glint_go' <<'C'
struct glint_again { int (*again)(const struct glint_again *, int); };
int glint_go(const struct glint_again *a, int n);
int glint_go(const struct glint_again *a, int n) { return n == 0 ? 0 : a->again(a, n - 1) + 1; }
const struct glint_again glint_agains = {.again = glint_go};
C
