# Sets up, builds and checks iolab. Each target does all the set-up it needs; a second call starts at once.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules --no-print-directory

BIN := .venv/bin
RUST := $(wildcard Cargo.toml Cargo.lock .cargo/config.toml) $(shell find crates -name '*.rs' -o -name Cargo.toml 2>/dev/null)

# A .venv cannot be moved, and dies with its Python: then it is made again.
$(shell { [ -x $(BIN)/python ] && grep -qs '$(CURDIR)/.venv/bin/python' $(BIN)/pip $(BIN)/iolab; } || rm -rf .venv)

.PHONY: help setup demo demo-forwarding demo-storage demo-wire test test-all test-unit coverage lint format protocol messages stats bench wheel requirements clean packages packages-storage packages-test

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

setup: packages $(BIN)/iolab-agent  ## everything that .venv/bin/iolab needs

demo: setup  ## run labs/quickstart.yaml and print its result table and report
	@scripts/demo.sh

demo-forwarding: setup  ## run labs/forwarding.yaml: frames per second through a namespace (5 minutes)
	@scripts/demo.sh labs/forwarding.yaml

demo-storage: setup packages-storage  ## run labs/iscsi.yaml: disk programs, local, over iSCSI, in a guest (10 minutes)
	@$(BIN)/iolab image build linux
	@scripts/demo.sh labs/iscsi.yaml

demo-wire: setup  ## run the short forms of labs/rate-control, long-path and bufferbloat.yaml (5 minutes)
	@for lab in rate-control long-path bufferbloat; do scripts/demo.sh labs/$$lab.yaml --quick; done

test: packages-test $(BIN)/.iolab-dev  ## every check and unit test, and each kind of lab test once (8 minutes)
	@scripts/test.sh core

test-all: packages-test $(BIN)/.iolab-dev  ## the same, then the longer lab tests (40 minutes)
	@scripts/test.sh all

test-unit: $(BIN)/.iolab-dev $(BIN)/iolab-agent  ## the tests that need no root and no lab
	@$(BIN)/pytest -q -n 2 --dist worksteal tests/unit

coverage: $(BIN)/.iolab-dev $(BIN)/iolab-agent  ## which lines of python/iolab the unit tests run; programs they start do not count
	@COVERAGE_FILE=build/coverage $(BIN)/pytest -q -n 2 --dist worksteal --cov=iolab --cov-report=term:skip-covered tests/unit

lint: packages-test $(BIN)/.iolab-dev $(BIN)/iolab-agent  ## style, types, layers, sizes; Python and Rust
	@scripts/lint.sh

format: $(BIN)/.iolab-dev  ## format both languages
	@$(BIN)/ruff format -q
	@cargo fmt --all

protocol: $(BIN)/.iolab-dev  ## write the schema, module and tables of the messages of the agent
	@IOLAB_RECORD=1 cargo test -q -p iolab-agent --bin iolab-agent committed_schema_is_current
	@$(BIN)/python scripts/protocol.py

messages: $(BIN)/.iolab-run  ## print every message with sample values
	@PYTHONPATH=python $(BIN)/python scripts/messages.py

stats: $(BIN)/.iolab-run  ## count the weight of the code base
	@$(BIN)/python scripts/stats.py

bench: setup $(BIN)/.iolab-dev  ## measure iolab itself; BENCH="cost/startup pacer" runs only those (hours without)
	@$(BIN)/python -m benches $(BENCH)

wheel: packages $(BIN)/.iolab-run  ## build the one wheel, with the agent inside, in build/wheel
	@scripts/packages.sh build
	@rm -rf build/wheel
	@$(BIN)/maturin build --release --locked --out build/wheel --compatibility linux

requirements: $(BIN)/.iolab-run  ## lock the newest allowed Python packages again
	@scripts/lock.sh

clean:  ## delete everything that was built; runs/ stays
	rm -rf .venv build target .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find python tests -name __pycache__ -type d -prune -exec rm -rf {} +

packages:
	@scripts/packages.sh run $(if $(wildcard $(BIN)/iolab-agent),,build)

packages-test:
	@scripts/packages.sh run build lint browser capture ssh guest storage programs

packages-storage:
	@scripts/packages.sh run guest storage

$(BIN)/.iolab-run: scripts/python.sh requirements/tools.txt requirements/run.txt | packages
	@echo "setup: Python packages"
	@scripts/python.sh run
	@touch $@

$(BIN)/.iolab-dev: requirements/dev.txt $(BIN)/.iolab-run
	@echo "setup: Python packages of the checks"
	@scripts/python.sh dev
	@touch $@

$(BIN)/iolab-agent: pyproject.toml $(RUST) $(BIN)/.iolab-run
	@echo "setup: iolab and its agent"
	@$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation --reinstall --editable .
	@$(BIN)/python -m compileall -q python/iolab  # else every start compiles 350 modules where none may be written
	@touch $@
