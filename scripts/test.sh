#!/usr/bin/env bash
# Runs the static checks and the tests of both languages, all of them even when the first fail, and exits 1 if any did.
# Called by make test.
set -uo pipefail

status=0
failed() { echo "test: FAILED: $*"; status=1; }
tests=(.venv/bin/pytest -q --durations=10 --durations-min=5 -m "not perf and not hardware")
# Namespaces of its own: one group of tests is not to see what the other makes.
apart() {
    if [ "$(id -u)" = 0 ]; then
        unshare --mount --net sh -c 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"' sh "$@"
    else
        "$@"
    fi
}

# What guests are started from; fetching and unpacking it leaves a CPU to the checks and the compiler.
mkdir -p build
.venv/bin/iolab image build linux nested xen host qemu >build/images.log 2>&1 &
images=$!

scripts/lint.sh || failed "static checks"
cargo test -q --workspace --locked --no-run || failed "compiling the tests"
wait "$images" || failed "building guest images: $(tail -n 1 build/images.log)"

# The agent's own tests boot it as a guest's first process; the folder of the image is the last word printed.
image=$(.venv/bin/iolab image build linux) && export IOLAB_IMAGE=${image##* }
cargo test -q --workspace --locked --no-fail-fast || failed "tests of the agent"

# Beside those with guests, which mostly wait, run those that wait for other hosts or need a CPU and nothing else.
beside=(tests/unit tests/browser tests/netns/test_{cable,line,macvtap,ssh,ssh_ends}.py)
apart nice "${tests[@]}" "${beside[@]}" >build/beside.log 2>&1 &
others=$!
"${tests[@]}" tests/guest || failed "tests with guests"
wait "$others" || failed "tests beside them"
cat build/beside.log
# Those that measure have the computer to themselves.
"${tests[@]}" tests/netns "${beside[@]/#/--ignore=}" || failed "tests that measure"
exit $status
