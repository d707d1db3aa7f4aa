"""Labs on a fake agent: resources created and undone in order, interrupts and NAPI threads placed."""

import threading
from dataclasses import dataclass, field, replace

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome
from tests.unit.run.guests.fake_guests import guest, parent
from tests.unit.run.lab.fake_labs import standing
from tests.wording import in_words

from iolab.agent.client import Agent
from iolab.errors import LabError
from iolab.lab.actions import (
    Command,
    CreateNetns,
    Expectation,
    InterruptState,
    PinNapi,
    Reading,
    Run,
    Setting,
    SpreadInterrupts,
    StartDevice,
    StartGuest,
    Write,
)
from iolab.lab.readback.values import InterfaceByMac, Value
from iolab.lab.resources import Resource
from iolab.results.trial import CommandRecord
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab
from iolab.run.lab.tuning import NapiThreads

NETNS = Resource(key="netns:a", machine="a", actions=(CreateNetns("iolab-a"),))


def link(name: str, *, needs: tuple[str, ...] = ("netns:a",)) -> Resource:
    """Return a resource created and undone by one command each."""
    run = Run(Command(("make", name), "iolab-a"), Command(("unmake", name), "iolab-a"))
    return Resource(key=f"link:{name}", machine="a", needs=needs, actions=(run,))


def setting(value: str) -> Resource:
    """Return a kernel setting that is read back."""
    path = "/proc/sys/net/ipv4/ip_forward"
    return Resource(
        key="setting:a:ip_forward",
        machine="a",
        needs=("netns:a",),
        actions=(Write(path, "iolab-a", value),),
        expect=(Expectation(Reading(Setting(path, "iolab-a"), Value()), value, "ip_forward of a"),),
        held=True,
    )


def test_lab_is_created_in_dependency_order_and_logged_as_commands() -> None:
    """Log each command with its undo, namespaces first."""
    host = FakeHost()
    lab, log = standing(host)
    lab.change_to((NETNS, link("x"), link("y", needs=("link:x",))))
    assert host.netns == {"iolab-a"}
    assert [" ".join(record.argv) for record in log] == [
        "ip netns add iolab-a",
        "ip link set dev lo up",
        "make x",
        "make y",
    ]
    assert log[3].undo == ("unmake", "y")


def test_lab_change_touches_only_the_differences() -> None:
    """Keep the common part of two labs."""
    host = FakeHost()
    lab, _ = standing(host)
    lab.change_to((NETNS, link("x"), link("y")))
    host.ran.clear()
    lab.change_to((NETNS, link("x"), link("z")))
    assert [argv for argv, _ in host.ran] == [("unmake", "y"), ("make", "z")]


def test_undo_commands_are_logged_with_their_namespace_and_originals() -> None:
    """Log the first original of a setting once, so that the log can be repeated."""
    lab, log = standing(FakeHost(settings={("iolab-a", "/proc/sys/net/ipv4/ip_forward"): "7"}))
    lab.change_to((NETNS, setting("1"), link("x")))
    lab.change_to((NETNS, setting("0")))
    lab.take_down()
    typed = [(" ".join(one.argv), one.netns) for one in log[2:]]
    assert typed == [
        ("sysctl -w net.ipv4.ip_forward=1", "iolab-a"),
        ("make x", "iolab-a"),
        ("unmake x", "iolab-a"),
        ("sysctl -w net.ipv4.ip_forward=0", "iolab-a"),
        ("sysctl -w net.ipv4.ip_forward=7", "iolab-a"),
        ("ip netns del iolab-a", None),
    ]


def test_setting_changed_twice_is_restored_to_its_first_original() -> None:
    """Restore the value from before the lab."""
    key = ("iolab-a", "/proc/sys/net/ipv4/ip_forward")
    host = FakeHost(settings={key: "7"})
    lab, _ = standing(host)
    lab.change_to((NETNS, setting("1")))
    lab.change_to((NETNS, setting("0")))
    assert host.settings[key] == "0"
    lab.take_down()
    assert host.settings[key] == "7"


