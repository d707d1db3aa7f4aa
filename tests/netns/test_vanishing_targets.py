"""A target that hangs or dies in mid-write: its trial fails with the reason, nothing stays, the next one measures."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.netns.runs import storage_state, until

from iolab.errors import TrialFailed
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.measures import DiskMeasure
from iolab.lab.compose import compose
from iolab.lab.topology import make_topology
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import open_agent
from iolab.run.lab.standing_lab import StandingLab
from iolab.statements.program_failures import DiskStandsStill
from iolab.trial.disk.measure import measure_disk
from iolab.trial.disk.run_on_disk import Patience
from iolab.trial.failed import Failed
from iolab.trial.lab_access import Site

pytestmark = pytest.mark.netns
LAB = """
title: A target that vanishes
lab:
  machines: {pc2: {kind: netns, disks: [{volume: vanishing, via: user}]}, pc3: {kind: netns}}
  links: {san: {ends: [pc2.eth0, pc3.eth0]}}
  volumes: {vanishing: {on: pc3, size: 64M, export: iscsi}}
measure:
  it: {kind: disk, program: fio, on: pc2, size: 16M,
       fio: {each: %s, blocks: [64K], depths: [8], access: [write]}}
"""
SHORT = Patience(look_ms=400, still_looks=4)


@pytest.fixture(autouse=True)
def _needs() -> None:
    for device in ("/dev/fuse", "/dev/loop-control"):
        if not Path(device).exists():
            pytest.skip(f"needs {device}, which a container may not be given")


def processes_of(name: str, word: str) -> list[int]:
    """Return the processes of a name that have a word among their arguments or in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # other processes of this computer end meanwhile
            said = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if (process / "comm").read_text().strip() == name and word.encode() in said:
                found.append(int(process.name))
    return found


def measured(lab: StandingLab, agents: Agents, each: str, then: Callable[[], None] | None) -> None:
    """Make the lab and measure it for so long; once fio writes, do what is to be done. Raises TrialFailed."""
    experiment = parse(LAB % each, "test")
    setup = Resolver(experiment).setup(next(cells(experiment)))
    measure = setup.measures["it"]
    assert isinstance(measure, DiskMeasure)
    lab.change_to(compose(setup.lab))
    site = Site(agent=agents.here, lab=setup.lab, topology=make_topology(setup.lab))

    def act() -> None:
        # What fills the disk has neither of these words.
        until(lambda: processes_of("fio", "json+"))
        assert then is not None
        then()

    thread = threading.Thread(target=act if then else lambda: None)
    thread.start()
    try:
        measure_disk(site, measure, SHORT)
    finally:
        thread.join()


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL], ids=["hangs", "dies"])
def test_a_target_that_vanishes_in_mid_write_fails_its_trial_and_leaves_nothing(
    unchanged_host: None, how: signal.Signals
) -> None:
    """Its process is stopped, or killed, while eight writes are under way."""
    before = storage_state()
    neighbour = Path("/var/tmp/neighbour-of-vanishing")
    neighbour.write_text("precious")

    def vanish() -> None:
        for pid in processes_of("tgtd", "iolab-vanishing"):
            os.kill(pid, how)

    try:
        with open_agent() as agent:
            agents = Agents(agent)
            lab = StandingLab(agents, lambda _: None)
            with pytest.raises(TrialFailed) as failed:
                measured(lab, agents, "20s", vanish)
            assert isinstance(failed.value, Failed)
            assert isinstance(failed.value.failure, DiskStandsStill)
            assert failed.value.failure.in_flight > 0
            lab.take_down()
            until(lambda: storage_state() == before)  # a loop device goes with the last request on it
            measured(lab, agents, "300ms", None)
            lab.take_down()
        until(lambda: storage_state() == before)
        assert neighbour.read_text() == "precious"
    finally:
        neighbour.unlink()
        for pid in processes_of("tgtd", "iolab-vanishing"):
            subprocess.run(["kill", "-KILL", str(pid)], check=False)
