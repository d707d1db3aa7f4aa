#!/usr/bin/env bash
# Runs the quickstart, then shows its result table and where its report is.
set -euo pipefail
.venv/bin/iolab run labs/quickstart.yaml -o runs
