#!/usr/bin/env bash
# Runs every static check, all at once, says what failed and exits 1 if any did. Changes nothing. Called by make lint.
# A check whose program cannot be had is named and passed over, unless CI is set: then it counts as failed.
set -uo pipefail

said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
names=()
checks=()
failed=()
absent=()

main() {
    check "mypy" .venv/bin/mypy --no-error-summary
    check_rust "cargo clippy" clippy cargo clippy -q --workspace --all-targets --locked -- -D warnings
    check "cargo doc" env RUSTDOCFLAGS=-Dwarnings cargo doc -q --workspace --no-deps --locked
    check_rust "cargo fmt" rustfmt cargo fmt --all --check
    check "ruff check" .venv/bin/ruff check -q
    check "ruff format" .venv/bin/ruff format -q --check --diff
    check "lint-imports" .venv/bin/lint-imports --no-logo
    check "codespell" bash -c 'git ls-files -z | xargs -0 .venv/bin/codespell'
    check "check_tree" .venv/bin/python scripts/check_tree.py
    check "check_licences" .venv/bin/python scripts/check_licences.py
    report

    ((${#absent[@]} == 0)) || echo "lint: NOT CHECKED: ${absent[*]}"
    if ((${#failed[@]})); then
        (IFS=,; echo "lint: FAILED: ${failed[*]}")
        exit 1
    fi
    echo "lint: passed"
}

check() {
    local name=$1
    shift
    "$@" >"$said/${#names[@]}" 2>&1 &
    names+=("$name")
    checks+=($!)
}

check_rust() {
    local name=$1 component=$2
    shift 2
    if "${@:1:2}" --version >/dev/null 2>&1; then
        check "$name" "$@"
    else
        echo "lint: $name is not here; with rustup: rustup component add $component"
        absent+=("$name")
        [[ -z ${CI:-} ]] || failed+=("$name")
    fi
}

report() {
    local number
    for number in "${!names[@]}"; do
        if wait "${checks[number]}"; then
            echo "lint: ${names[number]}: ok"
        else
            cat "$said/$number"
            echo "lint: ${names[number]}: FAILED"
            failed+=("${names[number]}")
        fi
    done
}

main
