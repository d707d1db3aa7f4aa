"""Volumes as resources: a scratch file on the host that contains it, and the disks in guests.

Pure. The hypervisor's options of a disk are in `guests/qemu` and `guests/xen`, the exports in `exports`, and the disks
of hosts and namespaces in `attached`.
"""

from collections.abc import Iterator
from hashlib import sha256

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Bus, Disk, Machine, Vm
from iolab.experiment.model.volumes import Volume
from iolab.lab.actions import FOUND, Command, Expectation, Reading, Run
from iolab.lab.dependencies import kernel_dependencies
from iolab.lab.guests.guest import GuestDisk
from iolab.lab.readback.disks import SHOW, BlockDevice
from iolab.lab.readback.values import Value
from iolab.lab.resources import Resource
from iolab.lab.topology import Topology
from iolab.lab.volumes.attached import attached_resources
from iolab.lab.volumes.devices import device_resource
from iolab.lab.volumes.exports import export_resources, way_of
from iolab.lab.volumes.initiators import lun_of, throttled
from iolab.lab.volumes.places import holder_of, in_memory, node_of, record_of, volume_folder, volume_path
from iolab.lab.volumes.served import Served, addresses_to, served_of
from iolab.lab.volumes.targets import content_checks, lun_checks

IS_MARKED = (
    'is_marked() { [ -f "$0" ] && [ ! -L "$0" ] && [ -O "$0" ]'
    ' && [ "$(stat -c %d:%i "$0")" = "$(stat -c %d:%i "$0.made" 2>/dev/null)" ]; };'
)
"""Script that tests whether a lab created the file: `$0.made` is a hard link to the same file, not a symbolic link."""
LOOK = (
    IS_MARKED + " folder=${2:-/var/tmp}; began=$(sed -n 's/^btime //p' /proc/stat);"
    ' is_marked && [ "$(stat -c %Z "$0")" -lt "$began" ] && rm -f "$0" "$0.made";'
    ' for file in "$0" "$0.made"; do [ ! -e "$file" ] && [ ! -L "$file" ] || {'
    ' echo "$file exists already ($(stat -c "%F of user %u" "$file")): end the lab that uses it,'
    ' remove it if no lab does, or give the volume another name" >&2; exit 1; }; done;'
    ' case $(stat -f -c %T "$folder") in tmpfs|ramfs)'
    ' echo "$folder lies in memory; mount a file system of a disk there" >&2; exit 1;; esac;'
    ' room=$(($(stat -f -c "%a * %S" "$folder") * 9 / 10)); [ "$1" -le "$room" ] || {'
    ' echo "$(($1 >> 20)) MiB are wanted and $((room >> 20)) may be had in $folder'
    ' (a tenth of what is free stays free); make room there, or make the volume smaller" >&2; exit 1; }'
)
"""Script that fails if the file cannot be created. A marked file older than the last boot of the host is a leftover,
because the journal with its undo was lost in the reboot."""
CHECK_FOLDER = (
    'fail() { echo "$1; use a folder of root on a disk, below folders that only root changes" >&2; exit 1; };'
    ' [ -d "$0" ] || fail "folder $0 does not exist"; [ "$(readlink -f "$0")" = "$0" ] || fail'
    ' "the path $0 contains a symbolic link"; own=$(id -u); at=$0; while :; do'
    ' owner=$(stat -c %u "$at"); [ "$owner" = 0 ] || [ "$owner" = "$own" ] || fail "$at belongs to user $owner";'
    ' [ -z "$(find "$at" -maxdepth 0 -perm /022 ! -perm -1000)" ] || fail "other users can write to $at";'
    ' [ "$at" != / ] || break; at=${at%/*}; at=${at:-/}; done;'
    ' room=$(($(stat -f -c "(%a - %b / 10) * %S" "$0"))); [ "$1" -le "$room" ] || {'
    ' echo "$(($1 >> 20)) MiB are requested in $0, and $((room > 0 ? room >> 20 : 0)) MiB are free, because a tenth'
    ' of the file system stays free; free some space, or make the volume smaller" >&2; exit 1; }'
)
"""Script that fails if other users could replace the folder `$0`, or if `$1` bytes leave less than a tenth of its file
system free."""
MAKE_FOLDER = (
    'umask 077; mkdir "$0" 2>/dev/null; [ -d "$0" ] && [ ! -L "$0" ] && [ -O "$0" ]'
    ' && [ "$(stat -c %a "$0")" = 700 ] && [ "$(stat -c %d "$0")" = "$(stat -c %d "$0/..")" ] && exit 0;'
    ' echo "$0 cannot be created, or is not a folder that iolab created: remove it, or use another folder" >&2; exit 1'
)
"""Script that creates the folder of labs; an existing folder must belong to this user alone, on the same file
system."""
MAKE = 'set -C; umask 077; : >"$0.made" && ln -T "$0.made" "$0" && exec fallocate --posix --length "$1" "$0"'
"""Script that creates the file with all its blocks, accessible only to this user, and not through an existing link. The
mark is the first name of the file, so the file never exists without it."""
FILL = (
    'left=$(($1 - $2)); [ "$left" -le "$3" ] || left=$3; [ "$left" -gt 0 ] || exit 0;'
    ' head -c "$left" /dev/urandom | dd of="$0" bs=1M iflag=fullblock oflag=direct,seek_bytes seek="$2"'
    " conv=notrunc,nocreat,fsync status=none"
)
"""Script that fills a part of the file with random bytes by direct I/O: reads of blocks that were never written would
not reach a disk."""
FILL_BYTES = 1 << 30
"""Number of bytes that one command writes, because a command has a time limit of a minute."""
AWAIT = (
    f'tries=0; for known; do until {SHOW} | grep -q -e "^$known " -e " $known$"; do'
    ' tries=$((tries + 1)); [ "$tries" -le 200 ] || { echo "no disk $known has come within 20 s" >&2; exit 1; };'
    " sleep 0.1; done; done"
)
"""Script that waits for a disk: kernels detect disks in the background, without a notification."""
DRIVERS: dict[Bus, str] = {
    "virtio-blk": "virtio_blk",
    "virtio-scsi": "virtio_scsi",
    "ide": "ahci",
    "nvme": "nvme",
    "pvscsi": "vmw_pvscsi",
}
"""Linux driver of the disk controller of each bus."""
XEN_DRIVER = "vbd"
"""The kernel's name of the Xen disk frontend driver."""
SCSI_DISKS: frozenset[Bus] = frozenset({"virtio-scsi", "ide", "pvscsi"})
"""Buses whose disks need a separate driver, which the controller's driver does not load."""
SERIAL_BYTES = 20
"""Maximum length of a serial number on all buses (ATA, NVMe and virtio-blk: 20)."""
FIRST_XEN_DISK = "c"
"""Letter of a domain's first disk after those of its image."""


