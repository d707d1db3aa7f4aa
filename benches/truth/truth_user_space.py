"""Check whether one load trial attributes the latency tail of a user-space device to the right cause.

The device itself records how long it held each frame, from the kernel's timestamp of arrival: without the instrument,
with another sender, and with the instrument. The additional time with the instrument is caused by the instrument.
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
"""Loads and duration: between the frames of the first load the sender sleeps, and between those of the second it
busy-waits."""
APART_RATIO, APART_NS = 3.0, 1_000_000
"""A latency tail counts as caused by the instrument if it is longer with the instrument by this factor and by this time
[ns]."""
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
"""Program that forwards frames in one direction, and prints the number of frames, the frames lost in its socket, and
the p99 holding time [ns]."""


@dataclass(frozen=True, slots=True)
class UserSpaceCase:
    """A sending path with a device that is a normal process."""

    path: str
    """Sending path."""
    fps: int
    """Rate [frames/s]."""
    needs: str = "ip"
    """Required program."""

    @property
    def name(self) -> str:
        """Return a description."""
        return f"a device in user space, {self.path}, {self.fps}"

    @property
    def measure(self) -> str:
        """Return the measure of the experiment."""
        return f"kind: latency, path: {self.path}, frame_size: {FRAME_BYTES}, rate: {self.fps}pps, duration: {SECONDS}s"


@dataclass(frozen=True, slots=True)
class Held:
    """Report of the device."""

    frames: int
    """Forwarded frames."""
    lost: int
    """Frames lost in its socket."""
    p99_ns: int
    """p99 of the holding time of a frame [ns]."""


def user_space_cases() -> Iterator[UserSpaceCase]:
    """Yield each path at each load."""
    yield from (UserSpaceCase(path, fps) for fps in LOADS_FPS for path in PATHS)


def run_user_space(agent: Agent, case: UserSpaceCase) -> tuple[Outcome, str]:
    """Measure the device's tail without and with the instrument, and judge the instrument's conclusion."""
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
    """Run the device in the background; the list then contains its report."""
    said: list[Held] = []
    with running(*within(DUT, sys.executable, "-c", FORWARDER)) as device:
        try:
            yield said
        finally:
            device.process.terminate()
            said.append(Held(*json.loads(device.line())))
