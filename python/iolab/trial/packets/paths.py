"""Choose the sending path if the file does not set it: the module compares AF_XDP with BPF live frames on the lab's
ports before the first trial.

AF_XDP paces each frame. With BPF live frames, a sender sends several times as many frames, in bursts. Each path is used
briefly at its maximum rate, and then at a load that AF_XDP can send. Live frames are chosen if their rate is higher and
their pacing is as even as the measure requires: a frame may be as late as with AF_XDP, or as late as the last frame in
a burst of `max_burst` frames. If each frame must be paced individually, the host's calibration decides first: one call
per frame usually makes live frames later than AF_XDP, and nothing is sent for the comparison.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from iolab.agent.decoding import decode
from iolab.agent.messages import Histogram, Json
from iolab.errors import TrialFailed
from iolab.experiment.model.packets import Packets
from iolab.lab.packets.frames import mean_bytes, sizes_of
from iolab.locale import Phrase
from iolab.messages.instrument import (
    LiveFramesFail,
    PathEvenness,
    PathOfDriver,
    PathRates,
    PathsUncompared,
    PlainPathReason,
)
from iolab.results.packets import Choice, Tried
from iolab.trial.histograms import quantile
from iolab.trial.lab_access import LIVE, LIVE_BYTES, Calibration, Site
from iolab.trial.measurement import failure_of
from iolab.trial.packets.load import LoadBench
from iolab.trial.search.types import LoadTrial
from iolab.units import NS_PER_S

AF_XDP = "af_xdp"
COPIED = "AF_XDP copy"
"""Path name of ports that use AF_XDP without driver support, the only case in which live frames may be faster."""
ABOVE_ALL_FPS = {AF_XDP: 10e6, LIVE: 40e6}
"""Rate above the maximum of any sender, by path [frames/s]; at this load, the sent rate is the path's ceiling."""
FASTER_RATIO = 1.05
LATE_SHARE = 0.9
"""Quantile of the lateness that is compared; lateness above this quantile is caused by the host."""


AnyPackets = TypeVar("AnyPackets", bound=Packets)
CEILING_NS, EVEN_NS = 200_000_000, 500_000_000
IDLE_FPS, IDLE_NS, IDLE_TRIES = 1000.0, 100_000_000, 20
"""Load, duration and maximum number of the trials that are repeated until the device's queues are empty."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Result of sending on one path."""

    offered_fps: float
    """Offered rate in one direction [frames/s]."""
    forwarded_frames: int
    """Frames received, in all directions."""
    late: Json
    """Histogram of the frames' lateness [ns]."""


Send = Callable[[str, float, int], Sent]
"""Function that sends on a path, with a load per direction [frames/s] and a duration [ns], and returns the result."""


def may_choose(measure: Packets, senders: int) -> bool:
    """Whether there is a choice: path and load are not set, and a single thread sends frames that both paths
    support."""
    largest = max(size for size, _ in sizes_of(measure))
    is_open = measure.path == "auto" and measure.spacing == "clock"
    return is_open and measure.seeks_rate and senders == 1 and largest <= LIVE_BYTES


def settled(site: Site, measure: AnyPackets) -> AnyPackets:
    """Return a measure with its path chosen, if the file does not set the path.

    The choice for given ports, frame size and burst applies to the whole session, so that cells stay comparable.

    Raises:
        TrialFailed: the ports could not be opened.
        AgentError: the connection to the agent is lost.
    """
    placement = site.placement
    if site.choices is None or placement is None or not may_choose(measure, site.senders):
        return measure
    if measure.max_burst == 1 and (site.calibration is None or site.calibration.alone is None):
        return measure  # it is unknown whether live frames are paced evenly enough
    key = (tuple(placement.senders), mean_bytes(sizes_of(measure)), measure.max_burst)
    if key not in site.choices:
        site.choices[key] = _chosen(site, measure)
    choice = site.choices[key]
    return measure.model_copy(update={"path": LIVE}) if choice.path == LIVE else measure


def choice_of(site: Site, measure: Packets) -> Choice | None:
    """Return the path choice for a measure; None if no path was chosen."""
    if site.choices is None or site.placement is None:
        return None
    return site.choices.get((tuple(site.placement.senders), mean_bytes(sizes_of(measure)), measure.max_burst))


