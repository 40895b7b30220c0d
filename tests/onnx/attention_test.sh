#!/bin/sh
# attention_test.sh ATTENTION.PY CASE: the script with the system's Python, which has the package `onnx` or has not.
command -v python3 >/dev/null 2>&1 || {
    echo "skipped: no python3"
    exit 0
}
exec python3 "$1" "$2"