def serial_of(volume: str) -> str:
    """Return the serial number of a volume's disk: its name, shortened to the maximum length."""
    if len(volume) <= SERIAL_BYTES:
        return volume
    return f"{volume[: SERIAL_BYTES - 7]}-{sha256(volume.encode()).hexdigest()[:6]}"


def guest_disks(lab: Lab, topology: Topology, name: str) -> tuple[GuestDisk, ...]:
    """Return the volumes with which a guest is started."""
    disks = enumerate(started_with(lab.machines[name]))
    return tuple(_guest_disk(lab, topology, disk, number) for number, disk in disks)


def started_with(machine: Machine) -> tuple[Disk, ...]:
    """Return the disks that a machine's hypervisor provides; the machine's own kernel connects to the others."""
    return tuple(disk for disk in machine.disks if disk.via != "kernel")


def _guest_disk(lab: Lab, topology: Topology, disk: Disk, number: int) -> GuestDisk:
    served, volume = _of_hypervisor(lab, topology, disk), lab.volumes[disk.volume]
    lun = None if served is None else lun_of(served, number)
    return GuestDisk(
        "" if lun or volume.exists else volume_path(lab, disk.volume),
        serial_of(disk.volume),
        disk.bus or "virtio-blk",
        in_memory=lun is None and in_memory(lab, lab.volumes[disk.volume]),
        cache=disk.cache,
        throttle=throttled(disk),
        lun=lun,
        record=record_of(disk.volume) if volume.device is not None else None,
        writes=not volume.exists or volume.writes is not None,
        read_only=served is not None and served.read_only,
    )


def _of_hypervisor(lab: Lab, topology: Topology, disk: Disk) -> Served | None:
    """Return the target of a disk that a guest's hypervisor logs in to; None: the hypervisor opens a file."""
    return served_of(lab, topology, disk.volume) if disk.via == "hypervisor" else None


def hypervisor_netns(lab: Lab, topology: Topology, name: str) -> str | None:
    """Return the namespace from which a guest's hypervisor logs in to LUNs; None: the kernel's initial namespace."""
    served = (_of_hypervisor(lab, topology, disk) for disk in lab.machines[name].disks)
    return next((one.netns for one in served if one is not None), None)


def volume_keys(lab: Lab, topology: Topology, name: str) -> list[str]:
    """Return the keys of the resources that a guest's disks need before its start."""
    keys: list[str] = []
    for disk in started_with(lab.machines[name]):
        served = _of_hypervisor(lab, topology, disk)
        way = way_of(lab, topology, disk.volume) if served is not None and not served.exists else None
        if served is None:
            device = lab.volumes[disk.volume].device is not None
            keys.append(f"{'device' if device else 'volume'}:{disk.volume}")
        elif way is not None:
            keys += [f"export:{disk.volume}", f"address:{way[1].ref}"]
        else:
            keys += [f"target:{disk.volume}", *addresses_to(lab, topology, served)]
    return keys


