"""User programs in real namespaces: exact figures, and misbehaving programs."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.netns.runs import Iolab, trials

pytestmark = pytest.mark.netns
LAB = """
title: Commands
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns}
  links:
    lan: {ends: [near.eth0, far.eth0]}
blocks: 1
measure:
"""
WEB = """
  get:
    kind: command
    on: near
    shell: |
      python3 -c "from urllib.request import urlopen; print(urlopen('http://{far}:8080/page').read().decode())"
      pwd; cat
    stdin: "from {near}"
    servers:
      web:
        on: far
        folder: FOLDER
        run: [python3, -m, http.server, 8080, --bind, "{far}"]
        ready: {listens: 8080}
    metrics:
      rate: {unit: 1/s, pattern: 'rate (\\S+)'}
      over_time: {unit: ms, pattern: 't=(\\d+)', per_line: 1s}
"""
BAD = """
  stubborn: {kind: command, on: near, timeout: 1s, shell: "trap '' TERM INT HUP; while :; do sleep 1; done"}
  forked: {kind: command, on: near, timeout: 1s, shell: "sleep 7777 & sleep 7777 & wait"}
  away:
    kind: command
    on: near
    shell: |
      setsid sh -c 'touch away; exec sleep 7777' >/dev/null 2>&1 &
      until [ -e away ]; do sleep 0.01; done
  full: {kind: command, on: near, shell: "head -c 1M /dev/zero > x && ulimit -f 0 && echo more > x"}
  loud:
    kind: command
    on: near
    shell: "head -c 200M /dev/zero"
    metrics: {a: {unit: count, pattern: '(\\d)'}}
  escapes: {kind: command, on: near, shell: "printf '\\\\033[31mred\\\\033[2J' >&2; exit 3"}
  terminal: {kind: command, on: near, shell: "tty"}
  absent: {kind: command, on: near, shell: "no-such-program-of-iolab"}
  unready:
    kind: command
    on: near
    run: ["true"]
    servers: {slow: {on: far, shell: "echo loading; sleep 7777", ready: {listens: 80}, within: 1s}}
  dying:
    kind: command
    on: near
    run: [sleep, 1]
    servers: {short: {on: far, shell: "echo out of memory >&2; exit 9"}}
