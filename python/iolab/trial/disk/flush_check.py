"""Whether what a disk acknowledged as flushed would be there after a crash: stamped blocks are written, flushed, and
looked for on the disk below the volume's file, past every page cache.
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
"""Between two flushes."""
PASSES = 2
"""Over all blocks: a store that forgets the second still has the stamps of the first."""
DEFAULT_BYTES = 16 << 20
"""Of the disk that are stamped: written within seconds, before a kernel writes them out by itself."""
RUN_DIGITS = 15
"""Of a random number in hexadecimal digits, which then fits 64 bits."""
DESCRIPTOR = 3
"""Under which the program finds the disk, opened for it alone."""
ACKNOWLEDGED, KEPT = "disk_blocks_acknowledged", "disk_blocks_kept"


class FlushCheck(PlainRunner):
    """Stamps the disk, and looks on the disk below what was kept."""

    def run(
        self, site: Site, measure: DiskMeasure, disk: Disk, patience: Patience, _device: Residency | None
    ) -> Ran:
        """See Runner. Raises TrialFailed also where nobody can look below the volume's file."""
        volume, kernel = site.lab.volumes[disk.volume], kernel_of(site.lab, measure.on)
        agent, holder = site.agent_of(kernel), site.agent_of(holder_of(site.lab, volume))
        stamp = stamps_of(site.lab, measure, disk, _random_number(agent))
        claimed = {"kind": "claimed", "path": node_of(disk.volume, site.topology.prefix)}
        passed = {"fd": DESCRIPTOR, "open": {**claimed, "serial": known_as(site, measure.on, disk)}}
        argv, request = (own_program(agent), "disk"), json.dumps({"program": "stamp", **stamp})
        on_disk = worked_on(site, measure.on, disk)
        done = run_on_disk(agent, on_disk, argv, request, patience, passed=[passed])
        if not done.succeeded:
            raise TrialFailed(
                Phrase("trial.blocks-not-written", program=measure.program, reason=done.complaint)
            )
        acknowledged = acknowledged_of(done.stdout)
        asked = verify_request(stamp, acknowledged, volume_path(disk.volume, site.topology.prefix))
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
            proved=True,  # it writes past the page cache of its own kernel
            commands=(recorded(measure.on, kernel, argv, done),),
            walls=done.walls,
            said={"request": stamp, "acknowledged": acknowledged, "verified": verified.model_dump()},
            warnings=(_lost(disk, verified),) if lost else (),
            metrics=tuple(_metrics(verified)),
        )


RUNNER = FlushCheck()
"""What the row of the program names."""


def stamps_of(lab: Lab, measure: DiskMeasure, disk: Disk, run: int) -> dict[str, Json]:
    """Return which blocks of a disk are stamped; `run` is a number that no other run has."""
    size = min(measure.size or DEFAULT_BYTES, lab.volumes[disk.volume].size)
    return {
        "target": {"kind": "opened", "descriptor": DESCRIPTOR},
        "run": run,
        "block_bytes": BLOCK_BYTES,
        "blocks": size // BLOCK_BYTES,
        "batch": BATCH_BLOCKS,
        "passes": PASSES,
    }


def verify_request(stamp: dict[str, Json], acknowledged: int, path: str) -> dict[str, Json]:
    """Return the request that looks for acknowledged blocks below the file `path`."""
    return {"program": "verify", "stamp": stamp, "acknowledged": acknowledged, "below": path}


def known_as(site: Site, machine: str, disk: Disk) -> str:
    """Return what the kernel of a machine shows as the serial number of its disk: of a loop device, its file."""
    if site.lab.machines[machine].kind == "vm":
        return serial_of(disk.volume)
    return (door_of if disk.via == "user" else volume_path)(disk.volume, site.topology.prefix)


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
