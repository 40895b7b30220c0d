#!/bin/sh
# The tar as its user gets it, outside Bazel: unpacked, found by pkg-config and by CMake, compiled against by gcc as C
# and C++, linked and run; also through a shared library, with the pool, and with nothing but -lglint and what glint.pc
# says.
#
#   dist.sh TAR
set -eu
LC_ALL=C
export LC_ALL
tar=$(readlink -f "$1")
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/dist.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
checks=0
ok() {
    checks=$((checks + 1))
    echo "ok $checks: $1"
}
fail() {
    echo "dist: $1" >&2
    exit 1
}

# The tar's own bytes tell nothing of when, where and by whom it was made.
tar --list --verbose --numeric-owner --full-time --file "$tar" >list
awk '$2 != "0/0" || $4 != "1970-01-01" { print; bad = 1 } END { exit bad }' list || fail 'an entry has an owner or a date'
awk '{ print $6 }' list >names
sort -c names || fail 'the entries are not sorted'
[ "$(cut -d/ -f1 names | sort -u)" = glint ] || fail 'more than one folder at the top'
ok 'no dates, no owners, sorted'
mkdir elsewhere && tar --extract --file "$tar" --directory elsewhere
root=$(readlink -f "$work/elsewhere/glint")
for file in include/glint.h lib/libglint.a lib/libglint_pool.a lib/pkgconfig/glint.pc lib/cmake/glint/glint-config.cmake \
    share/glint/report.txt; do
    [ -s "$root/$file" ] || fail "no $file"
done
ok 'the files are there'

