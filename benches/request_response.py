"""Round trips of `kind: rr` and `kind: ping` against sockperf and fping, in the same namespaces, in one lab run.

Usage: python benches/request_response.py [BLOCKS]. Needs root, sockperf and fping. Prints the ratio of each pair of
medians with its quartiles over the blocks, and what 16 connections do on one server; exits 1 where a median is off by
more than 2 %, or a transaction was lost. Both ends share CPU 0: how
long another CPU takes to wake up differs from trial to trial by ten times, most of all in virtual machines. The echo
requests cross a wire of 5 ms: fping counts its own waking up.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

OFF_RATIO = 0.02
LAB = r"""
title: Against sockperf and fping
lab:
  machines:
    near: {kind: netns, program_cpus: [0]}
    far: {kind: netns, program_cpus: [0]}
    remote: {kind: netns}
  links:
    lan: {ends: [near.eth0, far.eth0]}
    path: {ends: [near.eth1, remote.eth0], wire: {delay: 5ms}}
measure:
  own_tcp: {kind: rr, protocol: tcp, from: near, to: far, duration: 3s}
  own_udp: {kind: rr, protocol: udp, from: near, to: far, duration: 3s}
  many: {kind: rr, protocol: udp, connections: 16, from: near, to: far, duration: 3s}
  own_icmp: {kind: ping, from: near, to: remote, size: 56, interval: 20ms, duration: 5s}
  sockperf_tcp:
    kind: command
    on: near
    run: [sockperf, ping-pong, --tcp, --ip, "{far}", --port, 7777, --msg-size, 64, --time, 3, --full-rtt]
    servers:
      server: {on: far, run: [sockperf, server, --tcp, --ip, "{far}", --port, 7777], ready: {listens: 7777}}
    metrics: {rtt: {unit: us, pattern: 'percentile 50.000 =\s+(\S+)'}}
  sockperf_udp:
    kind: command
    on: near
    run: [sockperf, ping-pong, --ip, "{far}", --port, 7777, --msg-size, 64, --time, 3, --full-rtt]
    servers:
      server:
        on: far
        run: [sockperf, server, --ip, "{far}", --port, 7777]
        ready: {listens: 7777, protocol: udp}
    metrics: {rtt: {unit: us, pattern: 'percentile 50.000 =\s+(\S+)'}}
  fping:
    kind: command
    on: near
    shell: >-
      fping -q -C 250 -p 20 -b 56 {remote} 2>&1 | cut -d: -f2 | tr ' ' '\n' | sort -g | sed -n 's/^/median /;126p'
    metrics: {rtt: {unit: ms, pattern: 'median (\S+)'}}
"""
PAIRS = {"own_tcp": "sockperf_tcp", "own_udp": "sockperf_udp", "own_icmp": "fping"}
UNIT_NS = {"sockperf_tcp": 1e3, "sockperf_udp": 1e3, "fping": 1e6}


def measured(blocks: int) -> list[dict[str, Any]]:
    """Return the records of one run."""
    with tempfile.TemporaryDirectory() as folder:
        file, runs = Path(folder) / "bench.yaml", Path(folder) / "runs"
        file.write_text(f"{LAB}blocks: {blocks}\n")
        iolab = Path(sys.executable).with_name("iolab")
        subprocess.run([iolab, "run", file, "--output", runs], check=True, stdout=sys.stderr)
        return [json.loads(line) for line in next(runs.glob("*/trials.jsonl")).read_text().splitlines()]


def figure(record: dict[str, Any], name: str) -> float:
    """Return one figure of a record."""
    return float(next(one["value"] for one in record["metrics"] if one["name"] == name))


def main() -> None:
    """Print the ratios; exit 1 where one is off."""
    records = measured(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
    by = {(one["measure"], one["block"]): one for one in records}
    blocks = sorted({block for _, block in by})
    wrong = False
    for own, other in PAIRS.items():
        name = "rtt_p50_ns" if other == "fping" else "transaction_p50_ns"
        ours = [figure(by[own, block], name) for block in blocks]
        theirs = [figure(by[other, block], "rtt") * UNIT_NS[other] for block in blocks]
        ratios = [one / two for one, two in zip(ours, theirs, strict=True)]
        low, median, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        wrong |= abs(median - 1) > OFF_RATIO
        print(
            f"{own} {statistics.median(ours) / 1e3:.1f} us, {other} {statistics.median(theirs) / 1e3:.1f} us: "
            f"ratio {median:.4f} ({low:.4f} to {high:.4f})"
        )
    rates = [figure(by["many", block], "transactions_per_s") for block in blocks]
    lost = [figure(by["many", block], "loss_ratio") for block in blocks]
    wrong |= any(lost)
    print(f"16 connections: {statistics.median(rates):.0f} transactions/s, lost {max(lost):g} of them")
    sys.exit(wrong)


if __name__ == "__main__":
    main()