def volume_resources(lab: Lab, topology: Topology) -> Iterator[Resource]:
    """Return all used volumes of a lab, their exports, and the disks of machines."""
    for name, machine in lab.machines.items():
        for disk in machine.disks:
            if lab.volumes[disk.volume].device is not None:
                yield device_resource(lab, name, disk.volume)
            elif lab.volumes[disk.volume].existing_target is None:
                yield _volume(lab, name, disk.volume)
            elif disk.via == "hypervisor" and (served := served_of(lab, topology, disk.volume)) is not None:
                yield _checked(lab, name, served)
        if isinstance(machine, Vm) and started_with(machine):
            yield _disks(lab, topology, name, machine)
    yield from export_resources(lab, topology)
    yield from attached_resources(lab, topology)


def _checked(lab: Lab, guest: str, served: Served) -> Resource:
    """Return the resource that compares the identity of a LUN with the permitted one before a hypervisor logs in."""
    return Resource(
        key=f"target:{served.name}",
        machine=guest,
        kernel=served.kernel,
        needs=kernel_dependencies(lab, served.kernel),
        actions=lun_checks(served),
    )


def _volume(lab: Lab, owner: str, name: str) -> Resource:
    volume, path = lab.volumes[name], volume_path(lab, name)
    kernel, size = holder_of(lab, volume), str(volume.size_bytes)
    own = () if volume.folder is None else (volume_folder(volume),)
    shown = Reading(Command(("stat", "-c", "%s %a", path)), Value())
    return Resource(
        key=f"volume:{name}",
        machine=owner,
        kernel=kernel,
        needs=kernel_dependencies(lab, kernel),
        actions=(
            *_own_folder(volume),
            Run(
                Command(("sh", "-c", LOOK, path, size, *own))
            ),  # without undo: a file that someone else created remains
            Run(Command(("sh", "-c", MAKE, path, size)), Command(("rm", "-f", path, f"{path}.made"))),
            *(() if in_memory(lab, volume) else _filled(path, volume.size_bytes)),
        ),
        expect=(Expectation(shown, f"{size} 600", f"size and mode of volume {name}"),),
    )


def _own_folder(volume: Volume) -> Iterator[Run]:
    """Yield the actions that check a folder of the user, and create the folder of labs in it."""
    if volume.folder is None:
        return
    own = volume_folder(volume)
    yield Run(Command(("sh", "-c", CHECK_FOLDER, volume.folder, str(volume.size_bytes))))
    undo = ("sh", "-c", '[ ! -d "$0" ] || rmdir --ignore-fail-on-non-empty "$0"', own)
    yield Run(Command(("sh", "-c", MAKE_FOLDER, own)), Command(undo))


def _filled(path: str, size_bytes: int) -> Iterator[Run]:
    """Yield the actions that write every byte of a volume once."""
    for at in range(0, size_bytes, FILL_BYTES):
        yield Run(Command(("sh", "-c", FILL, path, str(size_bytes), str(at), str(FILL_BYTES))))


def _disks(lab: Lab, topology: Topology, guest: str, machine: Vm) -> Resource:
    """Return the resource that waits for a guest's disks and creates their device nodes.

    Disks and device nodes disappear with the guest.
    """
    disks = started_with(machine)
    seen = tuple(_seen(machine, number) for number in range(len(disks)))
    shown = Command(("sh", "-c", SHOW))
    slow = machine.engine == "qemu" and any(disk.bus in SCSI_DISKS for disk in disks)
    links: list[Run] = []
    expect: list[Expectation] = []
    for disk, (known_by, driver) in zip(disks, seen, strict=True):
        exists = lab.volumes[disk.volume].exists
        served = _of_hypervisor(lab, topology, disk)
        link = Command(("ln", "-s", "-f", "-n", "-T", FOUND, node_of(disk.volume)))
        links.append(Run(link, find=Reading(shown, BlockDevice(known_by, "node"))))
        links += content_checks(lab, served, node_of(disk.volume))
        what, size_bytes = f"volume {disk.volume} in {guest}", lab.volumes[disk.volume].size_bytes
        size = Expectation(Reading(shown, BlockDevice(known_by, "size")), str(size_bytes), f"size of {what}")
        expect += [
            *(() if exists else (size,)),
            Expectation(Reading(shown, BlockDevice(known_by, "driver")), driver, f"driver of {what}"),
        ]
    return Resource(
        key=f"disks:{guest}",
        machine=guest,
        kernel=guest,
        needs=(f"ipv6:{guest}",),
        actions=(
            *((Run(Command(("modprobe", "sd_mod"))),) if slow else ()),
            Run(Command(("sh", "-c", AWAIT, "disks", *(known_by for known_by, _ in seen)))),
            *links,
        ),
        expect=tuple(expect),
    )


def _seen(machine: Vm, number: int) -> tuple[str, str]:
    """Return the identifier of a disk in a guest, and the driver of its controller."""
    if machine.engine == "xen":  # disks of this kind are named by number and have no serial numbers
        return f"xvd{chr(ord(FIRST_XEN_DISK) + number)}", XEN_DRIVER
    disk = started_with(machine)[number]
    return serial_of(disk.volume), DRIVERS[disk.bus or "virtio-blk"]