def test_read_back_mismatch_is_reported_in_a_sentence() -> None:
    """Include the read value and the applied one."""
    host = FakeHost()
    lab, _ = standing(host)
    lab.change_to((NETNS, setting("1")))
    assert lab.mismatches() == []
    host.settings[("iolab-a", "/proc/sys/net/ipv4/ip_forward")] = "0"
    assert in_words(lab.mismatches()) == "ip_forward of a was set to 1, but was read back as 0"


def test_failed_command_takes_the_lab_down_and_is_named() -> None:
    """Name the resource, the command and its error; leave nothing behind."""
    host = FakeHost()
    lab, log = standing(
        host, lambda argv, _: Outcome(exit_status=2, stderr="no room") if argv == ("make", "y") else Outcome()
    )
    with pytest.raises(LabError, match=r"creating link:y with `make y` on iolab-a failed: no room"):
        lab.change_to((NETNS, link("x"), link("y")))
    assert host.netns == set()
    assert ("unmake", "x") in [argv for argv, _ in host.ran]
    assert [record.argv[0] for record in log] == ["ip", "ip", "make", "unmake", "ip"]


def test_original_read_before_a_change_is_used_in_its_undo() -> None:
    """Insert the words that were read into the undo."""
    show = Reading(Command(("show", "tso"), None), Value())
    change = Run(Command(("set", "tso", "off")), Command(("set", "{original}")), show)
    host = FakeHost()
    lab, _ = standing(host, lambda argv, _: Outcome(stdout="tso on\n" if argv[0] == "show" else ""))
    lab.change_to((Resource(key="offload", machine="a", actions=(change,)),))
    lab.take_down()
    assert host.ran[-1] == (("set", "tso", "on"), None)


def test_concurrent_actions_are_awaited_before_a_failed_lab_is_undone() -> None:
    """Leave no namespace of an unfinished action behind."""
    host = FakeHost(netns={"iolab-a"})
    others = tuple(
        Resource(key=f"netns:{name}", machine=name, actions=(CreateNetns(f"iolab-{name}"),)) for name in "bcd"
    )
    lab, _ = standing(host)
    with pytest.raises(LabError, match=r"creating netns:a .*exists"):
        lab.change_to((NETNS, *others))
    assert host.netns == {"iolab-a"}


def test_starting_guest_is_awaited_and_stopped_if_a_later_action_fails() -> None:
    """Stop it with the rest, and remove its agent."""
    booted = threading.Event()

    def boots() -> FakeAgent:
        booted.wait(0.2)  # nothing has set it before
        booted.set()
        return FakeAgent(machine=True)

    guests, agents, host = parent(agent=boots)
    lab = StandingLab(agents, lambda _: None, guests)
    dut = Resource(key="vm:dut", machine="dut", actions=(StartGuest(guest()),))
    absent = Reading(Command(("find",)), InterfaceByMac("02:00:00:00:00:01"))
    lost = Resource(key="card", machine="a", actions=(Run(Command(("name", "{found}")), find=absent),))
    with pytest.raises(LabError, match="the original value, needed to restore it later, could not be read"):
        lab.change_to((dut, lost))
    assert booted.is_set()
    assert guests.running == ()
    assert host.folders == set()
    assert "dut" not in agents


def test_reference_device_that_does_not_start_is_reported_and_the_rest_is_undone() -> None:
    """Continue the undo without stopping it."""
    host = FakeHost()
    fake = FakeAgent(host)
    fake.traffic.broken["p0"] = (95, "takes no program")
    lab = StandingLab(Agents(Agent(fake)), lambda _: None)
    device = StartDevice("device:a.p0", "iolab-a", "p0", "p1")
    with pytest.raises(LabError, match=r"creating device.*takes no program"):
        lab.change_to((NETNS, Resource(key="device", machine="a", needs=("netns:a",), actions=(device,))))
    assert host.netns == set()


def test_agent_that_dies_during_lab_creation_ends_the_creation_with_that_reason() -> None:
    """Send no request to it, and wait for nothing."""

    def dies(*_: object) -> Outcome:
        fake.kill()
        return Outcome()

    fake = FakeAgent(FakeHost(), dies)
    lab = StandingLab(Agents(Agent(fake)), lambda _: None)
    with pytest.raises(LabError, match=r"creating link:x with `make x`: .* the agent is gone"):
        lab.change_to((NETNS, link("x"), link("y")))


