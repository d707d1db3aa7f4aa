"""The disk on which a volume's file lies, and whether others used it while a trial measured the volume."""

from collections.abc import Iterator
from dataclasses import dataclass

from iolab.errors import AgentError
from iolab.experiment.model.machines import Disk
from iolab.lab.topology import NAME_PREFIX
from iolab.lab.volumes.exports import by_kernel
from iolab.lab.volumes.places import holder_of, in_memory, volume_path
from iolab.messages.disks import DiskUsed
from iolab.trial.disk.layers import of_block_layer
from iolab.trial.disk.ledger import Counted, between
from iolab.trial.lab_access import Site
from iolab.units import NS_PER_MS

SHOW_BELOW = (
    'on=$(stat -c %d "$0") && disk=/sys/dev/block/$((on >> 8 & 0xfff)):$((on & 0xff | on >> 12 & 0xfff00))'
    ' && { [ ! -e "$disk/partition" ] || disk=$disk/..; } && read -r all <"$disk/stat" && echo "$all"'
)
"""Of the whole disk, where the file system is on a part of it; fails where it is on none that is counted, as Btrfs. The
device's numbers are taken apart as makedev(3) puts them together."""
BUSY_FIELD = 9
"""Time that a disk had something to do [ms] (Documentation/block/stat)."""
OTHERS_RATIO = 0.1
"""Of what a disk moved, or was asked, so much that was not the trial's changes its figures ..."""
BUSY_RATIO = 0.5
"""... if the disk had something to do for so much of the time."""
UNCACHED = (None, "none", "directsync")
"""What a hypervisor's cache may be so that it asks of the disk what the guest asked."""


@dataclass(frozen=True, slots=True)
class Below:
    """What a disk has done by a moment."""

    counted: Counted
    """Read and written."""
    busy_ns: int
    """Time that it had something to do [ns]."""
    at_ns: int
    """The moment [ns, monotonic]."""


def look_below(site: Site, disk: Disk) -> Below | None:
    """Return what the disk below a volume has done by now; None: nothing tells it from what the trial did itself."""
    volume = site.lab.volumes[disk.volume]
    kept = volume.cache == "buffered" or disk.cache not in UNCACHED
    by_lio = volume.export == "iscsi" and by_kernel(site.lab, volume)
    if kept or by_lio or in_memory(site.lab, volume) or not site.alone:
        return None
    agent = site.agent_of(holder_of(site.lab, volume))
    try:
        shown = agent.run(("sh", "-c", SHOW_BELOW, volume_path(disk.volume, NAME_PREFIX)))
    except AgentError:
        return None
    return below_of(shown.stdout, shown.begin_ns) if shown.succeeded else None


def below_of(text: str, at_ns: int) -> Below | None:
    """Read /sys/block/DISK/stat."""
    counted, words = of_block_layer(text), text.split()
    return None if counted is None else Below(counted, int(words[BUSY_FIELD]) * NS_PER_MS, at_ns)


def used_by_others(
    volume: str, before: Below | None, after: Below | None, own: Counted
) -> Iterator[DiskUsed]:
    """Yield that others used a disk so much that the figures of a trial are of something else.

    `own` is what the trial had of it at most: the lowest layer that was counted.
    """
    if before is None or after is None or after.at_ns <= before.at_ns:
        return
    every = between(before.counted, after.counted)
    all_bytes, own_bytes = every.read_bytes + every.written_bytes, own.read_bytes + own.written_bytes
    ratios = [_others(all_bytes, own_bytes)]
    if own.reads is not None and own.writes is not None:
        ratios.append(_others((every.reads or 0) + (every.writes or 0), own.reads + own.writes))
    busy_ratio = min(1.0, (after.busy_ns - before.busy_ns) / (after.at_ns - before.at_ns))
    if max(ratios) >= OTHERS_RATIO and busy_ratio >= BUSY_RATIO:
        yield DiskUsed(
            volume=volume,
            others_ratio=max(ratios),
            others_bytes=max(0, all_bytes - own_bytes),
            busy_ratio=busy_ratio,
        )


def _others(every: int, own: int) -> float:
    return max(0.0, 1 - own / every) if every else 0.0
