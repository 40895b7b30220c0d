#!/usr/bin/env bash
# lint.sh check|format: are the C, CUDA and Lua sources formatted and free of luacheck's warnings, and do kernels keep
# the rule of sentinels.lua? `format` formats C and CUDA in place. Works on the files of the checkout, not on copies:
# run it with `./bazelw run //tools:lint` or `//tools:format`.
set -euo pipefail
cd "${BUILD_WORKSPACE_DIRECTORY:-$(dirname "$(readlink -f "$0")")/..}"

for tool in clang-format luacheck; do
    command -v "$tool" >/dev/null || {
        echo "$tool is not installed. Debian and Ubuntu: apt install clang-format lua-check" >&2
        exit 1
    }
done

# Emitted files are as readable as their templates are, and are left alone.
sources() {
    git ls-files --cached --others --exclude-standard -- "$@" | grep -v '^generated/golden/.*\.cu\?$' | while IFS= read -r file; do
        [ ! -f "$file" ] || printf '%s\n' "$file"
    done
}
mapfile -t c_files < <(sources '*.c' '*.h' '*.cu' '*.cuh')
mapfile -t lua_files < <(sources '*.lua')

if [ "${1:-check}" = format ]; then
    clang-format -i "${c_files[@]}"
    exit
fi
status=0
for file in "${c_files[@]}"; do
    clang-format --dry-run -Werror "$file" 2>/dev/null || { echo "$file: not as clang-format would have it" && status=1; }
done
luacheck --quiet --no-color "${lua_files[@]}" || status=1
"$(command -v lua5.4 || command -v lua)" tools/comments.lua "${c_files[@]}" "${lua_files[@]}" || status=1
mapfile -t kernel_files < <(sources 'lib/device/*.h' 'lib/cpu/*.[ch]' 'lib/cuda/*.[ch]' 'lib/cuda/*.cu' 'gen/templates/*.lua')
"$(command -v lua5.4 || command -v lua)" tools/sentinels.lua "${kernel_files[@]}" || status=1
if [ $status = 0 ]; then
    echo "lint: ${#c_files[@]} C and CUDA files and ${#lua_files[@]} Lua files are clean"
else
    echo "lint: ./bazelw run //tools:format formats C and CUDA; luacheck's warnings are for you to judge"
fi
exit $status
