"""Bringing a lab about on the fake agent: what is sent, what is read back, and what a failure leaves."""

import threading
from dataclasses import replace

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
    Reading,
    Run,
    Setting,
    StartDevice,
    StartGuest,
    Write,
)
from iolab.lab.readback.values import InterfaceByMac, Value
from iolab.lab.resources import Resource
from iolab.results.trial import CommandRecord
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab

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
    assert in_words(lab.mismatches()) == "ip_forward of a was read back as 0 where 1 was applied"


def test_a_command_that_fails_takes_the_lab_down_and_says_which() -> None:
    """The message has the resource, the command and its own words; nothing is left standing."""
    host = FakeHost()
    lab, log = standing(
        host, lambda argv, _: Outcome(exit_status=2, stderr="no room") if argv == ("make", "y") else Outcome()
    )
    with pytest.raises(LabError, match=r"making link:y with `make y` in iolab-a: no room"):
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
    with pytest.raises(LabError, match=r"making netns:a .*exists"):
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
    with pytest.raises(LabError, match="nothing was found"):
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
    with pytest.raises(LabError, match=r"making device.*takes no program"):
        lab.change_to((NETNS, Resource(key="device", machine="a", needs=("netns:a",), actions=(device,))))
    assert host.netns == set()


def test_a_kernel_that_dies_under_way_ends_the_lab_with_that_reason() -> None:
    """Nobody is asked after it, and no wait is for nothing."""

    def dies(*_: object) -> Outcome:
        fake.kill()
        return Outcome()

    fake = FakeAgent(FakeHost(), dies)
    lab = StandingLab(Agents(Agent(fake)), lambda _: None)
    with pytest.raises(LabError, match=r"making link:x with `make x`: .* it is gone"):
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
