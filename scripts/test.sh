#!/usr/bin/env bash
# Runs the static checks and the tests of both languages, even when the first fail, and exits 1 if any did.
#   test.sh core   every check, every unit test, and each kind of lab test once: make test
#   test.sh all    the core, then the tests that are marked `full` (Rust: `ignore = "full: ..."`): make test-all
#   test.sh rust   of these, what only computes: in a session of its own, which gives way to all others
# What does not measure runs in groups, as many in parallel as there are CPUs: an emulated guest that shares a CPU with
# four others is late for everything. The output of a group is shown when it has ended, and is in build/GROUP.log.
# A group that hangs is ended; its last lines then say in which test it was.
# Called by make, which has set up Python; the agent is built here, in parallel with its tests.
set -uo pipefail
unset PYTHONDONTWRITEBYTECODE  # the tests start hundreds of programs: each would compile all that it imports

readonly MAX_RETRIES=3
status=0
declare -A groups=()  # by process
logs=()
cpus=$(nproc)
places=$cpus
limit_s=3600
niceness=0
tests=(--durations=10 --durations-min=5)
# A test that another program of the host disturbed is tried again, is shown as RERUN, and counts against MAX_RETRIES.
again=(--reruns 2)
measuring=(tests/netns/test_{pacer,verify_shaper,wire_on_port,wires}.py tests/guest/test_wires.py)
parents=(tests/guest/test_{parents,sites,xen_hosts}.py)
# They look at all disks and volumes of the host, as tests with guests make them: not in parallel with those.
disks=(tests/netns/test_{claims,disks,existing_devices,existing_targets}.py)
elsewhere=(tests/guest/image "${parents[@]}" "${measuring[@]}")
guests=(tests/guest "${disks[@]}" "${elsewhere[@]/#/--ignore=}")
# The other files, in four parts.
parts=(tests/browser)
number=0
for file in tests/netns/test_*.py; do
    [[ " ${disks[*]} ${measuring[*]} " == *" $file "* ]] || parts[number++ % 4]+=" $file"
done

main() {
    mkdir -p build
    case ${1:-} in
        core) core ;;
        all) core && full ;;
        rust) idle_rust; exit ;;
        *) echo "test.sh: read '${1:-}', allowed: core, all" >&2; exit 2 ;;
    esac
    summarize
    exit $status
}

core() {
    begin compile cargo test -q --workspace --locked --no-run
    make setup || { await; exit 1; }
    begin lint scripts/lint.sh
    niceness=10 begin units pytest_set core --numprocesses 2 --dist worksteal tests/unit
    images linux
    # Those with guests have the CPU first: frames are lost while a guest waits for one.
    begin guests pytest_set core "${again[@]}" "${guests[@]}"
    begin agent rust_tests
    labs core
    echo "test: the core ended after $SECONDS s"
}

full() {
    local places=$((cpus + 1))  # one more, for what has only the CPU time that no guest wants
    images nested xen host qemu linux-backports:nginx-light
    begin parents-full pytest_set full "${again[@]}" "${parents[@]}"
    begin guests-full pytest_set full "${again[@]}" "${guests[@]}"
    begin rust-full setsid bash "$0" rust
    begin agent-full rust_tests_with_guests
    labs full
}

# What is left: tests in namespaces and in a browser, then those that measure.
labs() {
    local part places=$((cpus + 1))  # they wait more than they compute: one group more than there are CPUs
    for part in "${!parts[@]}"; do
        niceness=10 begin "others-$part-$1" pytest_set "$1" "${again[@]}" ${parts[part]}
    done
    await
    # Those that measure have the host to themselves.
    limit_s=900 begin "measuring-$1" pytest_set "$1" "${again[@]}" "${measuring[@]}"
    await
}

# Runs those of the given tests that are in a set, in separate namespaces: a group must not see what the others make.
pytest_set() {
    local marks="not perf and not hardware"
    [[ $1 == full ]] && marks="full and $marks" || marks="not full and $marks"
    apart nice -n "$niceness" .venv/bin/pytest -q "${tests[@]}" -m "$marks" "${@:2}"
    local ended=$?
    ((ended == 5)) || return "$ended"  # 5: no test of these files is in the set
}

rust_tests() {
    local run=(limited nice -n 5 cargo test -q --workspace --locked --no-fail-fast)
    "${run[@]}" || { echo "test: 1 rerun: Rust"; "${run[@]}"; }
}

