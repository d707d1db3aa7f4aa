"""Which path frames take where the file leaves it open: compared on the ports at hand, before the first trial.

AF_XDP paces each frame; by BPF live frames several times as many leave, in bursts. So both send for a moment, as fast
as they can and then at a load that AF_XDP can well send. Live frames are taken where more leave by them and they are as
even as the measure asks: a frame may be as late as by AF_XDP, or as `max_burst` frames that leave together. Where each
frame is to leave by itself, the calibration of this host comes first: a call for each usually makes live frames later
than those of AF_XDP, and then nothing is sent.
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
"""How a port names the way that live frames may be faster than; where the driver takes the frames itself, none is."""
ABOVE_ALL_FPS = {AF_XDP: 10e6, LIVE: 40e6}
"""More than any sender sends by a path: what leaves is its ceiling [frames/s]."""
FASTER_RATIO = 1.05
LATE_SHARE = 0.9
"""So many frames are at most as late as is compared: the rest is the host's doing on a busy one."""


AnyPackets = TypeVar("AnyPackets", bound=Packets)
CEILING_NS, EVEN_NS = 200_000_000, 500_000_000
IDLE_FPS, IDLE_NS, IDLE_TRIES = 1000.0, 100_000_000, 20
"""Load and length of the trials that wait until the device has emptied its queues, and how many at most."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of sending."""

    offered_fps: float
    """What left, in one direction [frames/s]."""
    forwarded_frames: int
    """What arrived, in all directions."""
    late: Json
    """The histogram of how late frames left [ns]."""


Send = Callable[[str, float, int], Sent]
"""Path, load of a direction [frames/s] and time [ns] to what came of it."""


def may_choose(measure: Packets, senders: int) -> bool:
    """Tell whether there is a choice: it is left open, so is the load, and one thread sends frames that both can."""
    largest = max(size for size, _ in sizes_of(measure))
    is_open = measure.path == "auto" and measure.spacing == "clock"
    return is_open and measure.seeks_rate and senders == 1 and largest <= LIVE_BYTES


def settled(site: Site, measure: AnyPackets) -> AnyPackets:
    """Return a measure with its path chosen, where the file leaves it open and it matters.

    What was chosen for these ports, this frame size and burst holds for the whole session: cells stay comparable.

    Raises:
        TrialFailed: the ports could not be opened.
        AgentError: the agent is gone.
    """
    placement = site.placement
    if site.choices is None or placement is None or not may_choose(measure, site.senders):
        return measure
    if measure.max_burst == 1 and (site.calibration is None or site.calibration.alone is None):
        return measure  # whether live frames may be as even is not known
    key = (tuple(placement.senders), mean_bytes(sizes_of(measure)), measure.max_burst)
    if key not in site.choices:
        site.choices[key] = _chosen(site, measure)
    choice = site.choices[key]
    return measure.model_copy(update={"path": LIVE}) if choice.path == LIVE else measure


def choice_of(site: Site, measure: Packets) -> Choice | None:
    """Return what was chosen for a measure, whose path may be settled; None where nothing was."""
    if site.choices is None or site.placement is None:
        return None
    return site.choices.get((tuple(site.placement.senders), mean_bytes(sizes_of(measure)), measure.max_burst))


def _calibrated(calibration: Calibration | None, measure: Packets) -> Choice | None:
    """Return AF_XDP where single frames are known to leave later by live frames; None: that is to be seen here."""
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
    """Wait until what the comparison left in queues of the device is gone: a slow trial passes whole."""
    for _ in range(IDLE_TRIES):
        with suppress(TrialFailed):
            if send(AF_XDP, IDLE_FPS, IDLE_NS).forwarded_frames >= IDLE_FPS * IDLE_NS / NS_PER_S:
                return


def compare(send: Send, max_burst: int) -> Choice:
    """Send by both paths, and choose.

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
    """Return the path to take; the frames were so late at that load, by default half of what AF_XDP sends."""
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
