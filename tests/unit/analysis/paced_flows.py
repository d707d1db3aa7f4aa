"""Flows of two classes that share a line of 60 Mbit/s, as a watch behind the shaper stores them."""

import numpy as np

from iolab.experiment import Resolver, cells, parse
from iolab.lab.topology import make_topology
from iolab.messages.instrument_warnings import WatchStolen
from iolab.results.metric import Dimensions
from iolab.results.series import Over, Series

TEXT = """
lab:
  machines: {a: {kind: netns}, b: {kind: netns}, switch: {kind: netns, forward: bridge}, far: {kind: netns}}
  links:
    a: {ends: [a.eth0, switch.v0]}
    b: {ends: [b.eth0, switch.v1]}
    out: {ends: [switch.eth0, far.eth0], shape: {at: switch.eth0, qdisc: QDISC, rate: 60Mbit, classes: {
      one: {rate: 40Mbit, CEIL from: a}, two: {rate: 20Mbit, CEIL from: b}}}}
measure: {tcp: {kind: stream, from: a, to: far, duration: 1s}}
"""
WINDOW_NS, SECONDS = 12_000, 1
COUNT = SECONDS * 10**9 // WINDOW_NS
FRAME_BYTES = 1514
STOLEN = WatchStolen(at="far.eth0", stolen_ratio=0.1)


def sent(machine: str, bps: float, span: tuple[float, float], train: int = 1) -> tuple[str, float, Series]:
    """Return the windows of a flow from a machine: evenly spaced groups of frames."""
    experiment = parse(TEXT.replace("QDISC", "pacer").replace("CEIL", ""), "file.yaml")
    topology = make_topology(Resolver(experiment).setup(next(cells(experiment))).lab)
    (source,), (target,) = topology.endpoints(machine), topology.endpoints("far")
    flow = f"{source.address}:40000->{target.address}:5201 tcp"
    windows = np.zeros(COUNT)
    gap_ns = train * FRAME_BYTES * 8e9 / bps
    begin_ns, end_ns = (int(share * SECONDS * 1e9) for share in span)
    at = (np.arange(begin_ns, end_ns, gap_ns) // WINDOW_NS).astype(np.int64)
    np.add.at(windows, at[at < COUNT], train * FRAME_BYTES)
    numbers = np.flatnonzero(windows)
    of = Dimensions(direction="->far.eth0", flow=flow, window_ns=WINDOW_NS)
    made = Series(
        "window_bytes", "byte", numbers * WINDOW_NS + 777, windows[numbers], of, Over.WINDOWS, "watch"
    )
    return machine, bps, made