def test_lab_waits_for_a_nic_without_a_ready_signal_only_after_changing_that_nic() -> None:
    """Wait after a change of its dependents, too."""
    waits: list[float] = []
    log: list[CommandRecord] = []
    lab = StandingLab(Agents(Agent(FakeAgent(FakeHost()))), log.extend, pause=waits.append)
    card = replace(link("card"), settle_ns=3_000_000_000)
    lab.change_to((NETNS, card, link("z")))
    assert waits == [3.0]
    lab.change_to((NETNS, card, link("y")))
    assert waits == [3.0]
    lab.change_to((NETNS, card, link("y"), link("x", needs=("link:card",))))
    assert waits == [3.0, 3.0]


def test_guest_names_are_announced_once_before_guests_start() -> None:
    """Announce them before the lab is created, and not again while they run."""
    told: list[str] = []
    guests, agents, host = parent()
    lab = StandingLab(
        agents, lambda _: None, guests, starting=lambda names: told.extend([*names, *host.netns])
    )
    dut = Resource(key="vm:dut", machine="dut", needs=("netns:a",), actions=(StartGuest(guest()),))
    lab.change_to((NETNS, dut))
    lab.change_to((NETNS, dut, link("x")))
    lab.take_down()
    assert told == ["dut"]


VIRTIO, E1000 = "/sys/devices/pci0000:00/0000:00:03.0/virtio0", "/sys/devices/pci0000:00/0000:00:04.0"
FIRST, SECOND = ((None, f"/proc/irq/{number}/smp_affinity_list") for number in (24, 25))


def programs(argv: tuple[str, ...], _netns: str | None) -> Outcome:
    """Show a virtio NIC with two vectors, an old NIC with one interrupt, and an interface without a device."""
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
    """Return the interrupt affinity of a NIC."""
    expected = Expectation(Reading(InterruptState(interface), Value()), ",".join(map(str, cpus)), "CPUs")
    action = SpreadInterrupts(interface, cpus)
    return Resource(
        key=f"interrupts:{interface}", machine="pc", actions=(action,), expect=(expected,), held=True
    )


@pytest.fixture
def host() -> FakeHost:
    """Return a host whose interrupts may run on any CPU."""
    return FakeHost(settings=dict.fromkeys((FIRST, SECOND, (None, "/proc/irq/11/smp_affinity_list")), "0-7"))


def test_all_interrupt_vectors_of_a_virtio_nic_are_moved_read_back_and_restored(host: FakeHost) -> None:
    """Find the vectors through the PCI parent; keep the first original at a second level."""
    lab, log = standing(host, programs)
    lab.change_to((spread("eth0", 3),))
    lab.change_to((spread("eth0", 5),))
    assert (host.settings[FIRST], host.settings[SECOND], lab.mismatches()) == ("5", "5", [])
    host.settings[SECOND] = "1"
    assert in_words(lab.mismatches()) == "CPUs was set to 5, but was read back as 5 1"
    lab.change_to(())
    assert (host.settings[FIRST], host.settings[SECOND]) == ("0-7", "0-7")
    assert log[-1].argv == ("sh", "-c", f"echo 0-7 > {FIRST[1]}; echo 0-7 > {SECOND[1]}")


def test_nic_without_msi_vectors_uses_its_single_interrupt(host: FakeHost) -> None:
    """Read it from the device's own file."""
    standing(host, programs)[0].change_to((spread("eth1", 2),))
    assert host.settings[None, "/proc/irq/11/smp_affinity_list"] == "2"
    assert host.settings[FIRST] == "0-7"


def test_interrupt_affinity_of_an_interface_without_a_hardware_device_is_refused(host: FakeHost) -> None:
    """Report that it has no interrupts."""
    lab: StandingLab = standing(host, programs)[0]
    with pytest.raises(
        LabError, match="cannot assign the interrupts of veth0 to CPUs because its device has no interrupts"
    ):
        lab.change_to((spread("veth0", 2),))


