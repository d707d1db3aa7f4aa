#!/usr/bin/env bash
# Runs an experiment, by default the quickstart, which ends with its result table, then writes the report and says where
# it is. Where the host cannot run the quickstart, as in a container without privileges, labs/loopback.yaml takes its
# place. Called by make demo: demo.sh [FILE [OPTION ...]]
set -euo pipefail
shopt -s nullglob

readonly CANNOT=3  # exit status of iolab where the host cannot do it: nothing was made
before=(runs/*/)
status=0
.venv/bin/iolab run "${1:-labs/quickstart.yaml}" "${@:2}" || status=$?
if (($# == 0 && status == CANNOT)); then
    status=0
    echo "This host cannot run labs/quickstart.yaml, for the reason above; labs/loopback.yaml needs no namespaces:"
    .venv/bin/iolab run labs/loopback.yaml || status=$?
fi
after=(runs/*/)  # the names begin with the time: the last is the newest
((status <= 1 && ${#after[@]} > ${#before[@]})) || exit "$status"  # 1: some trials failed; the report says which

echo "The report has all tables and charts, the lab and every command; open it in a browser:"
.venv/bin/iolab report "${after[-1]%/}" --format html
exit "$status"
