"""Queueing disciplines at a port by tc: how they are put there and read back, and netem at the ends of a wire. Pure.

One queue of netem holds both what is delayed and what waits for the line, and its limit counts packets, a super-frame
as one.
"""

from collections.abc import Iterator, Sequence

from iolab.experiment.experiment import Lab
from iolab.experiment.model.impairments import QUEUE_FRAMES, Impairments
from iolab.lab.actions import ORIGINAL, Command, Expectation, Reading, Run
from iolab.lab.dependencies import is_veth, place_of
from iolab.lab.readback.shaping import ClassField, Qdisc, QdiscField, QdiscRate, ShaperClass
from iolab.lab.resources import Resource
from iolab.lab.topology import Port
from iolab.units import NS_PER_S

FASTEST_BPS = 10_000_000_000
"""What a path without a rate is taken to carry."""
SHORTEST_BITS = 84 * 8
"""Of a frame on a line, with preamble and gap [bit]."""
MOST_PACKETS = 10_000_000
"""Longest queue that is asked for."""


def own_qdisc(lab: Lab, port: Port) -> Reading | None:
    """Return what reads the kind of qdisc that a port has by itself; None: it is a veth, which has none."""
    return None if is_veth(lab, port) else qdisc_reading(port, "kind")


def root(port: Port, own: Reading | None, kind: str, *options: str) -> Run:
    """Set the root qdisc; the undo gives the port its own again, harmless where it still has it.

    `own` reads the kind that it had; None: it is a veth, which has none.
    """
    base = ("tc", "qdisc", "replace", "dev", port.interface, "root")
    return Run(
        Command((*base, "handle", "1:", kind, *options), port.netns),
        Command((*base, ORIGINAL if own else "noqueue"), port.netns),
        own,
    )


def qdisc_reading(port: Port, field: QdiscField) -> Reading:
    """Return where the root qdisc of a port shows a field."""
    return Reading(Command(QDISC_SHOW, port.netns), Qdisc(port.interface, field))


def expect_kind(port: Port, kind: str) -> Expectation:
    """Expect the kind of the root qdisc."""
    return Expectation(qdisc_reading(port, "kind"), kind, f"shaping at {port.ref}")


def expect_qdisc(port: Port, field: QdiscField, expected: int, slack: int = 0) -> Expectation:
    """Expect a value of the root qdisc."""
    return Expectation(qdisc_reading(port, field), str(expected), f"shaper's {field} at {port.ref}", slack)


def expect_rate(port: Port, option: str, rate_bps: int) -> Expectation:
    """Expect a rate of the root qdisc."""
    reading = Reading(Command(QDISC_SHOW, port.netns), QdiscRate(port.interface, option))
    return Expectation(reading, str(rate_bps), f"shaper's {option} at {port.ref}", rate_slack(rate_bps))


def expect_class(
    port: Port, classid: str, wanted: Iterator[tuple[ClassField, int | None, int]]
) -> Iterator[Expectation]:
    """Expect the values of a class that are given, each with how far tc's print may lie off."""
    source = Command(("tc", "-d", "class", "show", "dev", port.interface), port.netns)
    for field, value, slack in wanted:
        if value is not None:
            what = f"{field} of class {classid} at {port.ref}"
            yield Expectation(Reading(source, ShaperClass(classid, field)), str(value), what, slack)


def rate_slack(rate_bps: int) -> int:
    """Return how far tc's print of a rate may lie off: whole bytes per second, four digits or more."""
    return 8 + rate_bps // 1000


def burst_slack(burst_bytes: int, rate_bps: int) -> int:
    """Return how far tc's print of a burst may lie off: kept as time in whole us, shown rounded to K or M."""
    return 16 + burst_bytes // 1000 + 2 * (rate_bps // 8) // 1_000_000


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


QDISC_SHOW = ("tc", "-j", "qdisc", "show")
