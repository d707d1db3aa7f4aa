"""The caches on the way of a disk trial: each is passed by, or known to be as declared, or unknown. Pure.

A cache is passed by where nothing of the file is in it before the program and nothing after it. One that fills in the
midst of a trial held something when a phase began, and nobody saw how much.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iolab.agent.messages import Json
from iolab.experiment.model.machines import Disk
from iolab.experiment.model.measures import DiskMeasure
from iolab.lab.kernels import kernel_of
from iolab.lab.volumes.places import door_of, holder_of, in_memory, node_of, volume_path
from iolab.messages.disks import (
    CacheLayer,
    FlushNotKept,
    ProgramCache,
    VolumeCache,
)
from iolab.messages.warnings import CacheUnknown
from iolab.trial.disk.disk_programs import definition_of, row_of
from iolab.trial.disk.memory_limit import memory_of
from iolab.trial.disk.own import OwnReport, Residency
from iolab.trial.lab_access import Site

HELD_RATIO = 0.01
"""Of a device, what a mounted file system may keep of it in memory for hdparm to find it cold."""
WARM = "warm"
LIMITED = "limited"
"""It has no more of the file than the program may have of the memory."""
COLD = "cold"


@dataclass(frozen=True, slots=True)
class Layer:
    """A page cache behind the program's own."""

    about: CacheLayer
    """Whose it is."""
    kernel: str
    """Which kernel's."""
    path: str
    """The file or device that it keeps blocks of."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A layer, as it was seen before the program and after it; None: it could not be looked at."""

    layer: Layer
    before: Residency | None
    after: Residency | None
    kept: bool | None = None
    """Of a door: whether it answered reads by what it kept, as the layers below show; None: they do not show it."""

    @property
    def is_door(self) -> bool:
        """Whether it is a file of FUSE: to open one empties it, so that a look at it shows nothing."""
        return self.layer.about.code == "door-cache"

    @property
    def passed_by(self) -> bool:
        """Whether no block stayed in it."""
        if self.is_door:
            return self.kept is False
        return all(seen is not None and seen.state == COLD for seen in (self.before, self.after))

    def record(self) -> dict[str, Json]:
        """Return what was declared and seen, for the trial's evidence."""
        seen = {"before": self.before, "after": self.after}
        texts: dict[str, Json] = {
            name: None if one is None else one.model_dump() for name, one in seen.items()
        }
        about = {"cache": self.layer.about.code, "path": self.layer.path, "declared": "passed by"}
        return {**about, "proved": self.passed_by, "kept": self.kept, **texts}


def layers_of(site: Site, machine: str, disk: Disk) -> tuple[Layer, ...]:
    """Return the caches between a machine's block device and the volume's file, the nearest first.

    A hypervisor that keeps what its guest writes does so in the cache of the file's own kernel, which is looked at;
    one that logs in to a LUN keeps nothing.
    """
    return tuple(_layers(site, machine, disk))


def _layers(site: Site, machine: str, disk: Disk) -> Iterator[Layer]:
    lab, prefix = site.lab, site.topology.prefix
    volume, path = lab.volumes[disk.volume], volume_path(disk.volume, prefix)
    if disk.via == "user":
        yield Layer(
            VolumeCache(code="door-cache", volume=disk.volume),
            kernel_of(lab, machine),
            door_of(disk.volume, prefix),
        )
    if in_memory(lab, volume):
        return  # the store is memory itself: nothing of it is kept a second time
    about = (
        VolumeCache(code="store-cache", volume=disk.volume)
        if volume.export is None
        else VolumeCache(code="target-cache", volume=disk.volume)
    )
    yield Layer(about, holder_of(lab, volume), path)


def device_of(site: Site, machine: str, disk: Disk) -> Layer:
    """Return the cache of the program's own kernel for the device, which hdparm reads."""
    return Layer(
        ProgramCache(machine=machine),
        kernel_of(site.lab, machine),
        node_of(disk.volume, site.topology.prefix),
    )


def declared_of(measure: DiskMeasure) -> str:
    """Return how the cache of the program's kernel is declared to be when a phase that reads begins."""
    if memory_of(measure) is not None:
        return LIMITED
    if row_of(measure).reads_cold or definition_of(measure).get("cache") == COLD:
        return COLD
    return WARM


def program_proved(
    measure: DiskMeasure, report: OwnReport | None, device: Residency | None, memory_bytes: int | None = None
) -> bool:
    """Tell whether the cache of the program's own kernel was seen to be as declared.

    `report` is None for a package's program, whose phases nobody looks into; `device` is what was seen of the device
    after it was dropped, before hdparm; `memory_bytes` is what the kernel let the program have, files included.
    """
    if memory_bytes is not None:
        reads = [phase.cache for phase in report.phases if phase.cache is not None] if report else []
        return all(one.state != "unknown" and one.resident_bytes <= memory_bytes for one in reads)
    if row_of(measure).reads_device:
        return device_proved(device)
    seen = [phase.cache.state for phase in report.phases if phase.cache is not None] if report else []
    return bool(seen) and all(state == declared_of(measure) for state in seen)


def device_proved(seen: Residency | None) -> bool:
    """Tell whether a device was cold, but for what a mounted file system holds of it."""
    if seen is None or seen.state not in (COLD, "partly"):
        return False
    return seen.resident_bytes <= seen.of_bytes * HELD_RATIO


def unknown(program: ProgramCache, proved: bool, looked: Sequence[Looked]) -> tuple[CacheUnknown, ...]:
    """Return the warning about the caches without proof."""
    layers = (*(() if proved else (program,)), *(one.layer.about for one in looked if not one.passed_by))
    return (CacheUnknown(layers=layers),) if layers else ()


def unflushed(looked: Sequence[Looked]) -> tuple[FlushNotKept, ...]:
    """Return a warning for each cache that still has what a flush, acknowledged just before, should have written."""
    return tuple(
        FlushNotKept(layer=one.layer.about, dirty_bytes=one.after.dirty_bytes)
        for one in looked
        if one.after is not None and one.after.dirty_bytes
    )


def evidence(
    measure: DiskMeasure, proved: bool, device: Residency | None, looked: Sequence[Looked]
) -> Mapping[str, Json]:
    """Return the declared state of every cache and whether it was proved."""
    own: dict[str, Json] = {"cache": ProgramCache.code, "declared": declared_of(measure), "proved": proved}
    own["before"] = None if device is None else device.model_dump()
    return {"caches": [own, *(one.record() for one in looked)]}
