"""Blocks that flush-check stamps and verifies, and disks that it cannot judge."""

import pytest

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Setup
from iolab.experiment.model.measures import DiskMeasure
from iolab.lab.topology import make_topology
from iolab.measures.disk import DISK
from iolab.trial.disk.flush_check import acknowledged_of, stamps_of, verify_request

LAB = """
title: x
lab:
  machines: {{pc2: {{kind: netns, disks: [{disk}]}}, pc3: {{kind: {holder}}}}}
  links: {{san: {{ends: [pc2.eth0, pc3.eth0]}}}}
  volumes: {{v: {{size: 64M{volume}}}}}
measure: {{it: {{kind: disk, program: flush-check, on: pc2{size}}}}}
"""


def setup_of(disk: str, volume: str = "", holder: str = "netns", size: str = "") -> Setup:
    """Return a lab with a disk, and its measure."""
    experiment = parse(LAB.format(disk=disk, volume=volume, holder=holder, size=size), "x")
    return Resolver(experiment).setup(next(cells(experiment)))


def measure_of(setup: Setup) -> DiskMeasure:
    """Return its measure."""
    measure = setup.measures["it"]
    assert isinstance(measure, DiskMeasure)
    return measure


def stamps(setup: Setup) -> dict[str, object]:
    """Return the stamped blocks."""
    return dict(stamps_of(setup.lab, measure_of(setup), setup.lab.machines["pc2"].disks[0], run=7))


def test_flush_check_stamps_the_first_16_mib_of_the_device_twice() -> None:
    """Claim nothing by the program itself."""
    found = stamps(setup_of("{volume: v}"))
    assert found == {
        "target": {"kind": "opened", "descriptor": 3},
        "run": 7,
        "block_bytes": 4096,
        "blocks": 4096,
        "batch": 64,
        "passes": 2,
    }
    door = stamps(setup_of("{volume: v, via: user}", size=", size: 8M"))
    assert door["blocks"] == 2048


def test_flush_check_verifies_acknowledged_blocks_in_the_volume_file() -> None:
    """Verify as many batches as were acknowledged."""
    text = '{"acknowledged":1}\n{"acknowledged":2}\n{"phases":[]}\n'
    assert acknowledged_of(text) == 2
    assert acknowledged_of("") == 0
    assert verify_request({"run": 7}, 2, "/var/tmp/iolab-v") == {
        "program": "verify",
        "stamp": {"run": 7},
        "acknowledged": 2,
        "below": "/var/tmp/iolab-v",
    }


@pytest.mark.parametrize(
    ("disk", "more", "told"),
    [
        ("{volume: v, fs: ext4}", {}, "fs: ext4; allowed: a disk without a file system"),
        ("{volume: v}", {"size": ", size: 65M"}, "at most 67108864"),
        ("{volume: v, via: user}", {"volume": ", on: pc3, export: iscsi", "holder": "vm"}, "memory of pc3"),
        (
            "{volume: v, via: kernel}",
            {"volume": ", on: pc3, export: iscsi"},
            "via: local, user or hypervisor",
        ),
    ],
)
def test_disks_that_flush_check_cannot_judge_are_refused(disk: str, more: dict[str, str], told: str) -> None:
    """Refuse them before the run."""
    setup = setup_of(disk, **more)
    with pytest.raises(InputError) as refused:
        DISK.check(measure_of(setup), setup.lab, make_topology(setup.lab))
    assert told in str(refused.value)
