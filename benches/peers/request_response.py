"""Compare round trips of `kind: rr` and `kind: ping` with sockperf, qperf, fping and irtt, in the same namespaces.

Usage: python -m benches.peers.request_response [BLOCKS]. Needs root and those programs. Prints the ratio of each pair
with its quartiles over the blocks, and the rates of 16 connections to one server; the exit status is 1 if a median
ratio is off by more than 2 %, or a transaction was lost. Both ends share CPU 0, because the wake-up time of another CPU
differs between trials by a factor of ten, especially in virtual machines. The echo requests cross an emulated link of 5
ms, because fping and irtt include their own wake-up time.

Datagrams are compared with those of qperf, whose client has a connected socket and whose server has one socket for all
clients, as netperf's and iolab's. qperf prints the mean, as half a round trip, so means are compared there.
"""

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benches.harness.arguments import Argument, arguments
from benches.harness.run import figure, ran, trials

ARGUMENTS = (Argument("blocks", 12, "blocks of the experiment"),)
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
  qperf_udp:
    kind: command
    on: near
    run: [qperf, --unify_units, --precision, 6, --time, 3, --msg_size, 64, "{far}", udp_lat]
    servers: {server: {on: far, run: [qperf], ready: {listens: 19765}}}
    metrics: {rtt: {unit: ns, pattern: 'latency\s+=\s+(\S+) ns'}}
  fping:
    kind: command
    on: near
    shell: >-
      fping -q -C 250 -p 20 -b 56 {remote} 2>&1 | cut -d: -f2 | tr ' ' '\n' | sort -g | sed -n 's/^/median /;126p'
    metrics: {rtt: {unit: ms, pattern: 'median (\S+)'}}
  own_echo: {kind: ping, protocol: udp, from: near, to: remote, size: 60, interval: 20ms, duration: 5s}
  irtt:
    kind: command
    on: near
    run: [irtt, client, -i, 20ms, -d, 5s, -Q, -o, "-", "{remote}"]
    servers: {server: {on: remote, run: [irtt, server], ready: {listens: 2112, protocol: udp}}}
    metrics: {rtt: {unit: ns, path: $.stats.rtt.median}}
"""
PAIRS = {"own_tcp": "sockperf_tcp", "own_udp": "qperf_udp", "own_icmp": "fping", "own_echo": "irtt"}
ROUND_TRIP_NS = {"sockperf_tcp": 1e3, "qperf_udp": 2.0, "fping": 1e6, "irtt": 1.0}
"""Round-trip time of one unit of the other program's figure [ns]."""


def round_trip_ns(record: dict[str, Any], measure: str) -> float:
    """Return the compared figure: the mean for datagrams, otherwise the median [ns]."""
    if measure == "own_udp":
        return 1e9 / figure(record, "transactions_per_s")
    return figure(record, "transaction_p50_ns" if measure == "own_tcp" else "rtt_p50_ns")


def main() -> None:
    """Print the ratios; exit with 1 if a ratio is outside its limit."""
    blocks_asked = arguments(__doc__, *ARGUMENTS).blocks
    with tempfile.TemporaryDirectory() as folder:
        records = trials(ran(f"{LAB}blocks: {blocks_asked}\n", Path(folder)))
    by = {(one["measure"], one["block"]): one for one in records}
    blocks = sorted({block for _, block in by})
    wrong = False
    for own, other in PAIRS.items():
        ours = [round_trip_ns(by[own, block], own) for block in blocks]
        theirs = [figure(by[other, block], "rtt") * ROUND_TRIP_NS[other] for block in blocks]
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
