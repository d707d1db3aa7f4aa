"""What every shaper at a port has: its root qdisc with the undo, and what reading it back must show."""

from collections.abc import Iterator

from iolab.experiment.experiment import Lab
from iolab.lab.actions import ORIGINAL, Run
from iolab.lab.dependencies import is_veth
from iolab.lab.readback.shaping import ClassField, Qdisc, QdiscField, QdiscRate, ShaperClass
from iolab.lab.readings import Command, Expectation, Reading
from iolab.lab.topology import Port


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


QDISC_SHOW = ("tc", "-j", "qdisc", "show")
