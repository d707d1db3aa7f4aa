"""Storage that hangs, dies or returns errors in mid-write: its trial fails with the cause, nothing stays, and the next
trial measures."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.netns.runs import needs_devices, storage_state, until

from iolab.experiment import Resolver, cells, parse
from iolab.experiment.model.measures import DiskMeasure
from iolab.lab.compose import compose
from iolab.lab.topology import make_topology
from iolab.messages.disks import (
    DiskErred,
    DiskServerFailed,
    DiskServerSilent,
    IscsiTarget,
    ProcessGone,
    ProcessStopped,
    VolumeServer,
)
from iolab.messages.failures import Failure
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import open_agent
from iolab.run.lab.standing_lab import StandingLab
from iolab.trial.disk.measure import measure_disk
from iolab.trial.disk.ran import Patience
from iolab.trial.lab_access import Site
from iolab.trial.measurement import LabUnusable
from iolab.units import NS_PER_S

pytestmark = [pytest.mark.netns, needs_devices("/dev/fuse", "/dev/loop-control")]
LAB = """
title: Storage that vanishes
lab:
  machines: {pc2: {kind: netns, disks: [{volume: vanishing, via: user}]}, pc3: {kind: netns}}
  links: {san: {ends: [pc2.eth0, pc3.eth0]}}
  volumes: {vanishing: {on: pc3, size: 32M, export: iscsi}}
measure:
  it: {kind: disk, program: fio, on: pc2, size: 16M,
       fio: {each: %s, blocks: [64K], depths: [8], access: [%s]}}
"""
SHORT = Patience(look_ms=100, ask_ns=NS_PER_S // 2, ask_ms=500, still_ns=NS_PER_S)
"""What takes 20 s takes one; the rest is as in a run."""


def processes_of(name: str, word: str) -> list[int]:
    """Return the processes of a name that have a word among their arguments or in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # other processes of this computer end meanwhile
            said = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if (process / "comm").read_text().strip() == name and word.encode() in said:
                found.append(int(process.name))
    return found


def signalled(name: str, number: signal.Signals) -> Callable[[], None]:
    """Return what sends a signal to a server of the lab."""

    def act() -> None:
        (pid,) = processes_of(name, "iolab-vanishing")
        os.kill(pid, number)

    return act


class Bench:
    """A lab with one disk, made again for each measurement."""

    def __init__(self, agents: Agents) -> None:
        self.agents = agents
        self.lab = StandingLab(agents, lambda _: None)

    def measure(self, each: str, access: str = "write", then: Callable[[], None] | None = None) -> None:
        """Make the lab and measure it for so long; once fio runs, do what is to be done. Raises TrialFailed."""
        experiment = parse(LAB % (each, access), "test")
        setup = Resolver(experiment).setup(next(cells(experiment)))
        measure = setup.measures["it"]
        assert isinstance(measure, DiskMeasure)
        self.lab.change_to(compose(setup.lab))
        site = Site(agent=self.agents.here, lab=setup.lab, topology=make_topology(setup.lab))

        def act() -> None:
            until(lambda: processes_of("fio", "json+"))  # what fills the disk has not this word
            assert then is not None
            then()

        thread = threading.Thread(target=act if then else lambda: None)
        thread.start()
        try:
            measure_disk(site, measure, SHORT)
        finally:
            thread.join()

    def failure(self, then: Callable[[], None], access: str = "write") -> Failure:
        """Return why a measurement fails in which something is done to the storage; the lab is taken down then."""
        with pytest.raises(LabUnusable) as failed:
            self.measure("20s", access, then)
        self.lab.take_down(failed.value.hung)
        return failed.value.failure


@pytest.fixture
def bench(unchanged_host: None) -> Iterator[Bench]:
    """A lab of which nothing is left in the end, and nothing of a neighbour is touched."""
    before = storage_state()
    neighbour = Path("/var/tmp/neighbour-of-vanishing")
    neighbour.write_text("precious")
    try:
        with open_agent() as agent:
            yield Bench(Agents(agent))
            until(lambda: storage_state() == before)  # a loop device goes with the last request on it
        assert neighbour.read_text() == "precious"
    finally:
        neighbour.unlink()
        for name in ("tgtd", "qemu-storage-da"):
            for pid in processes_of(name, "iolab-vanishing"):
                subprocess.run(["kill", "-KILL", str(pid)], check=False)


DAEMON = VolumeServer(code="storage-daemon", volume="vanishing", machine="pc2")


def test_a_target_that_is_stopped_in_mid_write_is_named_and_the_next_trial_measures(bench: Bench) -> None:
    """Eight writes are in flight; the storage daemon waits for its target, and fio for the daemon."""
    failure = bench.failure(signalled("tgtd", signal.SIGSTOP))
    assert isinstance(failure, DiskServerSilent)
    assert failure.server == IscsiTarget(volume="vanishing", machine="pc3", program="tgtd")
    assert isinstance(failure.condition, ProcessStopped)
    assert failure.in_flight > 0
    bench.measure("300ms")
    bench.lab.take_down()


@pytest.mark.full
def test_a_storage_daemon_that_is_stopped_in_mid_write_is_named(bench: Bench) -> None:
    """fio is in state D until the daemon is killed: nothing else ends it."""
    failure = bench.failure(signalled("qemu-storage-da", signal.SIGSTOP))
    assert isinstance(failure, DiskServerSilent)
    assert failure.server == DAEMON
    assert isinstance(failure.condition, ProcessStopped)


@pytest.mark.full
def test_a_storage_daemon_that_is_killed_in_mid_write_is_named(bench: Bench) -> None:
    """fio reports an I/O error, or the daemon's end is noticed before."""
    failure = bench.failure(signalled("qemu-storage-da", signal.SIGKILL))
    assert isinstance(failure, DiskServerSilent | DiskServerFailed)
    assert (failure.server, failure.condition) == (DAEMON, ProcessGone())


def test_a_disk_that_returns_errors_gives_no_figure(bench: Bench) -> None:
    """The volume's file is cut short behind the target, which finds nothing there to read."""
    failure = bench.failure(lambda: os.truncate("/var/tmp/iolab-vanishing", 1 << 20), "read")
    assert isinstance(failure, DiskErred)
    assert "Input/output error" in failure.output
