#!/bin/sh
# symbols.sh accepts a clean archive and rejects one for each of its rules: a rule that cannot fail proves nothing.
#
#   symbols_selfcheck.sh PATH/TO/symbols.sh
set -eu
check=$1
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/selfcheck.XXXXXX")
trap 'rm -rf "$work"' EXIT
run=0
failed=0

# NAME, ok|WORD OF THE OFFENCE, then the source on standard input; FLAGS is used to compile
attempt() {
    directory=$work/$1
    mkdir "$directory"
    cat >"$directory/glint_$1.c"
    (cd "$directory" && gcc -std=gnu11 -O1 -w -fPIC -fno-builtin -fno-stack-protector $FLAGS -c "glint_$1.c" -o "$1.o" &&
        { [ -z "${REMOVE:-}" ] || objcopy --remove-section="$REMOVE" "$1.o"; } && ar "${AR:-rcD}" "libx.a" "$1.o")
    run=$((run + 1))
    if sh "$check" "${KIND:-library}" "$directory/libx.a" >"$directory/log" 2>&1; then verdict=ok; else verdict=offence; fi
    if [ "$2" = ok ]; then
        [ $verdict = ok ] || { echo "$1: refused:"; cat "$directory/log"; failed=1; }
    elif [ $verdict = ok ] || ! grep -q "$2" "$directory/log"; then
        echo "$1: should be refused for \"$2\":"
        cat "$directory/log"
        failed=1
    fi
}
FLAGS=-fno-common

attempt clean ok <<'C'
#include <string.h>
static const char *const names[] = {"a", "b"};
const char *glint_name(int i) { return names[i & 1]; }
void glint_copy(void *a, const void *b, size_t n) { memcpy(a, b, n); }
C
for call in 'malloc(1)' 'exit(1)' 'abort()' 'printf("x")' 'getenv("x")' 'pthread_self()' 'exp(1.0)' '__stack_chk_fail()'; do
    name=$(echo "$call" | tr -dc 'a-z_')
    attempt "call_$name" 'calls what it must not' <<C
void glint_call(void) { $call; }
C
done
attempt pointers 'tables of addresses' <<'C'
#define FOUR(a) a, a, a, a
#define SIXTY_FOUR(a) FOUR(FOUR(FOUR(#a)))
static const char *const names[] = {SIXTY_FOUR(a), SIXTY_FOUR(b), "c"};
const char *glint_name(int i) { return names[i & 127]; }
C
attempt mutable_static 'keeps state' <<'C'
int glint_next(void) { static int n = 7; return n++; }
C
attempt zero_static 'keeps state' <<'C'
int glint_next(void) { static int n; return n++; }
C
attempt thread_local 'keeps state' <<'C'
_Thread_local int glint_n;
C
attempt constructor 'keeps state' <<'C'
__attribute__((constructor)) void glint_early(void) {}
C
FLAGS=-fcommon
attempt common 'common symbol' <<'C'
int glint_shared;
C
FLAGS=-fno-common
attempt executable_stack 'executable stack' <<'C'
int glint_call(int (*f)(int (*)(int)), int k) { int inner(int x) { return x + k; } return f(inner); }
C
REMOVE=.note.GNU-stack
attempt silent_stack 'says nothing' <<'C'
int glint_zero(void) { return 0; }
C
REMOVE=
attempt foreign_name 'name without glint_' <<'C'
int helper(int x) { return x; }
C
attempt variable_array 'run-time size' <<'C'
int glint_sum(int n, int (*f)(int *)) { int a[n]; a[0] = 1; return f(a); }
C
attempt wide_frame 'largest frame' <<'C'
int glint_sum(int (*f)(int *)) { int a[2000]; a[0] = 1; return f(a); }
C
AR=rcU
attempt dated 'date or owner' <<'C'
int glint_zero(void) { return 0; }
C
AR=rcD
attempt path 'path of the build' <<'C'
const char glint_where[] = "/home/somebody/glint.c";
C
KIND=pool
attempt pool_clean ok <<'C'
#include <pthread.h>
int glint_lock(pthread_mutex_t *m) { return pthread_mutex_lock(m); }
C
attempt pool_call 'calls what it must not' <<'C'
#include <stdlib.h>
void *glint_get(void) { return malloc(3); }
C
echo "symbols_selfcheck: $((run)) archives"
[ "$run" -ge 20 ] && [ "$failed" -eq 0 ]
