"""What a disk's iSCSI session has: who is logged in and what the target offers; what a kernel's initiator agreed on."""

from collections.abc import Iterator, Mapping

from iolab.errors import AgentError
from iolab.experiment.model.machines import Disk
from iolab.lab.kernels import kernel_of
from iolab.lab.topology import NAME_PREFIX
from iolab.lab.volumes.exports import initiator_of, offer_command, target_name
from iolab.lab.volumes.places import holder_of
from iolab.lab.volumes.scripts import SHOW_NEGOTIATED
from iolab.results.dimensions import Dimensions
from iolab.results.metric import Metric
from iolab.trial.lab_access import Site
from iolab.trial.measurement import TrialFailed

AGREED, ASKED = "iscsi_agreed_bytes", "iscsi_asked_bytes"
LENGTHS = ("FirstBurstLength", "MaxBurstLength", "MaxRecvDataSegmentLength", "MaxXmitDataSegmentLength")
"""Agreed values that are sizes; the others are words."""


def offered(site: Site, disk: Disk) -> str | None:
    """Return who is logged in to the target of the disk, and what it offers; None: the disk is no LUN.

    Raises:
        TrialFailed: the target does not show it.
    """
    volume = site.lab.volumes[disk.volume]
    if volume.export != "iscsi" or initiator_of(site.lab, disk.volume) is None:
        return None
    command = offer_command(site.lab, disk.volume, NAME_PREFIX)
    return _shown(site, holder_of(site.lab, volume), command, f"what the target offers of {disk.volume}")


def agreed(site: Site, machine: str, disk: Disk) -> Mapping[str, str]:
    """Return what the session of a kernel's initiator has agreed on; empty where there is none that shows it.

    Raises:
        TrialFailed: the initiator does not show it.
    """
    if disk.via != "kernel" or site.lab.volumes[disk.volume].export != "iscsi":
        return {}
    command = ("sh", "-c", SHOW_NEGOTIATED, target_name(disk.volume))
    text = _shown(site, kernel_of(site.lab, machine), command, f"what was agreed on for {disk.volume}")
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def session_metrics(values: Mapping[str, str], asked: Mapping[str, str]) -> Iterator[Metric]:
    """Return the sizes that were agreed on, and those of them that the experiment asked for."""
    for name in LENGTHS:
        if values.get(name, "").isdecimal():
            yield Metric.of(AGREED, float(values[name]), Dimensions(part=name))
        if name in asked:
            yield Metric.of(ASKED, float(asked[name]), Dimensions(part=name))


def _shown(site: Site, kernel: str, command: tuple[str, ...], what: str) -> str:
    try:
        shown = site.agent_of(kernel).run(command)
    except AgentError as error:
        raise TrialFailed(f"reading {what}: {error}") from error
    if not shown.succeeded:
        raise TrialFailed(f"reading {what}: {shown.complaint}")
    return shown.stdout
