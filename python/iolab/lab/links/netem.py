"""A link with `wire:` whose `emulator` is the kernel's: netem at each end, for the frames that this end sends.

One queue of netem holds both what is delayed and what waits for the line, and its limit counts packets, a super-frame
as one.
"""

from collections.abc import Iterator, Sequence

from iolab.experiment.experiment import Lab
from iolab.experiment.model.impairments import QUEUE_FRAMES, Impairments
from iolab.lab.dependencies import place_of
from iolab.lab.links.tc import expect_kind, own_qdisc, root
from iolab.lab.resources import Resource
from iolab.lab.topology import Port
from iolab.units import NS_PER_S

FASTEST_BPS = 10_000_000_000
"""What a path without a rate is taken to carry."""
SHORTEST_BITS = 84 * 8
"""Of a frame on a line, with preamble and gap [bit]."""
MOST_PACKETS = 10_000_000
"""Longest queue that is asked for."""


def netem_resources(lab: Lab, link: str, ports: Sequence[Port]) -> Iterator[Resource]:
    """Return the queueing disciplines of the ends of a link; none where netem was not asked for."""
    wire = lab.links[link].wire
    if wire is None or wire.emulator != "netem":
        return
    for port in ports:
        yield Resource(
            key=f"netem:{port.ref}",
            machine=port.machine,
            kernel=port.kernel,
            needs=(place_of(lab, port),),
            actions=(root(port, own_qdisc(lab, port), "netem", *netem_options(wire.way(port.ref))),),
            expect=(expect_kind(port, "netem"),),
        )


def netem_options(done: Impairments) -> tuple[str, ...]:
    """Return what tc is given."""
    options = ["limit", str(_limit(done))]
    if done.delay or done.jitter:
        options += ["delay", _us(done.delay)]
    if done.jitter:
        options += [
            _us(done.jitter),
            *([_percent(done.jitter_correlation)] if done.jitter_correlation else []),
        ]
        options += ["distribution", "normal"] if done.jitter_kind == "normal" else []
    if done.loss:
        options += ["loss", "random", _percent(done.loss)]
    if bursts := done.loss_bursts:
        options += [
            "loss",
            "gemodel",
            *map(_percent, (bursts.to_bad, bursts.to_good, bursts.bad, bursts.good)),
        ]
    for key, ratio in (("corrupt", done.corrupt), ("duplicate", done.duplicate)):
        options += [key, _percent(ratio)] if ratio else []
    options += ["rate", done.rate] if done.rate is not None else []
    return tuple(options)


def _limit(done: Impairments) -> int:
    """Return the packets that may be delayed or wait for the line."""
    waiting_ns = done.delay + 4 * done.jitter
    delayed = (done.most_bps() or FASTEST_BPS) * waiting_ns // (NS_PER_S * SHORTEST_BITS)
    return min(MOST_PACKETS, delayed + (done.queue_frames or QUEUE_FRAMES))


def _percent(ratio: float) -> str:
    return f"{ratio * 100:.9g}%"


def _us(time_ns: int) -> str:
    """Return a time as tc reads it: it knows no unit below a microsecond."""
    return f"{time_ns // 1000}.{time_ns % 1000:03}us"
