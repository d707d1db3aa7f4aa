#!/usr/bin/env bash
# Runs the quickstart, then shows its result table and says where its report is. Called by make demo.
set -euo pipefail

status=0
.venv/bin/iolab run labs/quickstart.yaml || status=$?
((status <= 1)) || exit "$status"  # 1: it ran, but some trials failed; the report says which

run=$(ls -td runs/*/ | head -n 1)
.venv/bin/iolab show "${run%/}"
.venv/bin/iolab report "${run%/}" --format html
exit "$status"
