"""The kernel's threads that take frames in: found when they appear, moved, not taken for others of the same name."""

from dataclasses import dataclass, field

from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome
from tests.wording import in_words

from iolab.agent.client import Agent
from iolab.lab.actions import PinNapi
from iolab.run.agents import Agents
from iolab.run.lab.napi_threads import NapiThreads


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
        "cpu of napi/eth0-0 was read back as 0-1 where 0 was applied",
        "cpu of napi/eth0-1 was read back as nothing where 1 was applied",
    ]
