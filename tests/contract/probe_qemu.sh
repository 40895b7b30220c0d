#!/bin/sh
# The probe on CPUs that qemu shows: with each feature of x86-64-v3 taken away, it is not seen.
# probe_qemu.sh PROGRAM
set -eu
if ! command -v qemu-x86_64 >/dev/null; then
    echo "SKIPPED: there is no qemu-x86_64; probe_test has the same bits of a CPUID that it makes up"
    exit 0
fi
failed=0
see() { # see CPU EXPECTED
    seen=$(qemu-x86_64 -cpu "$1" "$prog" 2>/dev/null | tr '\n' ' ')
    if [ "$seen" != "$2" ]; then
        echo "FAILED $1: sees '$seen', expected '$2'"
        failed=1
    fi
}
prog=$1
see max 'x86_64 x86_64_v3 '
see Haswell 'x86_64 x86_64_v3 '
see qemu64 'x86_64 '
for feature in pni ssse3 fma cx16 sse4.1 sse4.2 movbe popcnt xsave avx f16c bmi1 avx2 bmi2 lahf_lm abm; do
    see "max,-$feature" 'x86_64 '
done
exit $failed
