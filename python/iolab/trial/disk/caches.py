"""Classify the caches on the path of a disk trial: bypassed, in the declared state, or unknown. Pure.

A cache is bypassed if it holds no block of the file, neither before nor after the program runs. A cache that is filled
during a trial has an unknown content at the start of a phase.
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
"""Maximum share of a device that a mounted file system may keep in memory for the device to count as cold for hdparm
[ratio]."""
WARM = "warm"
LIMITED = "limited"
"""State of a cache that cannot hold more of the file than the program's memory limit."""
COLD = "cold"


@dataclass(frozen=True, slots=True)
class Layer:
    """A page cache other than that of the program's kernel."""

    about: CacheLayer
    """Description of the cache in messages."""
    kernel: str
    """Kernel of the cache."""
    path: str
    """Cached file or device."""


@dataclass(frozen=True, slots=True)
class Looked:
    """State of a cache layer before and after the program; None if it could not be read."""

    layer: Layer
    before: Residency | None
    after: Residency | None
    kept: bool | None = None
    """For a FUSE export: whether reads were answered from cached blocks, as the layers below show; None if the layers
    do not show this."""

    @property
    def is_door(self) -> bool:
        """Whether the layer is a FUSE file: opening the file empties its cache, so the content of the cache cannot be
        read."""
        return self.layer.about.code == "door-cache"

    @property
    def passed_by(self) -> bool:
        """Whether no block of the file stayed in the cache."""
        if self.is_door:
            return self.kept is False
        return all(seen is not None and seen.state == COLD for seen in (self.before, self.after))

    def record(self) -> dict[str, Json]:
        """Return the declared and the observed state of the cache, for the trial's evidence."""
        seen = {"before": self.before, "after": self.after}
        texts: dict[str, Json] = {
            name: None if one is None else one.model_dump() for name, one in seen.items()
        }
        about = {"cache": self.layer.about.code, "path": self.layer.path, "declared": "passed by"}
        return {**about, "proved": self.passed_by, "kept": self.kept, **texts}


def layers_of(site: Site, machine: str, disk: Disk) -> tuple[Layer, ...]:
    """Return the caches between a machine's block device and the volume's file, the nearest first.

    A hypervisor that caches its guest's writes uses the page cache of the file's kernel, which is checked. A
    hypervisor that logs in to a LUN caches nothing.
    """
    return tuple(_layers(site, machine, disk))


def _layers(site: Site, machine: str, disk: Disk) -> Iterator[Layer]:
    lab = site.lab
    volume = lab.volumes[disk.volume]
    if disk.via == "user":
        yield Layer(
            VolumeCache(code="door-cache", volume=disk.volume),
            kernel_of(lab, machine),
            door_of(disk.volume),
        )
    if volume.existing_target is not None:
        yield Layer(VolumeCache(code="target-cache", volume=disk.volume), kernel_of(lab, machine), "")
        return
    guest = lab.machines[machine].kind == "vm"
    if in_memory(lab, volume) or (volume.exists and not guest):
        return  # no second cache: the file is in memory, or the program uses the device directly
    path = volume.device if volume.device is not None else volume_path(lab, disk.volume)
    about = (
        VolumeCache(code="store-cache", volume=disk.volume)
        if volume.export is None
        else VolumeCache(code="target-cache", volume=disk.volume)
    )
    yield Layer(about, holder_of(lab, volume), path)


def device_of(site: Site, machine: str, disk: Disk) -> Layer:
    """Return the cache layer of the device that hdparm reads, in the page cache of the program's kernel."""
    return Layer(
        ProgramCache(machine=machine),
        kernel_of(site.lab, machine),
        node_of(disk.volume),
    )


def declared_of(measure: DiskMeasure) -> str:
    """Return the declared state of the program's page cache at the start of a reading phase."""
    if memory_of(measure) is not None:
        return LIMITED
    if row_of(measure).reads_cold or definition_of(measure).get("cache") == COLD:
        return COLD
    return WARM


def program_proved(
    measure: DiskMeasure, report: OwnReport | None, device: Residency | None, memory_bytes: int | None = None
) -> bool:
    """Whether the page cache of the program's kernel was in the declared state.

    `report` is None for a program from a package, because its phases cannot be observed. `device` is the state of the
    device after the cache was dropped, before hdparm. `memory_bytes` is the program's memory limit, including its page
    cache.
    """
    if memory_bytes is not None:
        reads = [phase.cache for phase in report.phases if phase.cache is not None] if report else []
        return all(one.state != "unknown" and one.resident_bytes <= memory_bytes for one in reads)
    if row_of(measure).reads_device:
        return device_proved(device)
    seen = [phase.cache.state for phase in report.phases if phase.cache is not None] if report else []
    return bool(seen) and all(state == declared_of(measure) for state in seen)


def device_proved(seen: Residency | None) -> bool:
    """Whether no block of a device was cached, except for the blocks that a mounted file system holds."""
    if seen is None or seen.state not in (COLD, "partly"):
        return False
    return seen.resident_bytes <= seen.of_bytes * HELD_RATIO


def unknown(program: ProgramCache, proved: bool, looked: Sequence[Looked]) -> tuple[CacheUnknown, ...]:
    """Return the warning about caches that are not known to be in their declared state."""
    layers = (*(() if proved else (program,)), *(one.layer.about for one in looked if not one.passed_by))
    return (CacheUnknown(layers=layers),) if layers else ()


def unflushed(looked: Sequence[Looked]) -> tuple[FlushNotKept, ...]:
    """Return a warning for each cache with dirty data directly after an acknowledged flush."""
    return tuple(
        FlushNotKept(layer=one.layer.about, dirty_bytes=one.after.dirty_bytes)
        for one in looked
        if one.after is not None and one.after.dirty_bytes
    )


def evidence(
    measure: DiskMeasure, proved: bool, device: Residency | None, looked: Sequence[Looked]
) -> Mapping[str, Json]:
    """Return the declared state of every cache, and whether the cache is known to be in this state."""
    own: dict[str, Json] = {"cache": ProgramCache.code, "declared": declared_of(measure), "proved": proved}
    own["before"] = None if device is None else device.model_dump()
    return {"caches": [own, *(one.record() for one in looked)]}
