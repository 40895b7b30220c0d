#!/bin/sh
# What is inside an archive, rule by rule: the promise that the library never kills, never prints, allocates nothing and
# keeps no state of its own, seen from the linker's side.
#
#   symbols.sh library|host|pool ARCHIVE     exit 0 and one line of figures, or one line for each offence and exit 1
set -eu
LC_ALL=C
export LC_ALL
kind=$1
archive=$2
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/symbols.XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0

offence() { # RULE, then the offenders on standard input
    while IFS= read -r line; do
        echo "$archive: $1: $line"
        failed=1
    done <"$2"
}

case $kind in
host) allowed='memcpy memmove memset memcmp' ;; # a library without a GPU family
library) allowed='memcpy memmove memset memcmp dlopen dlsym dlclose' ;;
pool)
    allowed='memcpy memmove memset memcmp
        pthread_create pthread_join pthread_attr_init pthread_attr_destroy pthread_attr_setstacksize
        pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock pthread_mutex_destroy
        pthread_cond_init pthread_cond_wait pthread_cond_signal pthread_cond_broadcast pthread_cond_destroy' ;;
*) echo "usage: symbols.sh library|host|pool ARCHIVE" >&2; exit 2 ;;
esac
[ -s "$archive" ] || { echo "$archive: no such archive" >&2; exit 2; }

# The tools of the archive's architecture, when that is not this machine's.
prefix=
if [ "$(uname -m)" != aarch64 ] && readelf --file-header "$archive" 2>/dev/null | grep -q 'Machine: *AArch64'; then
    prefix=aarch64-linux-gnu-
fi
nm() { command "${prefix}nm" "$@"; }
size() { command "${prefix}size" "$@"; }
objdump() { command "${prefix}objdump" "$@"; }

# 1. Undefined symbols: what no member defines must be on the list. (A position independent object may name the table
#    of offsets.)
nm --format=posix "$archive" | awk 'NF >= 2 && $2 != "U" && $2 != "w" && $2 != "v" { print $1 }' | sort -u >"$work/defined"
nm --format=posix --undefined-only "$archive" | awk 'NF >= 2 { print $1 }' | sort -u >"$work/undefined"
{ echo _GLOBAL_OFFSET_TABLE_; for name in $allowed; do echo "$name"; done; } | sort -u >"$work/allowed"
sort -u "$work/defined" "$work/allowed" >"$work/known"
comm -23 "$work/undefined" "$work/known" >"$work/offenders"
offence 'calls what it must not' "$work/offenders"

# 2. Nothing writable: .data, .bss, thread-local storage, and nothing that runs before main. Constants that hold
#    addresses are .data.rel.ro, which a loader writes before it makes them read-only: no more than the functions of
#    backends and families, whatever the spec. All other tables have indexes, and lie in memory that is never written.
size --format=sysv "$archive" >"$work/sizes"
awk '
    / :$|\(ex / { member = $1 }
    $1 ~ /^\.(data|bss|tdata|tbss|init_array|fini_array|ctors|dtors|preinit_array|init|fini)/ && $1 !~ /^\.data\.rel\.ro/ && $2 > 0 {
        print member " has " $2 " bytes of " $1 }' "$work/sizes" >"$work/offenders"
offence 'keeps state' "$work/offenders"
relocated=$(awk '$1 ~ /^\.data\.rel\.ro/ { bytes += $2 } END { print bytes + 0 }' "$work/sizes")
[ "$relocated" -le 1024 ] && : >"$work/offenders" || echo "$relocated bytes of .data.rel.ro; at most 1024" >"$work/offenders"
offence 'tables of addresses' "$work/offenders"
nm --format=posix "$archive" | awk '$2 == "C" || $2 == "c" { print $1 }' >"$work/offenders"
offence 'common symbol' "$work/offenders"

# 3. No member asks for an executable stack: each says so, and without X.
readelf --section-headers --wide "$archive" 2>/dev/null | awk '
    /^File:/ { if (member != "" && !seen) print member " says nothing of its stack"; member = $2; seen = 0 }
    /\.note\.GNU-stack/ { seen = 1; for (i = 1; i <= NF; i++) if ($i ~ /^[WAMSILOGTCxoEDlp]*X[WAMSILOGTCxoEDlp]*$/) print member " wants an executable stack" }
    END { if (member != "" && !seen) print member " says nothing of its stack"; if (member == "") print "no members" }' >"$work/offenders"
offence 'stack' "$work/offenders"

# 4. Every defined global is ours by name.
nm --format=posix --defined-only --extern-only "$archive" | awk 'NF >= 2 && $1 !~ /^glint_/ { print $1 }' | sort -u >"$work/offenders"
offence 'name without glint_' "$work/offenders"
globals=$(nm --format=posix --defined-only --extern-only "$archive" | awk 'NF >= 2' | wc -l)
[ "$globals" -gt 0 ] || { echo "$archive: defines nothing" >&2; exit 1; }

# 5. No stack frame of a size known only at run time, and none above the promise of 4 KiB (the depth of whole call
#    paths is measured by contract_stack.c). x86-64 only: elsewhere the measurement stands alone.
frame=0
if objdump --file-headers "$archive" 2>/dev/null | grep -q 'architecture: i386:x86-64'; then
    objdump --disassemble --no-show-raw-insn "$archive" >"$work/code"
    awk '/^[0-9a-f]+ <.*>:$/ { function_name = $2 }
         /sub +%r[a-z0-9]+,%rsp/ { print function_name " " $0 }' "$work/code" >"$work/offenders"
    offence 'frame of a run-time size' "$work/offenders"
    frame=$(awk '/(sub|add) +\$0x[0-9a-f]+,%rsp/ || /lea +-0x[0-9a-f]+\(%rsp\),%rsp/ {
             match($0, /-?0x[0-9a-f]+/); print substr($0, RSTART, RLENGTH) }' "$work/code" |
        sed 's/^-//' | sort -u | while read -r hex; do
            # sub $0xff...80 is an addition of 0x80
            case $hex in 0xffffffff????????) echo $((0x100000000 - 0x${hex#0xffffffff})) ;; *) echo $((hex)) ;; esac
        done | sort -n | tail -1)
    frame=${frame:-0}
    if [ "$frame" -gt 4096 ]; then
        echo "$frame bytes" >"$work/offenders"
        offence 'largest frame' "$work/offenders"
    fi
fi

# 6. The archive is the same wherever it is made: members sorted, without date and owner; no path of the build in it.
ar tv "$archive" | awk '$2 != "0/0" || $0 !~ / 1970 / { print }' >"$work/offenders"
offence 'date or owner' "$work/offenders"
ar t "$archive" >"$work/members"
sort "$work/members" | uniq -d >"$work/offenders"
offence 'two members of one name' "$work/offenders"
strings -a "$archive" | grep -E '(^|[^a-zA-Z0-9_.])/(home|root|tmp|build|work|usr|var)/|/execroot/|bazel-out' >"$work/offenders" || true
offence 'path of the build' "$work/offenders"

[ "$failed" -eq 0 ] || exit 1
echo "$archive: $(wc -l <"$work/members") members, $globals globals, $(wc -l <"$work/undefined") undefined, largest frame $frame bytes, .data.rel.ro $relocated bytes"