def _calibrated(calibration: Calibration | None, measure: Packets) -> Choice | None:
    """Return AF_XDP if the calibration shows that single live frames are later than with AF_XDP; None if a comparison
    is needed."""
    alone = calibration.alone if calibration is not None else None
    if measure.max_burst > 1 or calibration is None or alone is None:
        return None
    size = int(mean_bytes(sizes_of(measure)))
    usual = Tried(AF_XDP, calibration.ceiling_fps(AF_XDP, size) or 0.0, alone.af_xdp_late_ns)
    live = Tried(LIVE, calibration.ceiling_fps(LIVE, size) or 0.0, alone.live_late_ns)
    choice = decide(usual, live, measure.max_burst, alone.load_fps)
    reasons = (PlainPathReason(code="path-by-calibration"), *choice.reasons)
    return None if choice.path == LIVE else replace(choice, reasons=reasons)


def _chosen(site: Site, measure: Packets) -> Choice:
    with LoadBench(site, measure, 0.0) as bench:
        ways = {port.send.name for port in bench.ports if port.send is not None}
    if ways != {COPIED}:
        return Choice(measure.path, (PathOfDriver(ways=tuple(sorted(ways))),))
    if (known := _calibrated(site.calibration, measure)) is not None:
        return known

    def send(path: str, fps: float, duration_ns: int) -> Sent:
        with LoadBench(site, measure.model_copy(update={"path": path}), 0.0) as bench:
            record = bench.run(LoadTrial(intended_fps=fps, duration_ns=duration_ns), "calibration")
        late = bench.answers[-1]["senders"][0]["lateness_ns"]
        return Sent(record.offered_fps / record.directions, record.result.forwarded_frames, late)

    try:
        return compare(send, measure.max_burst)
    except TrialFailed as error:
        return Choice(AF_XDP, (PathsUncompared(error=failure_of(error)),))
    finally:
        _let_empty(send)


def _let_empty(send: Send) -> None:
    """Wait until the device's queues contain no more frames of the comparison, which is when a slow trial has no
    loss."""
    for _ in range(IDLE_TRIES):
        with suppress(TrialFailed):
            if send(AF_XDP, IDLE_FPS, IDLE_NS).forwarded_frames >= IDLE_FPS * IDLE_NS / NS_PER_S:
                return


def compare(send: Send, max_burst: int) -> Choice:
    """Send frames on both paths and choose one of the paths.

    Raises:
        TrialFailed: AF_XDP does not work on these ports.
    """
    usual_fps = send(AF_XDP, ABOVE_ALL_FPS[AF_XDP], CEILING_NS).offered_fps
    usual = Tried(AF_XDP, usual_fps)
    try:
        live = Tried(LIVE, send(LIVE, ABOVE_ALL_FPS[LIVE], CEILING_NS).offered_fps)
        if live.ceiling_fps < FASTER_RATIO * usual_fps:
            return decide(usual, live, max_burst)
        even = [send(path, usual_fps / 2, EVEN_NS) for path in (AF_XDP, LIVE)]
    except TrialFailed as error:
        return Choice(AF_XDP, (LiveFramesFail(af_xdp_fps=usual_fps, error=failure_of(error)),), (usual,))
    if even[0].forwarded_frames and not even[1].forwarded_frames:
        return Choice(AF_XDP, (PlainPathReason(code="live-frames-vanish"),), (usual, live))
    late = [_late(one.late) for one in even]
    return decide(Tried(AF_XDP, usual_fps, late[0]), Tried(LIVE, live.ceiling_fps, late[1]), max_burst)


def decide(usual: Tried, live: Tried, max_burst: int, load_fps: float | None = None) -> Choice:
    """Return the path to use; the lateness on both paths was measured at `load_fps`, by default half of AF_XDP's
    rate."""
    rates = PathRates(af_xdp_fps=usual.ceiling_fps, live_fps=live.ceiling_fps)
    if live.ceiling_fps < FASTER_RATIO * usual.ceiling_fps:
        return Choice(AF_XDP, (rates,), (usual, live))
    if usual.late_p90_ns is None or live.late_p90_ns is None:
        return Choice(AF_XDP, (rates, PlainPathReason(code="path-evenness-unknown")), (usual, live))
    load_fps = load_fps or usual.ceiling_fps / 2
    allowed_ns = max(usual.late_p90_ns, round((max_burst - 1) * NS_PER_S / load_fps))
    late = PathEvenness(
        load_fps=load_fps,
        af_xdp_late_ns=usual.late_p90_ns,
        live_late_ns=live.late_p90_ns,
        allowed_ns=allowed_ns,
        max_burst=max_burst,
    )
    path = LIVE if live.late_p90_ns <= allowed_ns else AF_XDP
    return Choice(path, (rates, late), (usual, live))


def _late(histogram: Json) -> int | None:
    return quantile(decode(Histogram, histogram, Phrase("agent.histogram")), LATE_SHARE)
