#!/bin/sh
# floors_test.py with the system's Python, where there is one.
command -v python3 >/dev/null 2>&1 || {
    echo "skipped: no python3"
    exit 0
}
exec python3 bench/floors/floors_test.py
