#!/usr/bin/env bash
# Runs the static checks and the tests of both languages, all of them even when the first fail, and exits 1 if any did.
# Called by make test.
set -uo pipefail
status=0
scripts/lint.sh || status=1
# The agent's own tests boot it as a guest's first process; the folder of the image is the last word printed.
image=$(.venv/bin/iolab image build linux) && export IOLAB_IMAGE=${image##* }
cargo test -q --workspace --locked --no-fail-fast || status=1
.venv/bin/pytest -q -m "not perf and not hardware" || status=1
exit $status
