"""A standing lab: resources made and undone in order, interrupts and NAPI threads placed."""

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
    """Return a resource made and undone by one command each."""
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


def test_a_lab_is_made_in_order_of_need_and_logged_as_typed() -> None:
    """Namespaces first; the log shows what a person would type, with its undo."""
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


def test_only_what_differs_is_touched() -> None:
    """From one lab to the next the common part stands still."""
    host = FakeHost()
    lab, _ = standing(host)
    lab.change_to((NETNS, link("x"), link("y")))
    host.ran.clear()
    lab.change_to((NETNS, link("x"), link("z")))
    assert [argv for argv, _ in host.ran] == [("unmake", "y"), ("make", "z")]


def test_what_takes_a_lab_back_is_logged_where_it_is_run() -> None:
    """Who types the log repeats the run: of what was changed in place the first original, and nothing twice."""
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


def test_a_setting_changed_in_place_goes_back_to_its_first_original() -> None:
    """Changed twice, undone once: the value is the one from before the lab."""
    key = ("iolab-a", "/proc/sys/net/ipv4/ip_forward")
    host = FakeHost(settings={key: "7"})
    lab, _ = standing(host)
    lab.change_to((NETNS, setting("1")))
    lab.change_to((NETNS, setting("0")))
    assert host.settings[key] == "0"
    lab.take_down()
    assert host.settings[key] == "7"


def test_what_reads_back_differently_is_told_in_a_sentence() -> None:
    """Somebody else changed it: what was seen and what was applied."""
    host = FakeHost()
    lab, _ = standing(host)
    lab.change_to((NETNS, setting("1")))
    assert lab.mismatches() == []
    host.settings[("iolab-a", "/proc/sys/net/ipv4/ip_forward")] = "0"
    assert in_words(lab.mismatches()) == "ip_forward of a was set to 1, but was read back as 0"


def test_a_command_that_fails_takes_the_lab_down_and_says_which() -> None:
    """The message has the resource, the command and its own words; nothing is left standing."""
    host = FakeHost()
    lab, log = standing(
        host, lambda argv, _: Outcome(exit_status=2, stderr="no room") if argv == ("make", "y") else Outcome()
    )
    with pytest.raises(LabError, match=r"creating link:y with `make y` on iolab-a failed: no room"):
        lab.change_to((NETNS, link("x"), link("y")))
    assert host.netns == set()
    assert ("unmake", "x") in [argv for argv, _ in host.ran]
    assert [record.argv[0] for record in log] == ["ip", "ip", "make", "unmake", "ip"]


def test_the_original_read_before_a_change_fills_its_undo() -> None:
    """An undo that cannot be known beforehand takes the words that were read."""
    show = Reading(Command(("show", "tso"), None), Value())
    change = Run(Command(("set", "tso", "off")), Command(("set", "{original}")), show)
    host = FakeHost()
    lab, _ = standing(host, lambda argv, _: Outcome(stdout="tso on\n" if argv[0] == "show" else ""))
    lab.change_to((Resource(key="offload", machine="a", actions=(change,)),))
    lab.take_down()
    assert host.ran[-1] == (("set", "tso", "on"), None)


def test_when_one_of_several_fails_the_others_are_waited_for_before_undoing() -> None:
    """A namespace whose making was under way is not left behind."""
    host = FakeHost(netns={"iolab-a"})
    others = tuple(
        Resource(key=f"netns:{name}", machine=name, actions=(CreateNetns(f"iolab-{name}"),)) for name in "bcd"
    )
    lab, _ = standing(host)
    with pytest.raises(LabError, match=r"creating netns:a .*exists"):
        lab.change_to((NETNS, *others))
    assert host.netns == {"iolab-a"}


def test_a_guest_under_way_is_waited_for_when_what_begins_after_it_cannot_be_sent() -> None:
    """It is ended with the rest, and no kernel of a lab that does not stand."""
    booted = threading.Event()

    def boots() -> FakeAgent:
        booted.wait(0.2)  # nothing sets it before: it takes so long
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