@dataclass
class Kernel:
    """A kernel that creates a NAPI thread for each interface with threaded NAPI, all of the same name."""

    host: FakeHost = field(default_factory=FakeHost)
    """Host with the settings."""
    works: bool = True
    """Whether it supports threaded NAPI."""
    cpus: dict[str, str] = field(default_factory=dict)
    """Process ID to its CPUs; an ended thread has none."""

    def __call__(self, argv: tuple[str, ...], _netns: str | None) -> Outcome:
        """List the threads, move them and show their CPUs; accept all other commands."""
        if argv[0] == "taskset":
            self.cpus[argv[4]] = argv[3]
        if argv[0] == "grep":
            seen = self.cpus.get(argv[3].split("/")[2])
            return Outcome(stdout=f"Cpus_allowed_list:\t{seen}\n") if seen else Outcome(exit_status=1)
        if argv[0] != "ps" or not self.works:
            return Outcome()
        told = [path for (_, path), value in self.host.settings.items() if value == "1"]
        return Outcome(stdout="1 init\n" + "".join(f"{100 + i} napi/eth0-{i}\n" for i in range(len(told))))


@dataclass
class Queued:
    """A kernel that creates a thread for each of three receive queues, each time NAPI is set again."""

    host: FakeHost = field(default_factory=FakeHost)
    """Host with the settings."""

    def __call__(self, argv: tuple[str, ...], _netns: str | None) -> Outcome:
        """List the threads; accept all other commands."""
        on = argv[0] == "ps" and "1" in self.host.settings.values()
        return Outcome(stdout="".join(f"{100 + i} napi/eth0-{i}\n" for i in range(3)) if on else "")


def test_every_receive_queue_has_a_napi_thread_on_the_cpu_of_its_port() -> None:
    """Set them again together."""
    kernel = Queued()
    threads = NapiThreads(Agents(Agent(FakeAgent(kernel.host, programs=kernel))))
    for _ in range(2):
        threads.pin(PinNapi("eth0", "a", 1, 10, queues=3))[1].result(1)
    found = threads.at("a", "eth0")
    assert found is not None
    assert found.pids == (100, 101, 102)
    ran = [argv for argv, _ in kernel.host.ran]
    for pid in ("100", "101", "102"):
        assert ran.count(("taskset", "-c", "-p", "1", pid)) == 2
        assert ran.count(("chrt", "--fifo", "-p", "10", pid)) == 2


def pinned(kernel: Kernel, *netns: str) -> NapiThreads:
    """Pin eth0 of each namespace to a separate CPU."""
    threads = NapiThreads(Agents(Agent(FakeAgent(kernel.host, programs=kernel))))
    for cpu, name in enumerate(netns):
        threads.pin(PinNapi("eth0", name, cpu, 10))[1].result(1)
    return threads


def test_equally_named_interfaces_in_two_namespaces_have_separate_napi_threads() -> None:
    """Select the thread that appeared."""
    kernel = Kernel()
    threads = pinned(kernel, "a", "b")
    first, second = threads.at("a", "eth0"), threads.at("b", "eth0")
    assert first is not None
    assert second is not None
    assert (first.pid, second.pid) == (100, 101)
    ran = [argv for argv, _ in kernel.host.ran]
    assert ("taskset", "-c", "-p", "1", "101") in ran
    assert ("chrt", "--fifo", "-p", "10", "100") in ran


def test_kernel_without_threaded_napi_is_not_an_error() -> None:
    """Move nothing; the trial reports it."""
    kernel = Kernel(works=False)
    assert pinned(kernel, "a").at("a", "eth0") is None
    assert not any(argv[0] == "taskset" for argv, _ in kernel.host.ran)


def test_moved_or_ended_napi_thread_is_reported() -> None:
    """Ignore threads that are not requested."""
    kernel = Kernel()
    threads = pinned(kernel, "a", "b", "c")
    wanted = [("", PinNapi("eth0", name, cpu, 10)) for cpu, name in enumerate("ab")]
    assert threads.moved(wanted) == []
    kernel.cpus |= {"100": "0-1", "102": "7"}
    del kernel.cpus["101"]
    assert [in_words(one) for one in threads.moved(wanted)] == [
        "cpu of napi/eth0-0 was set to 0, but was read back as 0-1",
        "cpu of napi/eth0-1 was set to 1, but could not be read back",
    ]
