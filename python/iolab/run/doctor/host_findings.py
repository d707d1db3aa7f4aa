"""What the doctor finds: of a host's readiness, and the shape of each finding."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from iolab.lab.hosts.facts import Facts, InterfaceFact, ProcessorFacts
from iolab.lab.hosts.readiness import concerns
from iolab.messages.checks import (
    CardDriver,
    CardFirmware,
    CardNode,
    CardPart,
    CardSeen,
    CardSettings,
    Examined,
    GovernorOfCpus,
    Governors,
    GovernorsOfDriver,
    HostExamined,
    IdleState,
    IdleStates,
    NodeCpus,
    NumaNodes,
)
from iolab.messages.host_issues import HostIssue


class Grade(StrEnum):
    """How good it is."""

    GOOD = "good"
    LIMITED = "limited"
    """Some experiments cannot run, or results may be disturbed."""
    LACKING = "lacking"
    """The quickstart cannot run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    subject: str
    """What was looked at."""
    grade: Grade
    """How good it is."""
    seen: tuple[Examined | HostIssue, ...]
    """What was seen, and what of it changes figures."""


def readiness_findings(facts: Facts) -> list[Finding]:
    """Return a line for each part of the processors and for each card."""
    cards = [one for one in facts.interfaces if one.driver_version or one.numa_node is not None]
    found = concerns(facts, [card.name for card in cards])
    return [*_processors(facts, found), *(_card(card, found) for card in cards)]


def _processors(facts: Facts, found: tuple[HostIssue, ...]) -> Iterator[Finding]:
    processors = facts.processors
    yield _finding("cpu-frequency", _frequency(processors), found)
    if processors.turbo is not None:
        yield _finding(
            "turbo",
            HostExamined(code="turbo-is-on" if processors.turbo else "turbo-is-off"),
            found,
        )
    if processors.idle_states:
        states = tuple(
            IdleState(state=one.name, wake_ns=one.exit_latency_ns) for one in processors.idle_states
        )
        yield _finding("idle-states", IdleStates(driver=processors.idle_driver or "", states=states), found)
    if processors.smt is not None:
        yield good("SMT", HostExamined(code="smt-on" if processors.smt else "smt-off"))
    if len(processors.nodes) > 1:
        nodes = tuple(NodeCpus(node=str(name), cpus=cpus) for name, cpus in processors.nodes.items())
        yield good("NUMA", NumaNodes(nodes=nodes))
    runs = "irqbalance" in facts.daemons
    yield _finding(
        "irqbalance",
        HostExamined(code="irqbalance-runs" if runs else "irqbalance-absent"),
        found,
    )


def _frequency(processors: ProcessorFacts) -> Examined:
    governors = tuple(GovernorOfCpus(governor=name, cpus=cpus) for name, cpus in processors.governors.items())
    if not governors:
        return HostExamined(code="frequency-unset")
    if not processors.driver:
        return Governors(governors=governors)
    return GovernorsOfDriver(driver=processors.driver, governors=governors)


def _card(card: InterfaceFact, found: tuple[HostIssue, ...]) -> Finding:
    """Return what a card is and how it is set."""
    return _finding(card.name, CardSeen(parts=tuple(_parts(card))), found)


def _parts(card: InterfaceFact) -> Iterator[CardPart]:
    if card.driver:
        yield CardDriver(driver=" ".join(filter(None, (card.driver, card.driver_version))))
    if card.firmware:
        yield CardFirmware(firmware=card.firmware)
    if card.numa_node is not None and card.numa_node >= 0:
        yield CardNode(node=card.numa_node)
    if card.coalescing:
        set_ = (f"{name} {value}" for name, value in card.coalescing.items() if value not in ("0", "off"))
        yield CardSettings(code="card-coalescing", settings=" ".join(set_))
    if card.pause:
        yield CardSettings(
            code="card-pause",
            settings=" ".join(f"{name} {'on' if on else 'off'}" for name, on in card.pause.items()),
        )


def _finding(subject: str, seen: Examined, found: tuple[HostIssue, ...]) -> Finding:
    """Return a finding, limited where there is a concern about its subject."""
    own = tuple(concern for concern in found if concern.subject == subject)
    return Finding(subject, Grade.LIMITED if own else Grade.GOOD, (seen, *own))


def good(subject: str, *seen: Examined) -> Finding:
    """Return that all is well."""
    return Finding(subject, Grade.GOOD, seen)


def limited(subject: str, *seen: Examined) -> Finding:
    """Return that some experiments cannot run, or may be disturbed."""
    return Finding(subject, Grade.LIMITED, seen)


def lacking(subject: str, *seen: Examined) -> Finding:
    """Return that hardly anything can run."""
    return Finding(subject, Grade.LACKING, seen)
