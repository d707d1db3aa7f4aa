"""Check on long fat paths that the rate follows the window in flight, and that the line rate is reached.

Usage: python -m benches.truth.long_path; takes a minute and a half. Needs root, iperf3 and 1 GB of memory. The path has
1 Gbit/s and a round-trip time of 228.72 ms by iolab's wire, as in labs/long-path.yaml. The window in flight and the
round-trip time are the kernel's (TCP_INFO). The line rate counts as reached by the data that arrives in the last
second, compared with the payload of frames with FCS at that rate.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from benches.harness.arguments import arguments
from benches.harness.run import ran
from benches.harness.table import Table

from iolab.results.trial import Status
from iolab.store.read import load_run
from iolab.store.records import TrialRecord
from iolab.store.series import read_series
from iolab.units import NS_PER_S

TEXT = """
title: Long fat path
lab:
  machines:
    computer: {kind: host, settings: {net.core.rmem_max: 268435456, net.core.wmem_max: 268435456}}
    near: &end
      kind: netns
      settings:
        net.ipv4.tcp_rmem: 4096 131072 536870912
        net.ipv4.tcp_wmem: 4096 16384 536870912
        net.ipv4.tcp_no_metrics_save: 1
    far: *end
  links:
    path: {ends: [near.eth0, far.eth0], wire: {rate: 1Gbit, delay: 114.36ms, queue: 32M}}
measure:
  tcp: {kind: stream, protocol: tcp, from: near, to: far, congestion: cubic, warm_up: 9s, duration: 4s}
factors:
  links.path.mtu: [1500, 9000]
  tcp.window: [1M, 4M, 16M, 256M]
only:
  - {links.path.mtu: 1500}
  - {links.path.mtu: 9000, tcp.window: [16M, 256M]}
"""
LINE_BPS = 1_000_000_000
MOST_OFF = 0.05
LEAST_OF_LINE = {"1500": 0.93, "9000": 0.98}


def last_second_bps(folder: Path, record: TrialRecord) -> float:
    """Return the rate of the last second [bit/s of payload]."""
    (found,) = [
        one
        for one in read_series(folder, record.key)
        if one.name == "received_bps" and one.source == "iperf3"
    ]
    late = found.at_ns > found.at_ns[-1] - NS_PER_S
    return float(np.mean(found.values[late]))


def main() -> None:
    """Print a line for each trial; exit with 1 if a limit is missed."""
    arguments(__doc__)
    held = True
    with tempfile.TemporaryDirectory() as there:
        folder = ran(TEXT, Path(there))
        heads = (
            "MTU",
            "window",
            "in flight [MB]",
            "RTT [ms]",
            "rate [Mb/s]",
            "of window/RTT",
            "last s",
            "<held",
        )
        table = Table(*heads, least=6)
        for record in load_run(folder).trials:
            assert record.result.status is Status.OK, record.result.reason
            found = {one.name: one.value for one in record.result.metrics if one.dimensions.whole}
            mtu, window = (str(record.cell[name]) for name in ("links.path.mtu", "tcp.window"))
            expected = found["in_flight_bytes"] * 8 * NS_PER_S / found["rtt_mean_ns"]
            followed = found["received_bps"] / expected
            reached = last_second_bps(folder, record) / LINE_BPS
            good = abs(followed - 1) <= MOST_OFF and (window != "256M" or reached >= LEAST_OF_LINE[mtu])
            held &= good
            units = (found["in_flight_bytes"] / 1e6, found["rtt_mean_ns"] / 1e6)
            seen = [f"{one:.2f}" for one in units] + [f"{found['received_bps'] / 1e6:.1f}"]
            table.row(mtu, window, *seen, f"{followed:.3f}", f"{reached:.3f}", "" if good else "MISSED")
    sys.exit(not held)


if __name__ == "__main__":
    main()
