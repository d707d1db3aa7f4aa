"""Debian's load generators as user programs: every figure equals the printed figure."""

import csv
import gzip
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.netns.conftest import IOLAB, host_put_back
from tests.netns.runs import PATIENCE_S, trials

pytestmark = [pytest.mark.netns, pytest.mark.full]
LAB = r"""
title: Known programs
lab:
  machines:
    near: {kind: netns}
    far:
      kind: netns
      services:
        web: {run: [python3, -m, http.server, 8000, --bind, "{far}"], ready: {listens: 8000}}
        names: {run: [dnsmasq, -k, -C, /dev/null, -h, -R, "-A", /lab.test/198.18.9.9], ready: {listens: 53}}
        iperf: {run: [iperf3, -s], ready: {listens: 5201}}
        sockperf: {run: [sockperf, server, --tcp, --ip, "{far}", --port, 7777], ready: {listens: 7777}}
  links:
    lan: {ends: [near.eth0, far.eth0]}
blocks: 1
measure:
  iperf3:
    kind: command
    on: near
    run: [iperf3, -c, "{far}", -t, 1, -J]
    metrics:
      received: {unit: bit/s, path: $.end.sum_received.bits_per_second}
      bytes: {unit: B, path: $.end.sum_received.bytes}
      each: {unit: bit/s, path: "$.intervals[*].sum.bits_per_second", per_line: 1s}
  ab:
    kind: command
    on: near
    run: [ab, -q, -n, 100, "http://{far}:8000/"]
    metrics:
      requests: {unit: 1/s, pattern: '^Requests per second: +(\S+)'}
      slowest: {unit: ms, pattern: '^ +100% +(\S+)'}
  wrk:
    kind: command
    on: near
    run: [wrk, -t, 1, -c, 2, -d, 1s, --latency, "http://{far}:8000/"]
    metrics:
      requests: {unit: 1/s, pattern: '^Requests/sec: +(\S+)'}
      total: {unit: count, pattern: '(\d+) requests in'}
      half: {unit: us, pattern: '^ +50% +(?P<value>[\d.]+)(?P<unit>\w+)'}
  hey:
    kind: command
    on: near
    run: [hey, -n, 100, -c, 2, "http://{far}:8000/"]
    metrics:
      requests: {unit: 1/s, pattern: 'Requests/sec:\s+(\S+)'}
      slowest: {unit: s, pattern: 'Slowest:\s+(\S+)'}
  hey_csv:
    kind: command
    on: near
    run: [hey, -n, 20, -c, 1, -o, csv, "http://{far}:8000/"]
    metrics:
      response: {unit: s, column: response-time, per_line: 10ms}
  sockperf:
    kind: command
    on: near
    run: [sockperf, ping-pong, --tcp, --ip, "{far}", --port, 7777, --time, 1]
    metrics:
      latency: {unit: us, pattern: 'avg-latency=(\S+)'}
      highest: {unit: us, pattern: '<MAX> observation = +(\S+)'}
  dnsperf:
    kind: command
    on: near
    shell: echo a.lab.test A >queries; exec dnsperf -s {far} -d queries -l 1
    metrics:
      queries: {unit: 1/s, pattern: 'Queries per second: +(\S+)'}
      lost: {unit: count, pattern: 'Queries lost: +(\d+)'}
"""
PROGRAMS = ("iperf3", "ab", "wrk", "hey", "sockperf", "dnsperf", "dnsmasq")
MICROSECONDS = {"us": Decimal(1), "ms": Decimal(1000), "s": Decimal(1000000)}


def after(output: str, words: str) -> str:
    """Return the word after these words; unlike iolab, without a regular expression."""
    return output.split(words, 1)[1].split(maxsplit=1)[0]


def iperf3(output: str) -> dict[str, Decimal]:
    """Return the report of `iperf3 -J`."""
    said = json.loads(output, parse_float=Decimal, parse_int=Decimal)
    (each,) = (one["sum"]["bits_per_second"] for one in said["intervals"])
    end = said["end"]["sum_received"]
    return {"received": end["bits_per_second"], "bytes": end["bytes"], "each": each}


def wrk(output: str) -> dict[str, Decimal]:
    """Return a figure of wrk's output, which selects the unit of a time by its size."""
    half = after(output, "50%")
    number = half.rstrip("mus")
    return {
        "requests": Decimal(after(output, "Requests/sec:")),
        "total": Decimal(output.split(" requests in", 1)[0].rsplit(maxsplit=1)[-1]),
        "half": Decimal(number) * MICROSECONDS[half[len(number) :]],
    }


def hey_csv(output: str) -> dict[str, Decimal]:
    """Return the mean of hey's figures of each request."""
    times = [Decimal(row["response-time"]) for row in csv.DictReader(output.splitlines())]
    assert len(times) == 20
    return {"response": sum(times, Decimal(0)) / len(times)}


def words(**wanted: str) -> Callable[[str], dict[str, Decimal]]:
    """Return a reader of the word after each text."""
    return lambda output: {name: Decimal(after(output, text).rstrip(";")) for name, text in wanted.items()}


READ: Mapping[str, Callable[[str], dict[str, Decimal]]] = {
    "iperf3": iperf3,
    "ab": words(requests="Requests per second:", slowest=" 100%"),
    "wrk": wrk,
    "hey": words(requests="Requests/sec:", slowest="Slowest:"),
    "hey_csv": hey_csv,
    "sockperf": words(latency="avg-latency=", highest="<MAX> observation ="),
    "dnsperf": words(queries="Queries per second:", lost="Queries lost:"),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, Any]]]:
    """Run every program once, in one lab; return the run's folder and the trials by measure."""
    for program in PROGRAMS:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}; scripts/packages.sh programs installs it")
    folder = tmp_path_factory.mktemp("known")
    (folder / "known.yaml").write_text(LAB)
    with pytest.MonkeyPatch.context() as patch, host_put_back(patch, folder / "state"):
        argv = [str(IOLAB), "run", "known.yaml", "--keep-going"]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    (run,) = (folder / "runs").iterdir()
    found = {trial["measure"]: trial for trial in trials(run)}
    assert found.keys() == READ.keys(), done.stdout + done.stderr
    return run, found


@pytest.mark.parametrize("name", READ)
def test_stored_figures_equal_those_printed_by_the_program(
    ran: tuple[Path, dict[str, dict[str, Any]]], name: str
) -> None:
    """Read the stored output by different means."""
    folder, found = ran
    trial = found[name]
    assert trial["status"] == "ok", trial["reason"]
    (kept,) = (folder / "samples").glob(f"{trial['key']}*raw*")
    output = json.loads(gzip.decompress(kept.read_bytes()))["program"]["stdout"]
    figures = {one["name"]: one["value"] for one in trial["metrics"]}
    expected = READ[name](output)
    assert {one: figures[one] for one in expected} == {one: float(value) for one, value in expected.items()}
    assert all(value > 0 for one, value in expected.items() if one != "lost")
