"""The kernel's threads that take frames in: found when they appear, moved, not taken for others of the same name."""

from dataclasses import dataclass, field

from iolab.agent.client import Agent
from iolab.agent.fake import FakeAgent, FakeHost, Outcome
from iolab.lab.resources import PinArrivals
from iolab.run.agents import Agents
from iolab.run.arrivals import ArrivalThreads


@dataclass
class Kernel:
    """One that makes a thread for each interface that is told to have one, all of the same name."""

    host: FakeHost = field(default_factory=FakeHost)
    """Where it is told so."""
    works: bool = True
    """Whether it has such threads at all."""

    def __call__(self, argv: tuple[str, ...], _netns: str | None) -> Outcome:
        """List the threads; everything else succeeds."""
        if argv[0] != "ps" or not self.works:
            return Outcome()
        told = [path for (_, path), value in self.host.settings.items() if value == "1"]
        return Outcome(stdout="1 init\n" + "".join(f"{100 + i} napi/eth0-{i}\n" for i in range(len(told))))


@dataclass
class Queued:
    """A kernel that makes a thread for each of three receive queues, whenever it is told to anew."""

    host: FakeHost = field(default_factory=FakeHost)
    """Where it is told so."""

    def __call__(self, argv: tuple[str, ...], _netns: str | None) -> Outcome:
        """List the threads; everything else succeeds."""
        on = argv[0] == "ps" and "1" in self.host.settings.values()
        return Outcome(stdout="".join(f"{100 + i} napi/eth0-{i}\n" for i in range(3)) if on else "")


def test_every_receive_queue_has_a_thread_on_the_cpu_of_the_port() -> None:
    """They are found together, and kept together when they are wanted again."""
    kernel = Queued()
    threads = ArrivalThreads(Agents(Agent(FakeAgent(kernel.host, programs=kernel))))
    for _ in range(2):
        threads.pin(PinArrivals("eth0", "a", 1, 10, queues=3))[1].result(1)
    found = threads.at("a", "eth0")
    assert found is not None
    assert found.pids == (100, 101, 102)
    ran = [argv for argv, _ in kernel.host.ran]
    for pid in ("100", "101", "102"):
        assert ran.count(("taskset", "-c", "-p", "1", pid)) == 2
        assert ran.count(("chrt", "--fifo", "-p", "10", pid)) == 2


def pinned(kernel: Kernel, *netns: str) -> ArrivalThreads:
    """Pin eth0 of each namespace to a CPU of its own."""
    threads = ArrivalThreads(Agents(Agent(FakeAgent(kernel.host, programs=kernel))))
    for cpu, name in enumerate(netns):
        threads.pin(PinArrivals("eth0", name, cpu, 10))[1].result(1)
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