# Unpacked anywhere: glint.pc finds its own prefix.
command -v pkg-config >/dev/null || fail 'pkg-config is not installed'
PKG_CONFIG_PATH=$root/lib/pkgconfig
export PKG_CONFIG_PATH
cflags=$(pkg-config --cflags glint) || fail 'pkg-config does not find glint'
libs=$(pkg-config --libs glint)
static_libs=$(pkg-config --static --libs glint)
version=$(pkg-config --modversion glint)
header_version=$(sed -n 's/^#define GLINT_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$root/include/glint.h" | paste -sd.)
[ "$version" = "$header_version" ] || fail "glint.pc says $version, glint.h $header_version"
include=$(echo "$cflags" | sed 's/^ *-I *//; s/ *$//')
[ "$(readlink -f "$include/glint.h")" = "$root/include/glint.h" ] || fail "--cflags are $cflags"
ok 'glint.pc finds its own place, and has the version of glint.h'

cat >host.h <<'C'
#include <glint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* One row, one query, one key: O = V and LSE = softmax_scale * <q, k>, through the first variant that runs here. */
static int host(void)
{
    _Alignas_64 static unsigned char storage[65536];
    _Alignas_256 static unsigned char workspace[1 << 26];
    static float q[1024], k[1024], v[1024], o[1024], lse[1];
    struct glint_context *context = NULL;
    struct glint_options options = GLINT_OPTIONS_INIT;
    options.device = GLINT_DEVICE_CPU;
    if (glint_context_size() > sizeof storage) return 2;
    if (glint_context_init(storage, sizeof storage, &options, &context) != GLINT_OK) return 3;
    for (unsigned i = 0; i < 1024; i++) q[i] = 0.5f, k[i] = 0.25f, v[i] = (float)i;
    int ran = 0;
    for (int head_dim = 8; head_dim <= 1024; head_dim += 8) {
        for (int mask = GLINT_MASK_NONE; mask <= GLINT_MASK_CAUSAL_BOTTOM_RIGHT; mask++) {
            struct glint_problem problem;
            struct glint_plan plan;
            struct glint_tensors tensors = GLINT_TENSORS_INIT;
            glint_problem_bshd(&problem, GLINT_F32, 1, 1, 1, 1, 1, head_dim);
            problem.mask = (uint32_t)mask;
            if (glint_plan(context, &problem, GLINT_FORWARD, &plan) != GLINT_OK) continue;
            tensors.q = q, tensors.k = k, tensors.v = v, tensors.o = o, tensors.lse = lse;
            if (plan.workspace_bytes > sizeof workspace) return 4;
            if (glint_forward(&plan, &tensors, workspace, plan.workspace_bytes, NULL) != GLINT_OK) return 5;
            const float expected = problem.softmax_scale * 0.125f * (float)head_dim;
            if (lse[0] - expected > 1e-4f || expected - lse[0] > 1e-4f) return 6;
            for (int i = 0; i < head_dim; i++)
                if (o[i] - (float)i > 1e-3f || (float)i - o[i] > 1e-3f) return 7;
            ran++;
        }
    }
    printf("%d.%d.%d: %u variants, %d problems answered\n", GLINT_VERSION_MAJOR, GLINT_VERSION_MINOR, GLINT_VERSION_PATCH,
           glint_variant_count(), ran);
    if (glint_context_close(context) != GLINT_OK) return 8;
    return glint_variant_count() > 0 && ran > 0 ? 0 : 9;
}
C
cat >host.c <<'C'
#define _Alignas_64 _Alignas(64)
#define _Alignas_256 _Alignas(256)
#include "host.h"
int main(void) { return host(); }
C
cat >host.cc <<'C'
#define _Alignas_64 alignas(64)
#define _Alignas_256 alignas(256)
#include "host.h"
int main() { return host(); }
C
strict='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Werror'
# shellcheck disable=SC2086 # the flags are words
{
    gcc -std=c11 $strict -Wstrict-prototypes $cflags host.c $libs -o host_c
    ./host_c || fail "the C program gives $?"
    ok 'a C11 program links and runs'
    gcc -std=gnu2x $strict -O2 -flto $cflags host.c $static_libs -static -o host_static 2>log || { cat log; fail 'does not link statically'; }
    ./host_static || fail "the static program gives $?"
    ok 'a fully static program links and runs'
    if command -v g++ >/dev/null; then
        for standard in c++11 c++17 c++20; do
            # a struct and a function are both called glint_plan, as stat and stat() are: -Wshadow has an opinion on
            # that in C++
            g++ -std=$standard $strict -Wno-shadow $cflags host.cc $libs -o host_cc 2>log ||
                { cat log; fail "glint.h as $standard"; }
            ./host_cc || fail "the $standard program gives $?"
        done
        ok 'C++11, C++17 and C++20 programs link and run'
    fi
    printf '#include <glint.h>\n#include <glint.h>\n#include "glint.h"\nint main(void) { return 0; }\n' >twice.c
    gcc -std=c99 $strict $cflags twice.c -o twice && gcc -std=c11 -ffreestanding $strict $cflags -c twice.c
    ok 'the header stands alone, twice, as C99 and freestanding'

    # Objects are position independent: the archive can go into a shared library, whose only exports are the host's.
    printf '#include <glint.h>\nuint32_t host_rows(void);\nuint32_t host_rows(void) { return glint_variant_count(); }\n' >plugin.c
    gcc -std=c11 -fPIC -shared $cflags plugin.c $libs -o libplugin.so
    nm --dynamic --defined-only libplugin.so | awk '{ print $3 }' | grep '^glint_' && fail 'the library exports from a shared library'
    ok 'goes into a shared library, and exports nothing from it'

    cat >pool.c <<'C'
#include <glint.h>
#include <stdlib.h>
static void body(void *argument, uint32_t index) { ((int *)argument)[index] = 1; }
int main(void)
{
    struct glint_pool *pool;
    struct glint_executor executor;
    int done[2] = {0, 0};
    void *storage = aligned_alloc(64, (glint_pool_size(2) + 63) / 64 * 64);
    if (glint_pool_init(storage, glint_pool_size(2), 2, &pool, &executor) != GLINT_OK) return 1;
    executor.parallel_for(executor.user, 2, body, done);
    return glint_pool_close(pool) == GLINT_OK && done[0] && done[1] ? 0 : 2;
}
C
    gcc -std=c11 $strict $cflags pool.c -L"$root/lib" -lglint_pool -pthread -o pool
    ./pool || fail "the pool's program gives $?"
    ok 'the pool links alone and runs'

    # find_package(glint), from a folder that was moved after it was unpacked. Without CMake this is left out.
    if command -v cmake >/dev/null; then
        mkdir project
        cp host.c host.h project
        cp pool.c project
        cat >project/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.10)
project(host C)
set(CMAKE_C_STANDARD 11)
find_package(glint 0.1 REQUIRED)
add_executable(host host.c)
target_link_libraries(host glint::glint)
add_executable(pool pool.c)
target_link_libraries(pool glint::pool)
CMAKE
        mv "$root" "$work/moved"
        cmake -S project -B project/build -Dglint_DIR="$work/moved/lib/cmake/glint" >log 2>&1 && cmake --build project/build >>log 2>&1 ||
            { cat log; fail 'a CMake project does not build'; }
        project/build/host && project/build/pool || fail "the CMake project's programs give $?"
        grep -qF "PACKAGE_VERSION $version)" "$work/moved/lib/cmake/glint/glint-config-version.cmake" || fail "CMake's version is not $version"
        sed 's/glint 0.1 REQUIRED/glint 0.2 REQUIRED/' project/CMakeLists.txt >log && cp log project/CMakeLists.txt
        cmake -S project -B project/other -Dglint_DIR="$work/moved/lib/cmake/glint" >log 2>&1 && fail 'version 0.2 is found in 0.1'
        grep -rq "$work\|/home\|/usr" "$work/moved/lib/cmake" "$work/moved/lib/pkgconfig" && fail 'an absolute path'
        mv "$work/moved" "$root"
        ok 'a CMake project finds it where it lies, builds and runs'
    else
        echo 'SKIPPED: find_package(glint), as there is no cmake'
    fi

    # A program needs no CUDA, no C++ library, no threads: what it loads is the C library and what glint.pc names.
    ldd host_c | awk '{ print $1 }' | grep -Ev '^(linux-vdso|lib[cm]\.so|libdl\.so|/lib)' && fail 'needs more than the C library'
    ok 'needs the C library alone'
}

# The bill of materials names each source once, with its sums; it is that of the header that lies beside it.
spdx=$root/share/glint/glint.spdx
grep -qx "PackageVersion: $version" "$spdx" || fail "glint.spdx is not of $version"
[ "$(sed -n '/^FileName: .\/lib\/glint.h$/,/^$/s/^FileChecksum: SHA256: //p' "$spdx")" = "$(sha256sum "$root/include/glint.h" | cut -c1-64)" ] ||
    fail 'glint.spdx has another glint.h'
[ "$(grep -c ^FileName: "$spdx")" -gt 100 ] && [ -z "$(grep ^FileName: "$spdx" | sort | uniq -d)" ] || fail 'files of glint.spdx'
grep -q 'FileName: ./\(external\|bazel-out\|/\)' "$spdx" && fail 'a path of the build in glint.spdx'
ok "glint.spdx has $(grep -c ^FileName: "$spdx") files"

awk 'NR > 3' "$root/share/glint/report.txt" | grep -q . || fail 'the report is empty'
ok 'the report has rows'
[ "$checks" -ge 9 ] || fail "only $checks checks"
echo "dist: $checks checks"
