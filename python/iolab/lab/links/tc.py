"""Set and read back queueing disciplines with tc, and emulate links with netem at their ends. Pure.

One netem queue holds both delayed packets and packets that wait for the line; its limit counts packets, and a
super-frame counts as one packet.
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
"""Assumed maximum rate of a path that has no configured rate."""
SHORTEST_BITS = 84 * 8
"""Minimum frame size on a line, with preamble and gap [bit]."""
MOST_PACKETS = 10_000_000
"""Maximum queue length that iolab requests of netem [packets]."""


def own_qdisc(lab: Lab, port: Port) -> Reading | None:
    """Return the reading of a port's default qdisc; None: the port is a veth, which has no default qdisc."""
    return None if is_veth(lab, port) else qdisc_reading(port, "kind")


def root(port: Port, own: Reading | None, kind: str, *options: str) -> Run:
    """Return the command that sets the root qdisc of a port, with an undo that restores the default qdisc.

    The undo is harmless if the port still has its default qdisc. `own` reads the default qdisc; None: the port is a
    veth, which has no default qdisc.
    """
    base = ("tc", "qdisc", "replace", "dev", port.interface, "root")
    return Run(
        Command((*base, "handle", "1:", kind, *options), port.netns),
        Command((*base, ORIGINAL if own else "noqueue"), port.netns),
        own,
    )


def qdisc_reading(port: Port, field: QdiscField) -> Reading:
    """Return the reading of a field of a port's root qdisc."""
    return Reading(Command(QDISC_SHOW, port.netns), Qdisc(port.interface, field))


def expect_kind(port: Port, kind: str) -> Expectation:
    """Return the expectation of the root qdisc's kind."""
    return Expectation(qdisc_reading(port, "kind"), kind, f"shaping at {port.ref}")


def expect_qdisc(port: Port, field: QdiscField, expected: int, slack: int = 0) -> Expectation:
    """Return the expectation of a value of the root qdisc."""
    return Expectation(qdisc_reading(port, field), str(expected), f"shaper's {field} at {port.ref}", slack)


def expect_rate(port: Port, option: str, rate_bps: int) -> Expectation:
    """Return the expectation of the root qdisc's rate."""
    reading = Reading(Command(QDISC_SHOW, port.netns), QdiscRate(port.interface, option))
    return Expectation(reading, str(rate_bps), f"shaper's {option} at {port.ref}", rate_slack(rate_bps))


def expect_class(
    port: Port, classid: str, wanted: Iterator[tuple[ClassField, int | None, int]]
) -> Iterator[Expectation]:
    """Return the expectations of the values that are given for a class, each with the tolerance of tc's output."""
    source = Command(("tc", "-d", "class", "show", "dev", port.interface), port.netns)
    for field, value, slack in wanted:
        if value is not None:
            what = f"{field} of class {classid} at {port.ref}"
            yield Expectation(Reading(source, ShaperClass(classid, field)), str(value), what, slack)


def rate_slack(rate_bps: int) -> int:
    """Return the tolerance of rates in tc's output: whole bytes per second, at least four digits."""
    return 8 + rate_bps // 1000


def burst_slack(burst_bytes: int, rate_bps: int) -> int:
    """Return the tolerance of bursts in tc's output: stored as time in whole us, shown rounded to K or M."""
    return 16 + burst_bytes // 1000 + 2 * (rate_bps // 8) // 1_000_000


def netem_resources(lab: Lab, link: str, ports: Sequence[Port]) -> Iterator[Resource]:
    """Return the netem qdiscs of a link's ends; empty if the link does not use netem."""
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
    """Return the options of netem for tc."""
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
    """Return the maximum number of packets that are delayed or wait for the line."""
    waiting_ns = done.delay + 4 * done.jitter
    delayed = (done.most_bps() or FASTEST_BPS) * waiting_ns // (NS_PER_S * SHORTEST_BITS)
    return min(MOST_PACKETS, delayed + (done.queue_frames or QUEUE_FRAMES))


def _percent(ratio: float) -> str:
    return f"{ratio * 100:.9g}%"


def _us(time_ns: int) -> str:
    """Return a time in tc's syntax, whose smallest unit is a microsecond."""
    return f"{time_ns // 1000}.{time_ns % 1000:03}us"


QDISC_SHOW = ("tc", "-j", "qdisc", "show")