"""
REASONS = {
    "stubborn": "program-too-long",
    "forked": "program-too-long",
    "away": "programs-forked-away",
    "full": "program-ended-badly",
    "loud": "output-too-long",
    "escapes": "program-ended-badly",
    "terminal": "program-ended-badly",
    "absent": "program-ended-badly",
    "unready": "program-not-ready",
    "dying": "program-ended-early",
}


def run_of(
    iolab: Iolab, tmp_path: Path, text: str, *more: str, lab: str = LAB
) -> tuple[Path, dict[str, Any], str]:
    """Run an experiment; return its folder, its records by measure, and its output."""
    file = tmp_path / "commands.yaml"
    file.write_text(lab + text)
    done = iolab("run", file, *more)
    (folder,) = (tmp_path / "runs").iterdir()
    return folder, {record["measure"]: record for record in trials(folder)}, done.stdout + done.stderr


def test_figures_of_a_program_are_stored_exactly_and_its_server_is_reachable(
    iolab: Iolab, tmp_path: Path
) -> None:
    """Check the server's folder, and the removal of the program's folder."""
    served = tmp_path / "served"
    served.mkdir()
    (served / "page").write_text("rate 1234.5678901\nt=10\nt=30\n")
    folder, records, _ = run_of(iolab, tmp_path, WEB.replace("FOLDER", str(served)))
    record = records["get"]
    assert record["status"] == "ok", record
    figures = {one["name"]: one["value"] for one in record["metrics"]}
    assert (figures["rate"], figures["over_time"]) == (1234.5678901, 20.0)
    assert figures["elapsed_s"] > 0
    (samples,) = (folder / "samples").glob("*.json*")
    said = json.loads(subprocess.run(["zcat", "-f", samples], check=True, capture_output=True).stdout)
    *_, own, given = said["program"]["stdout"].splitlines()
    assert given == "from 198.18.0.1"
    assert not Path(own).exists()
    assert said["servers"]["web"]["signal"] == 15


def test_misbehaving_programs_fail_their_trials_and_leave_no_process_behind(
    iolab: Iolab, tmp_path: Path
) -> None:
    """Check each reason, leftover processes, and escape sequences."""
    _, records, printed = run_of(iolab, tmp_path, BAD, "--keep-going")
    assert {name: record["reason"]["code"] for name, record in records.items()} == REASONS
    assert "\x1b[31m" not in printed
    assert "out of memory" in json.dumps(records["dying"]["reason"])
    assert "no-such-program-of-iolab" in records["absent"]["reason"]["said"]
    left = subprocess.run(["pgrep", "-fc", "sleep 7777"], capture_output=True, text=True)
    assert left.stdout.strip() == "0"


def test_programs_run_on_the_cpus_of_their_machine(iolab: Iolab, tmp_path: Path) -> None:
    """Pin one machine to CPU 0; store the command as it can be typed."""
    text = LAB.replace("far: {kind: netns}", "far: {kind: netns, program_cpus: [0]}")
    asked = "metrics: {cpus: {unit: count, pattern: '(\\d+)'}}"
    for name, machine in (("here", "near"), ("there", "far")):
        text += f"  {name}: {{kind: command, on: {machine}, run: [nproc], {asked}}}\n"
    folder, records, _ = run_of(iolab, tmp_path, text, lab="")
    found = {name: record["metrics"][0]["value"] for name, record in records.items()}
    assert found == {"here": os.cpu_count(), "there": 1}
    ran = [json.loads(line)["argv"] for line in (folder / "commands.jsonl").read_text().splitlines()]
    assert [(argv[:3], argv[-1]) for argv in ran if "taskset" in argv] == [
        (["taskset", "--cpu-list", "0"], "nproc")
    ]


LIMITED = """
title: What limits programs
lab:
  machines:
    near: {kind: netns}
    one: {kind: netns, program_cpus: [0]}
    far: {kind: netns}
  links:
    lan: {ends: [near.eth0, far.eth0], wire: {rate: 20Mbit, queue: 100K}}
    other: {ends: [one.eth0, far.eth1]}
blocks: 1
measure:
  busy: {kind: command, on: one, shell: "timeout 1.5 sh -c 'while :; do :; done' || true"}
  asleep: {kind: command, on: near, run: [sleep, 1]}
  two_on_one: {kind: command, on: one, shell: "for i in 1 2; do timeout 1.5 sh -c 'while :; do :; done' & done; wait"}
  in_turn: {kind: command, on: one, shell: "timeout 1.5 sh -c 'while :; do /bin/true; done' || true"}
  on_a_line:
    kind: command
    on: near
    run: [iperf3, -c, "{far}", -t, 3]
    servers: {it: {on: far, run: [iperf3, -s], ready: {listens: 5201}}}
"""
LIMITS = {
    "busy": {"worker", "cpu"},
    "asleep": {"waiting"},
    "two_on_one": {"cpu"},
    "on_a_line": {"line"},
    "in_turn": {"worker", "cpu", "unexplained"},
}
"""Accepted limits by program; with interference on the host, a loop does not get all of its CPU."""


@pytest.mark.full
def test_limit_of_a_program_is_determined_from_counters_read_while_it_runs(
    iolab: Iolab, tmp_path: Path
) -> None:
    """Check a loop, a sleep, two loops on one CPU, a full line, and a thousand short processes."""
    _, records, printed = run_of(iolab, tmp_path, "", lab=LIMITED)
    assert {name: one["status"] for name, one in records.items()} == dict.fromkeys(records, "ok"), printed
    found = {name: one["verdict"] for name, one in records.items()}
    assert [name for name, limits in LIMITS.items() if found[name]["limit"] not in limits] == [], found
    assert "asleep: limited by waiting for something other than CPU time" in printed


def test_program_missing_on_the_host_is_reported_by_plan(iolab: Iolab, tmp_path: Path) -> None:
    """Start nothing."""
    file = tmp_path / "commands.yaml"
    file.write_text(LAB + "  it: {kind: command, on: near, run: [no-such-program-of-iolab]}\n")
    planned = iolab("plan", file)
    assert "has no program no-such-program-of-iolab" in planned.stdout
    assert iolab("run", file).returncode != 0
    assert not list(tmp_path.glob("runs/*"))
