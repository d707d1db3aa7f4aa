"""Check whether data that a disk acknowledged as flushed would survive a crash.

The check writes and flushes stamped blocks. It then searches the disk below the volume's file for the blocks, bypassing
every page cache.
"""

import json
from collections.abc import Iterator

from iolab.agent.client import Agent
from iolab.agent.messages import Json
from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Disk
from iolab.experiment.model.measures import DiskMeasure
from iolab.lab.kernels import kernel_of
from iolab.lab.volumes.places import door_of, holder_of, node_of, volume_path
from iolab.lab.volumes.resources import serial_of
from iolab.locale import Phrase
from iolab.messages.disks import AcknowledgedLost
from iolab.results.metric import Metric
from iolab.trial.disk.own import Residency, Verified, own_figures, parse_own
from iolab.trial.disk.ran import Patience, PlainRunner, Ran, own_program, recorded, run_to_end
from iolab.trial.disk.run_on_disk import run_on_disk, worked_on
from iolab.trial.lab_access import Site
from iolab.trial.measurement import TrialFailed

BLOCK_BYTES = 4096
BATCH_BLOCKS = 64
"""Number of blocks that are written between two flushes."""
PASSES = 2
"""Number of passes over all blocks: a disk that loses the second pass still has the stamps of the first pass."""
DEFAULT_BYTES = 16 << 20
"""Default size of the stamped part [bytes]: small enough to be written completely before the kernel starts write-back
on its own."""
RUN_DIGITS = 15
"""Number of hexadecimal digits of the random run number, which fits in 64 bits."""
DESCRIPTOR = 3
"""File descriptor of the disk, which is opened for the program only."""
ACKNOWLEDGED, KEPT = "disk_blocks_acknowledged", "disk_blocks_kept"


class FlushCheck(PlainRunner):
    """Stamp a disk, and check on the disk below it which blocks were kept."""

    def run(
        self, site: Site, measure: DiskMeasure, disk: Disk, patience: Patience, _device: Residency | None
    ) -> Ran:
        """See Runner. Also raises TrialFailed if the disk below the volume's file cannot be read."""
        volume, kernel = site.lab.volumes[disk.volume], kernel_of(site.lab, measure.on)
        agent, holder = site.agent_of(kernel), site.agent_of(holder_of(site.lab, volume))
        stamp = stamps_of(site.lab, measure, disk, _random_number(agent))
        claimed = {"kind": "claimed", "path": node_of(disk.volume)}
        passed = {"fd": DESCRIPTOR, "open": {**claimed, "serial": known_as(site, measure.on, disk)}}
        argv, request = (own_program(agent), "disk"), json.dumps({"program": "stamp", **stamp})
        on_disk = worked_on(site, measure.on, disk)
        done = run_on_disk(agent, on_disk, argv, request, patience, passed=[passed])
        if not done.succeeded:
            raise TrialFailed(
                Phrase("trial.blocks-not-written", program=measure.program, reason=done.complaint)
            )
        acknowledged = acknowledged_of(done.stdout)
        asked = verify_request(stamp, acknowledged, volume_path(site.lab, disk.volume))
        looked = run_to_end(holder, (own_program(holder), "disk"), json.dumps(asked))
        if not looked.succeeded:
            raise TrialFailed(
                Phrase("trial.blocks-not-looked-for", program=measure.program, reason=looked.complaint)
            )
        try:
            figures = own_figures(parse_own(done.stdout.strip().rpartition("\n")[2]))
            verified = parse_own(looked.stdout).verified
        except ValueError as error:
            raise TrialFailed(str(error)) from error
        if verified is None or verified.acknowledged != stamp["blocks"]:
            raise TrialFailed(
                Phrase(
                    "trial.not-every-block-read", program=measure.program, output=repr(looked.stdout[:200])
                )
            )
        lost = verified.acknowledged - verified.kept
        return Ran(
            figures=figures,
            proved=True,  # writes bypass the page cache of the program's kernel
            commands=(recorded(measure.on, kernel, argv, done),),
            walls=done.walls,
            said={"request": stamp, "acknowledged": acknowledged, "verified": verified.model_dump()},
            warnings=(_lost(disk, verified),) if lost else (),
            metrics=tuple(_metrics(verified)),
        )


RUNNER = FlushCheck()
"""Runner to which the program's registry row refers."""


def stamps_of(lab: Lab, measure: DiskMeasure, disk: Disk, run: int) -> dict[str, Json]:
    """Return the stamp request for a disk; `run` is a unique number."""
    size = min(measure.size or DEFAULT_BYTES, lab.volumes[disk.volume].size_bytes)
    return {
        "target": {"kind": "opened", "descriptor": DESCRIPTOR},
        "run": run,
        "block_bytes": BLOCK_BYTES,
        "blocks": size // BLOCK_BYTES,
        "batch": BATCH_BLOCKS,
        "passes": PASSES,
    }


def verify_request(stamp: dict[str, Json], acknowledged: int, path: str) -> dict[str, Json]:
    """Return the request to search for acknowledged blocks below the file `path`."""
    return {"program": "verify", "stamp": stamp, "acknowledged": acknowledged, "below": path}


def known_as(site: Site, machine: str, disk: Disk) -> str:
    """Return the serial number that a machine's kernel shows for its disk; for a loop device, return its backing
    file."""
    if site.lab.machines[machine].kind == "vm":
        return serial_of(disk.volume)
    return door_of(disk.volume) if disk.via == "user" else volume_path(site.lab, disk.volume)


def acknowledged_of(text: str) -> int:
    """Return the last batch whose flush was acknowledged."""
    found = [line for line in text.splitlines() if line.startswith('{"acknowledged":')]
    return int(found[-1].removeprefix('{"acknowledged":').removesuffix("}")) if found else 0


def _random_number(agent: Agent) -> int:
    text = agent.run(("cat", "/proc/sys/kernel/random/uuid")).stdout
    return int(text.replace("-", "").strip()[:RUN_DIGITS], 16)


def _lost(disk: Disk, verified: Verified) -> AcknowledgedLost:
    return AcknowledgedLost(
        volume=disk.volume, acknowledged=verified.acknowledged, lost=verified.acknowledged - verified.kept
    )


def _metrics(verified: Verified) -> Iterator[Metric]:
    yield Metric.of(ACKNOWLEDGED, float(verified.acknowledged))
    yield Metric.of(KEPT, float(verified.kept))
