"""Volumes as resources: a scratch file on the computer that holds it, and what a guest must see of it.

Pure. How a hypervisor names a disk is in `guests/qemu` and `guests/xen`; exports are in `exports`, disks of hosts and
namespaces in `attached`.
"""

from collections.abc import Iterator
from hashlib import sha256

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Bus, Disk, Machine, Vm
from iolab.lab.actions import FOUND, Command, Expectation, Reading, Run
from iolab.lab.dependencies import kernel_dependencies
from iolab.lab.guests.guest import GuestDisk
from iolab.lab.readback.disks import SHOW, BlockDevice
from iolab.lab.readback.values import Value
from iolab.lab.resources import Resource
from iolab.lab.topology import Endpoint, Topology
from iolab.lab.volumes.attached import attached_resources
from iolab.lab.volumes.exports import export_resources, port_of, way_of
from iolab.lab.volumes.initiators import lun_of, throttled
from iolab.lab.volumes.places import FOLDER, holder_of, in_memory, node_of, volume_path

IS_MARKED = (
    'is_marked() { [ -f "$0" ] && [ ! -L "$0" ] && [ -O "$0" ]'
    ' && [ "$(stat -c %d:%i "$0")" = "$(stat -c %d:%i "$0.made" 2>/dev/null)" ]; };'
)
"""Whether a lab made the file: `$0.made` is a second name of the same file. A symbolic link is not."""
LOOK = (
    IS_MARKED + f" folder={FOLDER}; began=$(sed -n 's/^btime //p' /proc/stat);"
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
"""Refuses where the file cannot be made. A marked file that is older than the last start of the host is left over: the
journal that would have removed it was lost then."""
MAKE = 'set -C; umask 077; : >"$0.made" && ln -T "$0.made" "$0" && exec fallocate --posix --length "$1" "$0"'
"""Makes the file, of this user alone and not through a link that somebody put there, with all its blocks. Its first
name is the mark, so the file is never there without it."""
FILL = (
    'left=$(($1 - $2)); [ "$left" -le "$3" ] || left=$3; [ "$left" -gt 0 ] || exit 0;'
    ' head -c "$left" /dev/urandom | dd of="$0" bs=1M iflag=fullblock oflag=direct,seek_bytes seek="$2"'
    " conv=notrunc,nocreat,fsync status=none"
)
"""Writes a part of it with random bytes, past the page cache: blocks that were never written are read from no disk."""
FILL_BYTES = 1 << 30
"""At once: a command has a minute."""
AWAIT = (
    f'tries=0; for known; do until {SHOW} | grep -q -e "^$known " -e " $known$"; do'
    ' tries=$((tries + 1)); [ "$tries" -le 200 ] || { echo "no disk $known has come within 20 s" >&2; exit 1; };'
    " sleep 0.1; done; done"
)
"""Kernels look for disks in the background and tell no program here when they have found one."""
DRIVERS: dict[Bus, str] = {
    "virtio-blk": "virtio_blk",
    "virtio-scsi": "virtio_scsi",
    "ide": "ahci",
    "nvme": "nvme",
    "pvscsi": "vmw_pvscsi",
}
"""Bus to the driver that Linux has for what disks hang on there."""
XEN_DRIVER = "vbd"
"""What the kernel calls the driver of a Xen disk frontend."""
SCSI_DISKS: frozenset[Bus] = frozenset({"virtio-scsi", "ide", "pvscsi"})
"""Buses whose disks need a driver of their own, which the controller's does not load."""
SERIAL_BYTES = 20
"""What every bus has room for (ATA, NVMe and virtio-blk: 20)."""
FIRST_XEN_DISK = "c"
"""Letter of the first disk of a domain after those of its image."""


def serial_of(volume: str) -> str:
    """Return the serial number of a volume's disk: its name, shortened where no bus has room for it."""
    if len(volume) <= SERIAL_BYTES:
        return volume
    return f"{volume[: SERIAL_BYTES - 7]}-{sha256(volume.encode()).hexdigest()[:6]}"


def guest_disks(lab: Lab, topology: Topology, name: str) -> tuple[GuestDisk, ...]:
    """Return the volumes that a guest is started with."""
    disks = enumerate(started_with(lab.machines[name]))
    return tuple(_guest_disk(lab, topology, disk, number) for number, disk in disks)


def started_with(machine: Machine) -> tuple[Disk, ...]:
    """Return the disks that a machine's hypervisor gives it; to the others its own kernel connects."""
    return tuple(disk for disk in machine.disks if disk.via != "kernel")


def _guest_disk(lab: Lab, topology: Topology, disk: Disk, number: int) -> GuestDisk:
    way = _way_of_hypervisor(lab, topology, disk)
    volume = lab.volumes[disk.volume]
    lun = None if way is None else lun_of(disk.volume, volume, way, port_of(lab, disk.volume), number)
    return GuestDisk(
        "" if lun else volume_path(disk.volume, topology.prefix),
        serial_of(disk.volume),
        disk.bus or "virtio-blk",
        in_memory=lun is None and in_memory(lab, lab.volumes[disk.volume]),
        cache=disk.cache,
        throttle=throttled(disk),
        lun=lun,
    )


def _way_of_hypervisor(lab: Lab, topology: Topology, disk: Disk) -> tuple[Endpoint, Endpoint] | None:
    """Return target and initiator of a disk that its guest's hypervisor logs in to; None: it opens a file."""
    exported = disk.via == "hypervisor" and lab.volumes[disk.volume].export is not None
    return way_of(lab, topology, disk.volume) if exported else None


def hypervisor_netns(lab: Lab, topology: Topology, name: str) -> str | None:
    """Return the namespace from which a guest's hypervisor logs in to LUNs; None: the kernel's own."""
    ways = (_way_of_hypervisor(lab, topology, disk) for disk in lab.machines[name].disks)
    return next((way[1].netns for way in ways if way is not None), None)


def volume_keys(lab: Lab, topology: Topology, name: str) -> list[str]:
    """Return the keys of what a guest's disks must have before it is started."""
    keys: list[str] = []
    for disk in started_with(lab.machines[name]):
        way = _way_of_hypervisor(lab, topology, disk)
        own = [f"volume:{disk.volume}"]
        keys += own if way is None else [f"export:{disk.volume}", f"address:{way[1].ref}"]
    return keys


def volume_resources(lab: Lab, topology: Topology) -> Iterator[Resource]:
    """Return every volume of a lab that a machine has, its export, and the disks that machines see."""
    for name, machine in lab.machines.items():
        for disk in machine.disks:
            yield _volume(lab, name, disk.volume, topology.prefix)
        if isinstance(machine, Vm) and started_with(machine):
            yield _disks(lab, name, machine, topology.prefix)
    yield from export_resources(lab, topology)
    yield from attached_resources(lab, topology)


def _volume(lab: Lab, owner: str, name: str, prefix: str) -> Resource:
    volume, path = lab.volumes[name], volume_path(name, prefix)
    kernel, size = holder_of(lab, volume), str(volume.size)
    shown = Reading(Command(("stat", "-c", "%s %a", path)), Value())
    return Resource(
        key=f"volume:{name}",
        machine=owner,
        kernel=kernel,
        needs=kernel_dependencies(lab, kernel),
        actions=(
            Run(Command(("sh", "-c", LOOK, path, size))),  # without undo: what another made stays
            Run(Command(("sh", "-c", MAKE, path, size)), Command(("rm", "-f", path, f"{path}.made"))),
            *(() if in_memory(lab, volume) else _filled(path, volume.size)),
        ),
        expect=(Expectation(shown, f"{size} 600", f"size and mode of volume {name}"),),
    )


def _filled(path: str, size_bytes: int) -> Iterator[Run]:
    """Give what writes every byte of a volume once."""
    for at in range(0, size_bytes, FILL_BYTES):
        yield Run(Command(("sh", "-c", FILL, path, str(size_bytes), str(at), str(FILL_BYTES))))


def _disks(lab: Lab, guest: str, machine: Vm, prefix: str) -> Resource:
    """Wait until a guest has its disks, and name them; all goes with the guest."""
    disks = started_with(machine)
    seen = tuple(_seen(machine, number) for number in range(len(disks)))
    shown = Command(("sh", "-c", SHOW))
    slow = machine.engine == "qemu" and any(disk.bus in SCSI_DISKS for disk in disks)
    links: list[Run] = []
    expect: list[Expectation] = []
    for disk, (known_by, driver) in zip(disks, seen, strict=True):
        link = Command(("ln", "-s", "-f", "-n", "-T", FOUND, node_of(disk.volume, prefix)))
        links.append(Run(link, find=Reading(shown, BlockDevice(known_by, "node"))))
        what, size_bytes = f"volume {disk.volume} in {guest}", lab.volumes[disk.volume].size
        expect += [
            Expectation(Reading(shown, BlockDevice(known_by, "size")), str(size_bytes), f"size of {what}"),
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
    """Return what a guest knows a disk by, and the driver of what it hangs on."""
    if machine.engine == "xen":  # such disks have names by number, and no serial numbers
        return f"xvd{chr(ord(FIRST_XEN_DISK) + number)}", XEN_DRIVER
    disk = started_with(machine)[number]
    return serial_of(disk.volume), DRIVERS[disk.bus or "virtio-blk"]
