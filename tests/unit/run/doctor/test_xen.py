"""What the doctor says of Xen, on the fake agent: whether domains can be made, and what is left for them."""

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome

from iolab.agent.client import Agent
from iolab.report.locale import EN
from iolab.run.doctor.guests import xen_finding
from iolab.run.doctor.host_findings import Finding, Grade

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
    """Return what is found on a Dom0; `refused` is a word of the command that fails, and what it says."""

    def programs(argv: tuple[str, ...], _netns: str | None) -> Outcome:
        if refused is not None and any(refused[0] in word for word in argv):
            return Outcome(stderr=refused[1], exit_status=1)
        shown = {"info": info, "vcpu-list": VCPUS}
        return Outcome(stdout=shown.get(argv[1], ""))

    return xen_finding(Agent(FakeAgent(FakeHost(), programs)))


def test_a_dom0_with_room_is_good_and_says_how_much_room() -> None:
    """The version, and what is free: physical CPUs that no virtual one needs."""
    found = examined()
    assert (found.grade, EN.said.advise_all(found.seen)) == (Grade.GOOD, "")
    assert (
        EN.said.say_all(found.seen)
        == "4.17.5, this is its Dom0; 6000 of 8191 MiB and 2 of 4 CPUs are free for domains"
    )


@pytest.mark.parametrize(
    ("told", "instead", "advice"),
    [
        ("nr_cpus                : 4", "nr_cpus                : 2", "dom0_max_vcpus"),
        ("free_memory            : 6000", "free_memory            : 40", "dom0_mem"),
        ("pv hvm", "hvm", "paravirtual"),
    ],
)
def test_a_dom0_without_room_is_limited_and_says_how_to_boot(told: str, instead: str, advice: str) -> None:
    """The figure is seen, the option is named."""
    found = examined(info=INFO.replace(told, instead))
    assert found.grade is Grade.LIMITED
    assert advice in EN.said.advise_all(found.seen)


@pytest.mark.parametrize(
    ("refused", "advice"),
    [
        (("control_d", "it does not run Xen, or is not its Dom0"), "a vm with image: xen, or a host"),
        (("info", "xencall: error: could not open"), "`service xen start`"),
        (("vcpu-list", "libxl: error"), "`service xen start`"),
    ],
)
def test_a_host_that_makes_no_domains_is_limited_and_says_why(refused: tuple[str, str], advice: str) -> None:
    """In the words of what failed; nothing but `engine: xen` needs it."""
    found = examined(refused=refused)
    assert found.grade is Grade.LIMITED
    assert refused[1] in EN.said.say_all(found.seen)
    assert advice in EN.said.advise_all(found.seen)
