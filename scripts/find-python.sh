#!/bin/sh
# Prints the first Python on the PATH that Thermocline can run on, or nothing.
# --explain says on stderr what was found instead; --explain-venv says why an environment cannot be made.
names="python3 python3.14 python3.13 python3.12 python3.11 python"
check='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))'

if [ "$1" = "--explain" ]; then
    found=$(python3 --version 2>&1 || echo "no python3 at all")
    echo "Thermocline needs Python 3.11 to 3.14; this machine has $found." >&2
    echo "Install a newer one, or name it: make PYTHON=/path/to/python3.11 demo" >&2
    exit 0
fi
if [ "$1" = "--explain-venv" ]; then
    echo "This Python cannot make a virtual environment." >&2
    echo "On Debian and Ubuntu: apt install python3-venv. Then run make again." >&2
    exit 0
fi
for name in $names; do
    if command -v "$name" >/dev/null 2>&1 && "$name" -c "$check" >/dev/null 2>&1; then
        command -v "$name"
        exit 0
    fi
done
