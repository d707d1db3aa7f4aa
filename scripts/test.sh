#!/usr/bin/env bash
# Runs the static checks and the tests of both languages, all of them even when the first fail, and exits 1 if any did.
# What does not measure runs in groups, as many side by side as there are CPUs: an emulated guest that shares a CPU with
# four others is late for everything. What a group says is shown when it has ended, and is in build/GROUP.log.
# A group that does not end is ended: what it did then is the last of its words.
# Called by make test, which has set up Python; the agent is built here, beside its tests.
set -uo pipefail
unset PYTHONDONTWRITEBYTECODE  # the tests start hundreds of programs: each would compile all that it imports

status=0
declare -A groups=()  # by process
places=$(nproc)
limit_s=3600
tests=(.venv/bin/pytest -q --durations=10 --durations-min=5 -m "not perf and not hardware")
# What another program of the computer disturbs is tried again, and shown as RERUN.
again=(--reruns 2)
measuring=(tests/netns/test_{pacer,verify_shaper,wires}.py tests/guest/test_wires.py)
parents=(tests/guest/test_{parents,sites,xen_hosts}.py)
# They look at all disks and volumes of the computer, as tests with guests make them: not beside those.
disks=(tests/netns/test_{claims,disks}.py)
# What is left, in four parts.
parts=(tests/browser)
number=0
for file in tests/netns/test_*.py; do
    [[ " ${disks[*]} ${measuring[*]} " == *" $file "* ]] || parts[number++ % 4]+=" $file"
done

main() {
    mkdir -p build
    begin compile cargo test -q --workspace --locked --no-run
    make setup || { await; exit 1; }
    begin lint scripts/lint.sh
    begin units apart nice -n 10 "${tests[@]}" --numprocesses 2 --dist worksteal tests/unit
    limited .venv/bin/iolab image build linux nested xen host qemu linux-backports:nginx-light || failed images

    # Those with guests have the CPU first: frames are lost while a guest waits for one.
    begin guests apart "${tests[@]}" "${again[@]}" tests/guest "${disks[@]}" \
        $(ignored tests/guest/image "${parents[@]}" "${measuring[@]}")
    begin parents apart "${tests[@]}" "${again[@]}" "${parents[@]}"
    begin agent test_agent
    # The others wait more than they compute: one more of their groups than there are CPUs.
    ((places += 1))
    for part in "${!parts[@]}"; do
        begin "others-$part" apart nice -n 10 "${tests[@]}" "${again[@]}" ${parts[part]}
    done
    await

    # Those that measure have the computer to themselves.
    limit_s=900
    begin measuring apart "${tests[@]}" "${again[@]}" "${measuring[@]}"
    await
    exit $status
}

# The agent's own tests boot it as a guest's first process; building an image has the computer's own network.
test_agent() {
    local image
    image=$(.venv/bin/iolab image build linux) && export IOLAB_IMAGE=${image##* }  # the last word is its folder
    local tests_of_rust=(limited nice -n 5 cargo test -q --workspace --locked --no-fail-fast) tested=0
    "${tests_of_rust[@]}" || { echo "test: RERUN: agent"; "${tests_of_rust[@]}" || tested=1; }
    limited nice -n 5 "${tests[@]}" "${again[@]}" tests/guest/image && return "$tested"
}

# Begins a group as soon as there is a place for it.
begin() {
    while ((${#groups[@]} >= places)); do await_one; done
    "${@:2}" >"build/$1.log" 2>&1 & groups[$!]=$1
}

await() { while ((${#groups[@]})); do await_one; done; }

# Waits until a group ends, and shows what it said.
await_one() {
    local ended
    wait -n -p ended "${!groups[@]}" || failed "${groups[$ended]}"
    cat "build/${groups[$ended]}.log"
    echo "test: ${groups[$ended]} ended after $SECONDS s"
    unset "groups[$ended]"
}

failed() { echo "test: FAILED: $*"; status=1; }

ignored() { printf -- '--ignore=%s\n' "$@"; }

# Namespaces of its own: one group of tests is not to see what the other makes.
apart() {
    if [ "$(id -u)" = 0 ]; then
        limited unshare --mount --net sh -c 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"' sh "$@"
    else
        limited "$@"
    fi
}

# A process in the background of a script ignores SIGINT; pytest says by it which test did not end.
limited() { timeout --signal=INT --kill-after=60 "$limit_s" env --default-signal=INT "$@"; }

main
