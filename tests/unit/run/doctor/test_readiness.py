"""Findings of the doctor on a host, including Xen hosts."""

from dataclasses import replace

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome
from tests.unit.lab.hosts.computers import CARD, READY, SERVER, facts

from iolab.agent.client import Agent
from iolab.lab.hosts.facts import InterfaceFact, ProcessorFacts
from iolab.messages.checks import HostExamined
from iolab.messages.host_issues import ManagedCard
from iolab.report.locale import EN
from iolab.run.doctor.findings import Finding, Grade, readiness_findings, xen_finding


def found(
    *cards: InterfaceFact, processors: ProcessorFacts = SERVER, daemons: tuple[str, ...] = ()
) -> dict[str, Finding]:
    """Return the findings by subject."""
    return {one.subject: one for one in readiness_findings(facts(processors, *cards, daemons=daemons))}


def test_doctor_describes_an_untuned_server_line_by_line() -> None:
    """Give advice for settings that change figures."""
    lines = found(CARD, daemons=("irqbalance",))
    assert EN.said.say_all(lines["cpu-frequency"].seen).startswith("intel_pstate: powersave on CPUs 0-7")
    assert EN.said.say_all(lines["idle-states"].seen).startswith("intel_idle: POLL 0 ns, C6 133 µs")
    assert lines["SMT"].grade is Grade.GOOD
    assert EN.said.say_all(lines["NUMA"].seen).startswith("node 0: CPUs 0,2,4,6; node 1: CPUs 1,3,5,7")
    limited = {name for name, line in lines.items() if line.grade is Grade.LIMITED}
    assert limited == {"cpu-frequency", "turbo", "idle-states", "irqbalance", "enp1s0f0"}
    assert all(EN.said.advise_all(lines[name].seen) for name in limited)


def test_doctor_describes_nics_with_driver_firmware_and_settings() -> None:
    """Include a managing daemon and pause frames; ignore software interfaces."""
    card = found(replace(CARD, driver_version="6.1"), InterfaceFact(name="lo", mtu=65536, up=True))
    assert "lo" not in card
    text = EN.said.say_all(card["enp1s0f0"].seen)
    (managed,) = (one for one in card["enp1s0f0"].seen if isinstance(one, ManagedCard))
    for part in ("ixgbe 6.1", "firmware 0x800003e1", "NUMA node 1", "rx-usecs 1"):
        assert part in text
    assert EN.said.advise(managed) == "run `nmcli device set enp1s0f0 managed no`"


def test_doctor_gives_a_virtual_machine_no_frequency_advice() -> None:
    """Accept conditions that nobody can change."""
    lines = found(processors=ProcessorFacts(online="0-1"))
    assert lines["cpu-frequency"].seen == (HostExamined(code="frequency-unset"),)
    assert {line.grade for line in lines.values()} == {Grade.GOOD}
    assert {line.grade for line in found(processors=READY).values()} == {Grade.GOOD}


INFO = """host                   : pc6
nr_cpus                : 4
virt_caps              : pv hvm hap shadow
total_memory           : 8191
free_memory            : 6000
xen_major              : 4
xen_version            : 4.17.5
xen_commandline        : placeholder dom0_mem=1024M dom0_max_vcpus=2
"""
VCPUS = """Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)
Domain-0                             0     0    1   -b-       3.1  all / all
Domain-0                             0     1    0   r--       2.0  all / all
"""


def examined(*, info: str = INFO, refused: tuple[str, str] | None = None) -> Finding:
    """Return the findings on a Dom0; `refused` is a word of the failing command, and its error message."""

    def programs(argv: tuple[str, ...], _netns: str | None) -> Outcome:
        if refused is not None and any(refused[0] in word for word in argv):
            return Outcome(stderr=refused[1], exit_status=1)
        shown = {"info": info, "vcpu-list": VCPUS}
        return Outcome(stdout=shown.get(argv[1], ""))

    return xen_finding(Agent(FakeAgent(FakeHost(), programs)))


def test_doctor_rates_a_dom0_with_free_resources_as_good_and_lists_them() -> None:
    """Show the version, free memory, and physical CPUs without virtual ones."""
    found = examined()
    assert (found.grade, EN.said.advise_all(found.seen)) == (Grade.GOOD, "")
    assert (
        EN.said.say_all(found.seen)
        == "4.17.5, running as Dom0; 6000 of 8191 MiB and 2 of 4 CPUs are free for Xen domains"
    )


@pytest.mark.parametrize(
    ("told", "instead", "advice"),
    [
        ("nr_cpus                : 4", "nr_cpus                : 2", "dom0_max_vcpus"),
        ("free_memory            : 6000", "free_memory            : 40", "dom0_mem"),
        ("pv hvm", "hvm", "paravirtual"),
    ],
)
def test_doctor_rates_a_dom0_without_free_resources_as_limited_and_suggests_boot_options(
    told: str, instead: str, advice: str
) -> None:
    """Show the figure and name the option."""
    found = examined(info=INFO.replace(told, instead))
    assert found.grade is Grade.LIMITED
    assert advice in EN.said.advise_all(found.seen)


@pytest.mark.parametrize(
    ("refused", "advice"),
    [
        (("control_d", "it does not run Xen, or is not its Dom0"), "a VM with `image: xen` or a host"),
        (("info", "xencall: error: could not open"), "`service xen start`"),
        (("vcpu-list", "libxl: error"), "`service xen start`"),
    ],
)
def test_doctor_rates_a_host_that_cannot_create_domains_as_limited_with_the_reason(
    refused: tuple[str, str], advice: str
) -> None:
    """Quote the failed command; only `engine: xen` needs it."""
    found = examined(refused=refused)
    assert found.grade is Grade.LIMITED
    assert refused[1] in EN.said.say_all(found.seen)
    assert advice in EN.said.advise_all(found.seen)
