"""Storage that hangs, dies or returns errors during a write: its trial fails with the cause, and the next succeeds."""

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
"""Silence limit of one second instead of 20 s; the other limits are as in a run."""


def processes_of(name: str, word: str) -> list[int]:
    """Return the processes of a name with a word among their arguments or in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # other processes of this computer end during the loop
            said = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if (process / "comm").read_text().strip() == name and word.encode() in said:
                found.append(int(process.name))
    return found


def signalled(name: str, number: signal.Signals) -> Callable[[], None]:
    """Return a function that sends a signal to a server of the lab."""

    def act() -> None:
        (pid,) = processes_of(name, "iolab-vanishing")
        os.kill(pid, number)

    return act


class Bench:
    """A lab with one disk, created again for each measurement."""

    def __init__(self, agents: Agents) -> None:
        self.agents = agents
        self.lab = StandingLab(agents, lambda _: None)

    def measure(self, each: str, access: str = "write", then: Callable[[], None] | None = None) -> None:
        """Create the lab and measure it for that time; run the action once fio runs. Raises TrialFailed."""
        experiment = parse(LAB % (each, access), "test")
        setup = Resolver(experiment).setup(next(cells(experiment)))
        measure = setup.measures["it"]
        assert isinstance(measure, DiskMeasure)
        self.lab.change_to(compose(setup.lab))
        site = Site(agent=self.agents.here, lab=setup.lab, topology=make_topology(setup.lab))

        def act() -> None:
            until(lambda: processes_of("fio", "json+"))  # filling the disk does not have this word
            assert then is not None
            then()

        thread = threading.Thread(target=act if then else lambda: None)
        thread.start()
        try:
            measure_disk(site, measure, SHORT)
        finally:
            thread.join()

    def failure(self, then: Callable[[], None], access: str = "write") -> Failure:
        """Return why a measurement with a storage fault fails; remove the lab."""
        with pytest.raises(LabUnusable) as failed:
            self.measure("20s", access, then)
        self.lab.take_down(failed.value.hung)
        return failed.value.failure


@pytest.fixture
def bench(unchanged_host: None) -> Iterator[Bench]:
    """Provide a lab that leaves nothing behind and does not touch a neighbour's file."""
    before = storage_state()
    neighbour = Path("/var/tmp/neighbour-of-vanishing")
    neighbour.write_text("precious")
    try:
        with open_agent() as agent:
            yield Bench(Agents(agent))
            until(lambda: storage_state() == before)  # a loop device is removed with its last request
        assert neighbour.read_text() == "precious"
    finally:
        neighbour.unlink()
        for name in ("tgtd", "qemu-storage-da"):
            for pid in processes_of(name, "iolab-vanishing"):
                subprocess.run(["kill", "-KILL", str(pid)], check=False)


DAEMON = VolumeServer(code="storage-daemon", volume="vanishing", machine="pc2")


def test_target_stopped_during_a_write_is_named_and_the_next_trial_succeeds(bench: Bench) -> None:
    """Stop the target with eight writes in flight."""
    failure = bench.failure(signalled("tgtd", signal.SIGSTOP))
    assert isinstance(failure, DiskServerSilent)
    assert failure.server == IscsiTarget(volume="vanishing", machine="pc3", program="tgtd")
    assert isinstance(failure.condition, ProcessStopped)
    assert failure.in_flight > 0
    bench.measure("300ms")
    bench.lab.take_down()


@pytest.mark.full
def test_storage_daemon_stopped_during_a_write_is_named(bench: Bench) -> None:
    """Kill the daemon, because fio is in state D."""
    failure = bench.failure(signalled("qemu-storage-da", signal.SIGSTOP))
    assert isinstance(failure, DiskServerSilent)
    assert failure.server == DAEMON
    assert isinstance(failure.condition, ProcessStopped)


@pytest.mark.full
def test_storage_daemon_killed_during_a_write_is_named(bench: Bench) -> None:
    """Accept fio's I/O error, or the earlier detection of the daemon's end."""
    failure = bench.failure(signalled("qemu-storage-da", signal.SIGKILL))
    assert isinstance(failure, DiskServerSilent | DiskServerFailed)
    assert (failure.server, failure.condition) == (DAEMON, ProcessGone())


def test_trial_on_a_disk_that_returns_errors_stores_no_figure(bench: Bench) -> None:
    """Truncate the volume's file behind the target."""
    failure = bench.failure(lambda: os.truncate("/var/tmp/iolab-vanishing", 1 << 20), "read")
    assert isinstance(failure, DiskErred)
    assert "Input/output error" in failure.output
