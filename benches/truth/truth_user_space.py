"""A device in user space, as one load trial sees it: is its tail its own, or that of an instrument that takes its CPUs?

The device tells itself how long it held each frame, from the kernel's stamp of arrival on: without the instrument, when
somebody else sends, and with it. What it held frames longer with the instrument beside it is the instrument's doing.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benches.harness.others import foreign
from benches.harness.programs import running, within
from benches.harness.truth_words import in_words
from benches.truth.truth_devices import COUNTED_BYTES, FRAME_BYTES
from benches.truth.truth_judged import Grade, Outcome
from benches.truth.truth_lab import DUT, TESTER, inside, kernel_counts, lab_of

from iolab.agent.client import Agent
from iolab.experiment.model.packets import Latency
from iolab.trial.packets.load_curve import measure_latency

PATHS = ("af_xdp", "af_packet", "bpf_live")
LOADS_FPS, SECONDS = (5_000, 20_000), 2
"""A sender sleeps between the frames of the first, and stays awake between those of the second."""
APART_RATIO, APART_NS = 3.0, 1_000_000
"""A tail is not the device's own where it is longer by this factor and by this much [ns]."""
FORWARDER = """
import json, signal, socket, struct, sys, time
into, out = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in range(2))
into.bind(("eth0", 3)); out.bind(("eth1", 3))
into.setsockopt(socket.SOL_SOCKET, 35, 1)                       # SO_TIMESTAMPNS
into.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)                 # SO_RCVBUFFORCE
into.settimeout(0.1)
held, ended = [], []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
print(flush=True)
while not ended:
    try:
        frame, (control, *_), _, address = into.recvmsg(2048, 64)
    except socket.timeout:
        continue
    if address[2] == 4:                                         # PACKET_OUTGOING
        continue
    out.send(frame)
    seconds, nanoseconds = struct.unpack("qq", control[2])
    held.append(time.time_ns() - seconds * 1_000_000_000 - nanoseconds)
held.sort()
lost = struct.unpack("II", into.getsockopt(263, 6, 8))[1]       # PACKET_STATISTICS
print(json.dumps([len(held), lost, held[len(held) * 99 // 100] if held else 0]), flush=True)
"""
"""Forwards one way, frame by frame; prints frames, frames lost in its socket, and the 99th percentile held [ns]."""


@dataclass(frozen=True, slots=True)
class UserSpaceCase:
    """A path, beside a device that is a normal process."""

    path: str
    """How frames are sent."""
    fps: int
    """How many [frames/s]."""
    needs: str = "ip"
    """Program without which it cannot be."""

    @property
    def name(self) -> str:
        """Return it in words."""
        return f"a device in user space, {self.path}, {self.fps}"

    @property
    def measure(self) -> str:
        """Return the measure of the experiment."""
        return f"kind: latency, path: {self.path}, frame_size: {FRAME_BYTES}, rate: {self.fps}pps, duration: {SECONDS}s"


@dataclass(frozen=True, slots=True)
class Held:
    """What the device says of itself."""

    frames: int
    """Forwarded."""
    lost: int
    """Lost in its socket."""
    p99_ns: int
    """99th percentile of the time it held a frame [ns]."""


def user_space_cases() -> Iterator[UserSpaceCase]:
    """Yield each path at each load."""
    yield from (UserSpaceCase(path, fps) for fps in LOADS_FPS for path in PATHS)


def run_user_space(agent: Agent, case: UserSpaceCase) -> tuple[Outcome, str]:
    """Ask the device for its own tail, without the instrument and with it, and judge what the instrument says."""
    apart = ("ip link set eth0 nomaster", "ip link set eth1 nomaster")
    with lab_of(agent, case.measure, Latency, "forward: bridge", apart) as (site, measure):
        with forwarding() as alone, foreign(TESTER, "p0", COUNTED_BYTES, case.fps):
            inside(DUT, f"sleep {SECONDS}")
        before = kernel_counts(("eth1",))
        with forwarding() as shared:
            measured = measure_latency(site, measure)
        counted = kernel_counts(("eth1",)) - before
    assert measured.packets is not None
    (row,) = measured.packets.load_trials
    told_ns = measured.metrics["latency_p99_ns"].value
    marks = {warning.code for warning in measured.warnings} - {"cpu-shared"}
    own_ns = alone[0].p99_ns
    apart_by_much = told_ns > APART_RATIO * own_ns and told_ns > own_ns + APART_NS
    miscounted = row.result.lost_frames != counted.lost
    figure = Grade.WRONG if miscounted else Grade.RIGHT
    if apart_by_much and not miscounted:
        figure = Grade.MARKED if marks else Grade.WRONG
    unexplained = sum(abs(sheet.unexplained_frames) for sheet in row.balances)
    return Outcome(case.name, figure, None, unexplained), (
        f"{figure:6} {case.name}: p99 {told_ns / 1e6:.2f} ms; the device alone held frames {own_ns / 1e6:.2f} ms, "
        f"beside the instrument {shared[0].p99_ns / 1e6:.2f} ms; lost {row.result.lost_frames}, by the kernel "
        f"{counted.lost}, {shared[0].lost} in the device's socket; marks: {', '.join(sorted(marks)) or '-'}\n"
        f"       verdict {row.verdict.limit} {row.verdict.place}: {in_words(row.verdict.seen)}\n"
        f"       unexplained {unexplained}"
    )


@contextmanager
def forwarding() -> Iterator[list[Held]]:
    """Run the device meanwhile; the list then holds what it says of itself."""
    said: list[Held] = []
    with running(*within(DUT, sys.executable, "-c", FORWARDER)) as device:
        try:
            yield said
        finally:
            device.process.terminate()
            said.append(Held(*json.loads(device.line())))