def test_a_device_that_does_not_start_is_told_and_the_rest_is_undone() -> None:
    """There is nothing to stop of it, which is no reason to leave the others standing."""
    host = FakeHost()
    fake = FakeAgent(host)
    fake.traffic.broken["p0"] = (95, "takes no program")
    lab = StandingLab(Agents(Agent(fake)), lambda _: None)
    device = StartDevice("device:a.p0", "iolab-a", "p0", "p1")
    with pytest.raises(LabError, match=r"creating device.*takes no program"):
        lab.change_to((NETNS, Resource(key="device", machine="a", needs=("netns:a",), actions=(device,))))
    assert host.netns == set()


def test_a_kernel_that_dies_under_way_ends_the_lab_with_that_reason() -> None:
    """Nobody is asked after it, and no wait is for nothing."""

    def dies(*_: object) -> Outcome:
        fake.kill()
        return Outcome()

    fake = FakeAgent(FakeHost(), dies)
    lab = StandingLab(Agents(Agent(fake)), lambda _: None)
    with pytest.raises(LabError, match=r"creating link:x with `make x`: .* the agent is gone"):
        lab.change_to((NETNS, link("x"), link("y")))


def test_a_card_that_tells_nobody_when_it_is_ready_is_waited_for() -> None:
    """After a change to it or to what stands on it; not after others."""
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


def test_who_waits_for_guests_is_told_their_names_first() -> None:
    """Before anything of the lab is made, and not again while they run."""
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
    assert in_words(lab.mismatches()) == "CPUs was set to 5, but was read back as 5 1"
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
    with pytest.raises(
        LabError, match="cannot assign the interrupts of veth0 to CPUs because its device has no interrupts"
    ):
        lab.change_to((spread("veth0", 2),))


@dataclass
class Kernel:
    """One that makes a thread for each interface that is set to have one, all of the same name."""

    host: FakeHost = field(default_factory=FakeHost)
    """Where it is set so."""
    works: bool = True
    """Whether it has such threads at all."""
    cpus: dict[str, str] = field(default_factory=dict)
    """Process id to the CPUs it was put on; a thread that has ended has none."""

    def __call__(self, argv: tuple[str, ...], _netns: str | None) -> Outcome:
        """List the threads, move them and say where they are; everything else succeeds."""
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
    """A kernel that makes a thread for each of three receive queues, each time it is set again."""

    host: FakeHost = field(default_factory=FakeHost)
    """Where it is set so."""

    def __call__(self, argv: tuple[str, ...], _netns: str | None) -> Outcome:
        """List the threads; everything else succeeds."""
        on = argv[0] == "ps" and "1" in self.host.settings.values()
        return Outcome(stdout="".join(f"{100 + i} napi/eth0-{i}\n" for i in range(3)) if on else "")


def test_every_receive_queue_has_a_thread_on_the_cpu_of_the_port() -> None:
    """They are found together, and kept together when they are wanted again."""
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
    """Pin eth0 of each namespace to a CPU of its own."""
    threads = NapiThreads(Agents(Agent(FakeAgent(kernel.host, programs=kernel))))
    for cpu, name in enumerate(netns):
        threads.pin(PinNapi("eth0", name, cpu, 10))[1].result(1)
    return threads


def test_interfaces_of_one_name_in_two_namespaces_have_a_thread_each() -> None:
    """The one that appeared is the one that was asked for."""
    kernel = Kernel()
    threads = pinned(kernel, "a", "b")
    first, second = threads.at("a", "eth0"), threads.at("b", "eth0")
    assert first is not None
    assert second is not None
    assert (first.pid, second.pid) == (100, 101)
    ran = [argv for argv, _ in kernel.host.ran]
    assert ("taskset", "-c", "-p", "1", "101") in ran
    assert ("chrt", "--fifo", "-p", "10", "100") in ran


def test_a_kernel_without_such_threads_is_no_failure() -> None:
    """There is nothing to move, and the trial will say so."""
    kernel = Kernel(works=False)
    assert pinned(kernel, "a").at("a", "eth0") is None
    assert not any(argv[0] == "taskset" for argv, _ in kernel.host.ran)


def test_a_thread_that_is_no_longer_where_it_was_put_is_told_of() -> None:
    """It was moved by somebody else, or ended; one that nobody asks about is not looked at."""
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
