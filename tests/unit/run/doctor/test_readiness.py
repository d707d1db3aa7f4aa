"""The doctor's lines about processors and cards: what is set, and what of it changes figures."""

from dataclasses import replace

from tests.unit.lab.hosts.computers import CARD, READY, SERVER, facts

from iolab.lab.hosts.facts import InterfaceFact, ProcessorFacts
from iolab.messages.checks import HostExamined
from iolab.messages.host_issues import ManagedCard
from iolab.report.locale import EN
from iolab.run.doctor.host_findings import Finding, Grade, readiness_findings


def found(
    *cards: InterfaceFact, processors: ProcessorFacts = SERVER, daemons: tuple[str, ...] = ()
) -> dict[str, Finding]:
    """Return the findings by subject."""
    return {one.subject: one for one in readiness_findings(facts(processors, *cards, daemons=daemons))}


def test_a_server_as_it_was_bought_is_described_line_by_line() -> None:
    """Each line has what is set; what changes figures has advice."""
    lines = found(CARD, daemons=("irqbalance",))
    assert EN.said.say_all(lines["cpu-frequency"].seen).startswith("intel_pstate: powersave on CPUs 0-7")
    assert EN.said.say_all(lines["idle-states"].seen).startswith("intel_idle: POLL 0 ns, C6 133 µs")
    assert lines["SMT"].grade is Grade.GOOD
    assert EN.said.say_all(lines["NUMA"].seen).startswith("node 0: CPUs 0,2,4,6; node 1: CPUs 1,3,5,7")
    limited = {name for name, line in lines.items() if line.grade is Grade.LIMITED}
    assert limited == {"cpu-frequency", "turbo", "idle-states", "irqbalance", "enp1s0f0"}
    assert all(EN.said.advise_all(lines[name].seen) for name in limited)


def test_a_card_is_described_with_driver_firmware_and_settings() -> None:
    """So are a daemon that manages it, and pause frames; an interface of software is no card."""
    card = found(replace(CARD, driver_version="6.1"), InterfaceFact(name="lo", mtu=65536, up=True))
    assert "lo" not in card
    text = EN.said.say_all(card["enp1s0f0"].seen)
    (managed,) = (one for one in card["enp1s0f0"].seen if isinstance(one, ManagedCard))
    for part in ("ixgbe 6.1", "firmware 0x800003e1", "NUMA node 1", "rx-usecs 1"):
        assert part in text
    assert EN.said.advise(managed) == "run `nmcli device set enp1s0f0 managed no`"


def test_a_virtual_machine_sets_no_frequency_and_needs_no_advice() -> None:
    """Nothing that nobody can change is held against a host."""
    lines = found(processors=ProcessorFacts(online="0-1"))
    assert lines["cpu-frequency"].seen == (HostExamined(code="frequency-unset"),)
    assert {line.grade for line in lines.values()} == {Grade.GOOD}
    assert {line.grade for line in found(processors=READY).values()} == {Grade.GOOD}
