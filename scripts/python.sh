#!/usr/bin/env bash
# Finds a Python that is new enough, and makes .venv from the locked requirements. Installs nothing outside .venv.
# Called by make: python.sh find | run | dev
set -euo pipefail

readonly MIN_PYTHON='(3, 11)'
export UV_SYSTEM_CERTS=1 UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never PIP_DISABLE_PIP_VERSION_CHECK=1

main() {
    case $1 in
        find) find_python ;;
        run | dev)
            make_venv
            install_locked "$1"
            ;;
        *) echo "python.sh: seen '$1', allowed: find, run, dev" >&2; exit 2 ;;
    esac
}

# The system's Python comes first: every user of the machine can read it, one in somebody's home only that user.
# Debian's python3 without python3-venv has no ensurepip, which a new .venv needs.
find_python() {
    local python
    for python in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
        if "$python" -c "import sys, venv, ensurepip; sys.exit(sys.version_info < $MIN_PYTHON)" 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    return 1
}

make_venv() {
    .venv/bin/python -m pip --version >/dev/null 2>&1 || "$(find_python)" -m venv --clear .venv
    .venv/bin/python -m pip install -q --require-hashes -r requirements/tools.txt || offline
}

install_locked() {
    .venv/bin/uv pip install -q --compile-bytecode --python .venv/bin/python --require-hashes -r "requirements/$1.txt" || offline
}

offline() {
    echo "setup: Python's package index did not give what requirements/*.txt lock (see above); is there a network?" >&2
    exit 1
}

main "$@"