# The agent as a guest's first process, and the images; building one uses the host's own network.
rust_tests_with_guests() {
    local image ended=0
    image=$(.venv/bin/iolab image build linux) && export IOLAB_IMAGE=${image##* }  # the last word is its folder
    local run=(limited nice -n 5 cargo test -q --locked -p iolab-agent --test guest -- --ignored)
    "${run[@]}" || { echo "test: 1 rerun: Rust"; "${run[@]}" || ended=1; }
    limited nice -n 5 .venv/bin/pytest -q "${tests[@]}" "${again[@]}" tests/guest/image && return "$ended"
}

# Rust tests that compute for minutes, in CPU time that nobody else wants. Where the kernel shares CPUs among sessions,
# as guests' agents have, niceness counts within a session alone: the whole session is niced.
idle_rust() {
    local check ended=0
    chrt --idle --pid 0 $$ && { [[ ! -w /proc/$$/autogroup ]] || echo 19 >/proc/$$/autogroup; }
    for check in fuzz oldest_rust undefined_behaviour; do "$check" || { failed "$check"; ended=1; }; done
    return "$ended"
}

# Damaged frames, recordings, requests, and texts and messages of the kernel, for about a minute each.
fuzz() {
    local run=(limited env IOLAB_FUZZ_CASES=1000000 IOLAB_CASES=40000 cargo test -q --locked)
    "${run[@]}" -p iolab-frame --test robustness && "${run[@]}" -p iolab-protocol --test robustness &&
        "${run[@]}" -p iolab-samplers --lib robustness
}

# Whether the oldest Rust that Cargo.toml allows builds everything.
oldest_rust() {
    local version
    version=$(sed -nE 's/^rust-version = "(.*)"/\1/p' Cargo.toml)
    rustup --version >/dev/null 2>&1 || { echo "skipped: needs rustup, for Rust $version"; return 0; }
    limited env CARGO_TARGET_DIR="$PWD/build/rust-$version" rustup run --install "$version" \
        cargo check -q --workspace --all-targets --locked && echo "test: Rust $version builds it"
}

# The rings that two threads share, under Miri; from outside the checkout, for Miri cannot use its wrapper of rustc.
undefined_behaviour() {
    cargo +nightly miri --version >/dev/null 2>&1 || { echo "skipped: needs Miri: rustup toolchain install nightly -c miri"; return 0; }
    local manifest=$PWD/Cargo.toml target=$PWD/build/miri
    (cd / && CARGO_TARGET_DIR=$target limited cargo +nightly miri test -q --manifest-path "$manifest" -p iolab-port --lib ring)
}

# Builds the images that guests start from. Tests of guests are skipped where that is not permitted.
images() { ! may_isolate || limited .venv/bin/iolab image build "$@" || failed images; }

# Begins a group as soon as there is a place for it.
begin() {
    while ((${#groups[@]} >= places)); do await_one; done
    "${@:2}" >"build/$1.log" 2>&1 & groups[$!]=$1
}

await() { while ((${#groups[@]})); do await_one; done; }

# Waits until a group ends, and shows its output.
await_one() {
    local ended
    wait -n -p ended "${!groups[@]}" || failed "${groups[$ended]}"
    cat "build/${groups[$ended]}.log"
    echo "test: ${groups[$ended]} ended after $SECONDS s"
    logs+=("build/${groups[$ended]}.log")
    unset "groups[$ended]"
}

failed() { echo "test: FAILED: $*"; status=1; }

# Shows the closing line of each runner, why tests were skipped, and how many were tried again.
summarize() {
    local log retries
    echo "test: summary"
    for log in "${logs[@]}"; do closing_line "$log"; done
    echo "test: skipped"
    skipped
    retries=$(grep -ahoE '[0-9]+ rerun' "${logs[@]}" | awk '{ count += $1 } END { print count + 0 }')
    echo "test: second tries: $retries (at most $MAX_RETRIES)"
    sed -nE -e 's/^=+ (tried again: .*) =+$/  \1/p' -e 's/^test: 1 rerun: (.*)/  tried again: \1/p' "${logs[@]}"
    ((retries <= MAX_RETRIES)) || failed "second tries"
    ((status)) || echo "test: passed after $SECONDS s"
}

closing_line() {
    awk -v group="$(basename "$1" .log)" '
        /^test result:/ { rust = 1; passed += $4; failed += $6; ignored += $8 }
        / (passed|failed|skipped|deselected|errors?)(, .*)? in [0-9.]+s/ || /^no tests ran/ { python = $0 }
        /^lint: (passed|FAILED)/ { python = $0 }
        END {
            if (rust) printf "  %-14s %d passed, %d failed, %d ignored (Rust)\n", group, passed, failed, ignored
            if (python != "") printf "  %-14s %s\n", group, python
        }' "$1"
}

# Reasons with the number of tests; pytest has them as SKIPPED [NUMBER] PLACE: REASON, tests of Rust write one line each.
skipped() {
    sed -nE -e 's/^SKIPPED \[([0-9]+)\] [^ ]+: /\1 /p' -e 's/^.*\bskipped( [a-z0-9_]+)?: /1 /p' "${logs[@]}" |
        awk '{ count = $1; $1 = ""; sums[$0] += count } END { for (why in sums) printf "  %4d%s\n", sums[why], why }' |
        sort -rn
}

# The files of volumes are in /var/tmp: a folder of its own hides what a killed test has left there.
apart() {
    local ended own
    may_isolate || { limited "$@"; return; }
    own=$(mktemp -d -p /var/tmp iolab-tests.XXXXXX) && chmod 1777 "$own"
    limited unshare --mount --net sh -c 'mount -t tmpfs tmpfs /run && mount --bind "$0" /var/tmp && ip link set lo up &&
        exec "$@"' "$own" "$@"
    ended=$?
    rm -rf --one-file-system "$own"
    return "$ended"
}

may_isolate() { unshare --mount --net true 2>/dev/null; }

# A process in the background of a script ignores SIGINT, by which pytest says which test did not end.
limited() { timeout --signal=INT --kill-after=60 "$limit_s" env --default-signal=INT "$@"; }

main "$@"
