"""Measure the cost of a million flows for the instrument, compared with one flow at the same rate, in one lab run.

Usage: python -m benches.cost.many_flows [BLOCKS]. Needs root. Prints the CPU time of the receiving thread per frame and
the lateness of sent frames, with both numbers of flows, and the ratio of the medians. One veth pair connects both ends,
without a device between them, because the cost of many flows in a device is not a cost of the instrument.
"""

import gzip
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benches.harness.arguments import Argument, arguments
from benches.harness.run import ran

ARGUMENTS = (Argument("blocks", 5, "blocks of the experiment"),)
LAB = """
title: Many flows
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {lan: {ends: [near.eth0, far.eth0]}}
measure:
  it: {kind: latency, rate: 200kpps, duration: 3s, from: near, to: far, max_burst: 64, flows: 1}
factors: {it.flows: [1, 1000000]}
baseline: {it.flows: 1}
"""


def main() -> None:
    """Print the figures."""
    blocks = arguments(__doc__, *ARGUMENTS).blocks
    with tempfile.TemporaryDirectory() as folder:
        run = ran(f"{LAB}blocks: {blocks}\n", Path(folder))
        costs: dict[str, list[tuple[float, float]]] = {}
        for path in run.glob("samples/*.raw.json.gz"):
            answer: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))["load_trials"][0]
            (sent,), (received,) = answer["senders"], answer["receivers"]
            assert received["unknown_flow_frames"] == received["surplus_frames"] == 0
            flows = str(received["flows"]["count"])
            lateness = sent["lateness_ns"]["sum"] / max(1, sent["lateness_ns"]["count"])
            costs.setdefault(flows, []).append(
                (received["thread"]["run_ns"] / received["received_frames"], lateness)
            )
            print(
                f"{flows} flows: {sent['offered_frames']} frames offered, {received['received_frames']} received, "
                f"receiver {costs[flows][-1][0]:.1f} ns/frame, mean lateness {lateness:.0f} ns"
            )
    medians = {
        flows: [statistics.median(column) for column in zip(*rows, strict=True)]
        for flows, rows in costs.items()
    }
    (one, late_one), (many, late_many) = medians["1"], medians["1000000"]
    print(f"receiver: {one:.1f} and {many:.1f} ns/frame, ratio {many / one:.3f}")
    print(f"mean lateness of frames: {late_one:.0f} and {late_many:.0f} ns")


if __name__ == "__main__":
    main()
