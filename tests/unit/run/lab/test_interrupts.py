"""The interrupts of a card: found through its device, given to CPUs, read back and put back."""

import pytest
from tests.fake_agent.agent import FakeHost, Outcome
from tests.unit.run.lab.fake_labs import standing
from tests.wording import in_words

from iolab.errors import LabError
from iolab.lab.actions import Expectation, InterruptState, Reading, SpreadInterrupts
from iolab.lab.readback.values import Value
from iolab.lab.resources import Resource
from iolab.run.lab.standing_lab import StandingLab

VIRTIO, E1000 = "/sys/devices/pci0000:00/0000:00:03.0/virtio0", "/sys/devices/pci0000:00/0000:00:04.0"
FIRST, SECOND = ((None, f"/proc/irq/{number}/smp_affinity_list") for number in (24, 25))


def programs(argv: tuple[str, ...], _netns: str | None) -> Outcome:
    """Show a virtio card with two vectors, an old card with one line, and one that is no device."""
    match argv:
        case ("readlink", "-f", path):
            device = {"eth0": VIRTIO, "eth1": E1000}.get(path.split("/")[4], path)
            return Outcome(stdout=device + "\n")
        case ("ls", "/sys/devices/pci0000:00/0000:00:03.0/msi_irqs"):
            return Outcome(stdout="24\n25\n")
        case ("cat", path) if path == f"{E1000}/irq":
            return Outcome(stdout="11\n")
        case _:
            return Outcome(exit_status=1)


def spread(interface: str, *cpus: int) -> Resource:
    """Return interrupts of a card on CPUs."""
    expected = Expectation(Reading(InterruptState(interface), Value()), ",".join(map(str, cpus)), "CPUs")
    action = SpreadInterrupts(interface, cpus)
    return Resource(
        key=f"interrupts:{interface}", machine="pc", actions=(action,), expect=(expected,), held=True
    )


@pytest.fixture
def host() -> FakeHost:
    """Give a host whose interrupts may go anywhere."""
    return FakeHost(settings=dict.fromkeys((FIRST, SECOND, (None, "/proc/irq/11/smp_affinity_list")), "0-7"))


def test_every_vector_of_a_virtio_card_is_moved_read_back_and_put_back(host: FakeHost) -> None:
    """The vectors are its PCI parent's; a second level keeps the first original."""
    lab, log = standing(host, programs)
    lab.change_to((spread("eth0", 3),))
    lab.change_to((spread("eth0", 5),))
    assert (host.settings[FIRST], host.settings[SECOND], lab.mismatches()) == ("5", "5", [])
    host.settings[SECOND] = "1"
    assert in_words(lab.mismatches()) == "CPUs was read back as 5 1 where 5 was applied"
    lab.change_to(())
    assert (host.settings[FIRST], host.settings[SECOND]) == ("0-7", "0-7")
    assert log[-1].argv == ("sh", "-c", f"echo 0-7 > {FIRST[1]}; echo 0-7 > {SECOND[1]}")


def test_a_card_without_vectors_has_one_line(host: FakeHost) -> None:
    """What the device's own file tells."""
    standing(host, programs)[0].change_to((spread("eth1", 2),))
    assert host.settings[None, "/proc/irq/11/smp_affinity_list"] == "2"
    assert host.settings[FIRST] == "0-7"


def test_an_interface_that_is_no_device_is_told(host: FakeHost) -> None:
    """There is nothing to move."""
    lab: StandingLab = standing(host, programs)[0]
    with pytest.raises(LabError, match="giving interrupts of veth0 to CPUs: its device has none of its own"):
        lab.change_to((spread("veth0", 2),))
