"""Devices of a run are examined before anything is built: the consents to write, and the leased resources."""

import json
from dataclasses import replace

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome

from iolab.agent.client import Agent
from iolab.errors import UnsupportedError
from iolab.experiment import parse
from iolab.experiment.experiment import Experiment
from iolab.experiment.model.volumes import Consents
from iolab.lab.hosts.facts import Facts
from iolab.messages.checks import DiskNotRead
from iolab.plan.commands import Labs
from iolab.plan.planning import make_plan
from iolab.plan.types import Plan
from iolab.run.agents import Agents
from iolab.run.doctor.disks import disk_findings
from iolab.run.hosts.devices import examined, used_devices
from iolab.run.hosts.targets import used_targets

TEXT = """
title: A disk
lab:
  machines: {pc: {kind: host, disks: [{volume: v}]}}
  volumes: {v: {device: /dev/sdx, writes: allowed}}
measure:
  reads: {kind: disk, program: fio, on: pc, size: 8M, fio: {access: [read]}}
  hdparm: {kind: disk, program: hdparm, on: pc}
  writes: {kind: disk, program: fio, on: pc, size: 16M, fio: {access: [mixed]}}
blocks: 1
"""
SEEN = {
    "path": "/dev/sdx", "name": "sdx1", "disks": ["sdx"], "identities": ["S1"], "sequence": 3,
    "bytes": 1 << 30, "obstacles": [{"kind": "signature", "name": "TYPE=ext4", "part": "sdx1"}],
}  # fmt: skip


def planned(text: str = TEXT) -> tuple[Experiment, Plan]:
    """Return an experiment with its plan for a host that has the programs."""
    experiment = parse(text, "disk.yaml")
    facts = Facts(
        hostname="pc", kernel="6.1", architecture="x86_64", os="Debian", cpu_model="x", cpus=2, memory_bytes=1 << 30,
        clocksource="tsc", load_1min_milli=0, capabilities=("netns",),
        programs={"fio": "3.33", "hdparm": "9.65", "qemu-storage-daemon": "7.2", "iscsi-inq": ""},
    )  # fmt: skip
    return experiment, make_plan(experiment, facts)


def host(seen: dict[str, object] = SEEN) -> Agents:
    """Return a host whose agent reports this device."""

    def programs(argv: tuple[str, ...], _netns: str | None) -> Outcome:
        assert argv[1:] == ("disk",)
        return Outcome(stdout=json.dumps({"phases": [], "devices": [seen]}))

    return Agents(Agent(FakeAgent(FakeHost(), programs)))


def test_only_a_measure_that_writes_needs_consent_and_the_part_it_overwrites_is_known() -> None:
    """Let fio with mixed accesses write to the first `size` bytes, and fio read and hdparm write nothing."""
    experiment, plan = planned()
    uses = {one.measure: one.writes_bytes for one in used_devices(Labs(experiment, plan), plan.steps)}
    assert uses == {"reads": 0, "hdparm": 0, "writes": 16 << 20}


@pytest.mark.parametrize(
    ("consents", "option"),
    [(Consents(), "--allow-writes S1"), (Consents(writes=frozenset({"S1"})), "--destroy-data S1")],
)
def test_run_without_consent_is_refused_before_anything_is_built(consents: Consents, option: str) -> None:
    """Name the option with the identity."""
    experiment, plan = planned()
    with pytest.raises(UnsupportedError, match=option):
        examined(replace(experiment, consents=consents), plan, host(), {})


def test_permitted_run_stores_the_identity_and_leases_the_whole_disk() -> None:
    """Lease the disk of a partition, so that two labs cannot use one disk under two names."""
    experiment, plan = planned()
    both = Consents(writes=frozenset({"S1"}), destroys=frozenset({"S1"}))
    found, leases = examined(replace(experiment, consents=both), plan, host(), {"": ("names:x",)})
    assert found.consents.expected("", "/dev/sdx") == "S1"
    assert leases == {"": ["disk:sdx", "names:x"]}


def test_reading_a_device_needs_no_consent_even_if_the_device_has_no_identity() -> None:
    """Only lease a device without identity."""
    text = TEXT.replace(", writes: allowed", "").replace("[mixed]", "[read]")
    experiment, plan = planned(text)
    found, leases = examined(experiment, plan, host({**SEEN, "identities": []}), {})
    assert found.consents.expected("", "/dev/sdx") is None
    assert leases == {"": ["disk:sdx"]}


def test_plan_states_which_part_of_a_target_may_be_written() -> None:
    """Leave the serial number open: the target reports it only when the lab uses the target."""
    text = TEXT.replace("{volume: v}", "{volume: v, via: user}").replace(
        "device: /dev/sdx", "target: {portal: 198.18.0.9, iqn: iqn.2026-01.x:box, lun: 1}"
    )
    experiment, plan = planned(text)
    uses = [(one.path, one.writes_bytes) for one in used_targets(Labs(experiment, plan), plan.steps)]
    assert plan.unsupported == ()
    assert sorted(uses) == [("iqn.2026-01.x:box,1/SERIAL", 0)] * 2 + [
        ("iqn.2026-01.x:box,1/SERIAL", 16 << 20)
    ]
    assert used_devices(Labs(experiment, plan), plan.steps) == ()


def test_doctor_lists_a_device_that_it_cannot_open_with_the_reason() -> None:
    """Report it as a limit of the host."""
    closed = {"kind": "unreadable", "name": "opening /dev/sdx: Permission denied", "part": "sdx"}
    seen = {**SEEN, "identities": [], "obstacles": [closed]}
    (finding,) = disk_findings(host(seen).here)
    assert finding.grade == "limited"
    assert finding.seen == (DiskNotRead(said=closed["name"]),)
