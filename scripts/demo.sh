#!/usr/bin/env bash
# Runs an experiment, by default the quickstart, which ends with its result table, then writes the report and says where
# it is. Called by make demo: demo.sh [FILE [OPTION ...]]
set -euo pipefail
shopt -s nullglob

before=(runs/*/)
status=0
.venv/bin/iolab run "${1:-labs/quickstart.yaml}" "${@:2}" || status=$?
after=(runs/*/)  # the names begin with the time: the last is the newest
((status <= 1 && ${#after[@]} > ${#before[@]})) || exit "$status"  # 1: some trials failed; the report says which

echo "The report has all tables and charts, the lab and every command; open it in a browser:"
.venv/bin/iolab report "${after[-1]%/}" --format html
exit "$status"
