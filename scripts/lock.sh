#!/usr/bin/env bash
# Locks the newest allowed Python packages, with their hashes and no addresses, for every Python from 3.11 up.
set -euo pipefail
export UV_SYSTEM_CERTS=1 UV_NO_CONFIG=1 UV_CUSTOM_COMPILE_COMMAND='make requirements'

lock() {
    .venv/bin/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
        --no-emit-index-url --no-emit-find-links "$1" -o "requirements/$2.txt"
}

lock requirements/tools.in tools
lock pyproject.toml run
lock requirements/library.in library
lock requirements/dev.in dev
