#!/usr/bin/env bash
# Runs the quickstart, which ends with its result table, then writes the report and says where it is. Called by make demo.
set -euo pipefail

status=0
.venv/bin/iolab run labs/quickstart.yaml || status=$?
((status <= 1)) || exit "$status"  # 1: it ran, but some trials failed; the report says which

runs=(runs/*/)  # the names begin with the time: the last is the newest
echo "The report:"
.venv/bin/iolab report "${runs[-1]%/}" --format html
exit "$status"
