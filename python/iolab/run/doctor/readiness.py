"""What of a host changes figures: its processors and its cards, from its facts; each with what to do about it."""

from collections.abc import Iterator

from iolab.lab.hosts.facts import Facts, InterfaceFact
from iolab.lab.hosts.readiness import concerns
from iolab.run.doctor.findings import Finding, Grade
from iolab.statements.concerns import Concern

NO_FREQUENCY = (
    "the kernel sets none here, as in most virtual machines; the factors governor and turbo cannot be set"
)


def readiness_findings(facts: Facts) -> list[Finding]:
    """Return a line for each part of the processors and for each card."""
    cards = [one for one in facts.interfaces if one.driver_version or one.numa_node is not None]
    found = concerns(facts, [card.name for card in cards])
    return [*_processors(facts, found), *(_card(card, found) for card in cards)]


def _processors(facts: Facts, found: tuple[Concern, ...]) -> Iterator[Finding]:
    processors = facts.processors
    driver = f"{processors.driver}: " if processors.driver else ""
    governors = "; ".join(f"{name} on CPUs {cpus}" for name, cpus in processors.governors.items())
    yield _finding("cpu-frequency", f"{driver}{governors}" if governors else NO_FREQUENCY, found)
    if processors.turbo is not None:
        yield _finding("turbo", "on" if processors.turbo else "off", found)
    if processors.idle_states:
        states = ", ".join(f"{one.name} {one.exit_latency_ns // 1000} us" for one in processors.idle_states)
        yield _finding("idle-states", f"{processors.idle_driver or 'unknown driver'}: {states}", found)
    if processors.smt is not None:
        seen = "on: one thread of each core is used first" if processors.smt else "off"
        yield Finding("SMT", Grade.GOOD, seen)
    if len(processors.nodes) > 1:
        nodes = "; ".join(f"node {name}: CPUs {cpus}" for name, cpus in processors.nodes.items())
        yield Finding("NUMA", Grade.GOOD, f"{nodes}; a trial uses those of its card's node first")
    yield _finding("irqbalance", "running" if "irqbalance" in facts.daemons else "not running", found)


def _card(card: InterfaceFact, found: tuple[Concern, ...]) -> Finding:
    """Return what a card is and how it is set."""
    words = [
        " ".join(filter(None, (card.driver, card.driver_version))),
        f"firmware {card.firmware}" if card.firmware else "",
        f"NUMA node {card.numa_node}" if card.numa_node is not None and card.numa_node >= 0 else "",
        "coalescing "
        + " ".join(f"{name} {value}" for name, value in card.coalescing.items() if value not in ("0", "off"))
        if card.coalescing
        else "",
        "pause " + " ".join(f"{name} {'on' if on else 'off'}" for name, on in card.pause.items())
        if card.pause
        else "",
    ]
    return _finding(card.name, ", ".join(filter(None, words)), found)


def _finding(subject: str, seen: str, found: tuple[Concern, ...]) -> Finding:
    """Return a finding, limited where there is a concern about its subject."""
    own = tuple(concern for concern in found if concern.subject == subject)
    return Finding(subject, Grade.LIMITED if own else Grade.GOOD, seen, concerns=own)
