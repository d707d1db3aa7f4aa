"""Disks of hosts and namespaces (volumes as block devices of their kernel), and file systems on all disks.

`via: local` attaches the volume's file to a loop device. `via: user` uses QEMU's storage daemon: it logs in to the
iSCSI target, or opens the file, and exports the disk as a file through FUSE, to which a loop device is attached. The
same user-space export of a local file shows the overhead of the export.
"""

from collections.abc import Iterator
from dataclasses import replace

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Disk
from iolab.lab.actions import Command, Expectation, Reading, Run
from iolab.lab.dependencies import kernel_dependencies
from iolab.lab.kernels import kernel_of
from iolab.lab.readback.values import Value
from iolab.lab.resources import Resource
from iolab.lab.topology import Topology, netns_of
from iolab.lab.volumes.exports import way_of
from iolab.lab.volumes.initiators import DAEMON_CACHES, DIRECT, kernel_disk, lun_of, node_link, throttled
from iolab.lab.volumes.places import door_of, monitor_of, mount_of, node_of, volume_path
from iolab.lab.volumes.scripts import (
    ATTACH,
    DETACH,
    END_INITIATOR,
    MAKE_DOOR,
    REFUSE_EXISTING,
    SHOW_BACKING,
    SHOW_PROCESS,
    UNMOUNT,
)
from iolab.lab.volumes.served import Served, served_of
from iolab.lab.volumes.target_scripts import CLEAR_CONTENT
from iolab.lab.volumes.targets import content_checks, disk_checks, existing_connection, lun_checks

MAKE_FILE_SYSTEM: dict[str, tuple[str, ...]] = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
    "btrfs": ("mkfs.btrfs", "-q", "-f", "-K"),
}
"""Command that creates a file system completely at once: nothing is written later, during a measurement, and no
allocated block is discarded."""
ZEROS_WRITTEN = ("env", "UNIX_IO_NOZEROOUT=1")
"""Options of mkfs.ext4 that write zeros at once: reads of blocks that the storage only marks as zero would not reach a
disk."""


def attached_resources(lab: Lab, topology: Topology) -> Iterator[Resource]:
    """Return the disks of hosts and namespaces, and the file systems on all disks."""
    for name, machine in lab.machines.items():
        for disk in machine.disks:
            # Without its addresses, an initiator cannot log out, and the target would keep the session.
            session = lab.volumes[disk.volume].existing_target is not None
            for resource in _of_disk(lab, topology, name, disk):
                yield replace(resource, undone_first=session)


def _of_disk(lab: Lab, topology: Topology, name: str, disk: Disk) -> Iterator[Resource]:
    machine = lab.machines[name]
    if disk.via == "kernel":
        yield _connected(lab, topology, name, disk)
    elif machine.kind != "vm" and lab.volumes[disk.volume].device is None:
        yield _attached(lab, topology, name, disk)
    if disk.fs is not None:
        yield _mounted(lab, topology, name, disk)


def _connected(lab: Lab, topology: Topology, name: str, disk: Disk) -> Resource:
    """Return a disk to which the machine's own kernel connects."""
    served, kernel = served_of(lab, topology, disk.volume), kernel_of(lab, name)
    if served is None:  # a different check rejects the cell
        return Resource(key=f"disk:{name}.{disk.volume}", machine=name, kernel=kernel)
    actions, expect = kernel_disk(name, served, lab.volumes[disk.volume].size_bytes)
    return Resource(
        key=f"disk:{name}.{disk.volume}",
        machine=name,
        kernel=kernel,
        needs=_needs(lab, topology, name, disk),
        actions=(*actions, *content_checks(lab, served, node_of(disk.volume))),
        expect=expect,
    )


def _needs(lab: Lab, topology: Topology, name: str, disk: Disk) -> tuple[str, ...]:
    """Return the keys of the resources that a disk needs: a target with the addresses on the path, or a file."""
    kernel = kernel_dependencies(lab, kernel_of(lab, name))
    if lab.volumes[disk.volume].existing_target is not None:
        return (*kernel, *(f"address:{point.ref}" for point in topology.endpoints(name)))
    way = way_of(lab, topology, disk.volume) if lab.volumes[disk.volume].export is not None else None
    if way is None:
        return (f"volume:{disk.volume}", *kernel)
    return (f"export:{disk.volume}", f"address:{way[1].ref}")


def _attached(lab: Lab, topology: Topology, name: str, disk: Disk) -> Resource:
    volume, node = lab.volumes[disk.volume], node_of(disk.volume)
    kernel = kernel_of(lab, name)
    served = served_of(lab, topology, disk.volume)
    door = _door(lab, name, disk, served) if disk.via == "user" else ()
    file = door_of(disk.volume) if door else volume_path(lab, disk.volume)
    # With direct I/O, a loop device writes FUSE files incorrectly (Linux 6.18: a file system created this way cannot be
    # mounted). So the kernel caches the export: iolab's programs drop this cache, and the ledger counts the bytes that
    # it returned. Read-ahead would count towards the export's throttle, so the agent attaches a device without
    # read-ahead.
    attach = ("sh", "-c", ATTACH, file) if door else ("losetup", "--find", "--direct-io=on", file)
    found = Reading(Command(("losetup", "-n", "-O", "NAME", "-j", file)), Value())
    what = f"disk {disk.volume} of {name}"
    shown = ("--getsize64", str(volume.size_bytes), f"size of {what}")
    if served is not None and served.exists:
        shown = ("--getro", "1" if served.read_only else "0", f"read-only state of {what}")
    expected: list[tuple[tuple[str, ...], str, str]] = [
        (("blockdev", shown[0], node), *shown[1:]),
        (("sh", "-c", SHOW_BACKING, node), file, f"file behind {what}"),
    ]
    if door:
        expected.append((("sh", "-c", SHOW_PROCESS, f"{file}.pid"), "runs", f"storage daemon of {what}"))
    return Resource(
        key=f"disk:{name}.{disk.volume}",
        machine=name,
        kernel=kernel,
        needs=_needs(lab, topology, name, disk),
        actions=(
            *door,
            Run(Command(attach), Command(("sh", "-c", DETACH, file))),
            *(disk_checks(served, found) if served is not None and served.read_only else ()),
            *node_link(found, node),
            *content_checks(lab, served, node),
        ),
        expect=tuple(
            Expectation(Reading(Command(argv), Value()), value, about) for argv, value, about in expected
        ),
    )


def _door(lab: Lab, name: str, disk: Disk, served: Served | None) -> tuple[Run, ...]:
    """Return the actions that export a volume as a file through QEMU's storage daemon."""
    door, netns = door_of(disk.volume), netns_of(lab, name)
    monitor = monitor_of(disk.volume)
    end = Command(("sh", "-c", END_INITIATOR, door, monitor))
    # Mounts by programs that an agent starts in a namespace are invisible outside of it, so this program runs outside.
    inside = ("nsenter", f"--net=/run/netns/{netns}") if netns is not None else ()
    writable = "off" if served is not None and served.read_only else "on"
    daemon = (
        *inside,
        "qemu-storage-daemon",
        "--daemonize",
        *("--pidfile", f"{door}.pid"),
        *(
            "--chardev",
            f"socket,id=monitor,path={monitor},server=on,wait=off",
            "--monitor",
            "chardev=monitor",
        ),
        *_node(lab, disk, served),
        *("--export", f"type=fuse,id=door,node-name=disk,mountpoint={door},writable={writable}"),
    )
    return (
        *(lun_checks(served) if served is not None and served.exists else ()),
        Run(Command(("sh", "-c", REFUSE_EXISTING, door))),
        Run(Command(("sh", "-c", MAKE_DOOR, door)), end),
        Run(Command(daemon), secret=None if served is None else served.source),
    )


def _node(lab: Lab, disk: Disk, served: Served | None) -> tuple[str, ...]:
    """Return the block node of QEMU's storage daemon, throttled if configured."""
    limits = throttled(disk)
    if not limits:
        return _opened(lab, disk, served, "disk")
    most = ",".join(f"x-{word}={value}" for word, value in limits)
    slowed = ("--object", f"throttle-group,id=slow,{most}")
    above = f"driver=throttle,node-name=disk,throttle-group=slow,file=fast{_read_only(served)}"
    return (*slowed, *_opened(lab, disk, served, "fast"), "--blockdev", above)


def _read_only(served: Served | None) -> str:
    return ",read-only=on" if served is not None and served.read_only else ""


def _opened(lab: Lab, disk: Disk, served: Served | None, name: str) -> tuple[str, ...]:
    # a different check rejects other cache modes
    node = f"node-name={name},{DAEMON_CACHES.get(disk.cache, DIRECT)}{_read_only(served)}"
    if served is None:
        return ("--blockdev", f"driver=file,filename={volume_path(lab, disk.volume)},{node}")
    lun = lun_of(served)
    secret = () if lun.secret is None else ("--object", lun.secret)
    return (*secret, "--blockdev", ",".join((*(f"{key}={value}" for key, value in lun.options), node)))


def _mounted(lab: Lab, topology: Topology, name: str, disk: Disk) -> Resource:
    node, place = node_of(disk.volume), mount_of(disk.volume)
    options = ("-o", disk.mount) if disk.mount is not None else ()
    fs, guest = disk.fs or "", lab.machines[name].kind == "vm"
    below = f"disks:{name}" if guest and disk.via != "kernel" else f"disk:{name}.{disk.volume}"
    shown = Reading(Command(("findmnt", "-n", "-o", "FSTYPE", place)), Value())
    return Resource(
        key=f"mount:{name}.{disk.volume}",
        machine=name,
        kernel=kernel_of(lab, name),
        needs=(below,),
        actions=(
            *((Run(Command(("modprobe", "-q", fs))),) if guest else ()),
            Run(
                Command((*ZEROS_WRITTEN, *MAKE_FILE_SYSTEM[fs], node)),
                _clearing(lab, topology, disk, node),
            ),
            Run(Command(("sh", "-c", REFUSE_EXISTING, place))),
            Run(
                Command(("mkdir", "-m", "700", place)),
                Command(("sh", "-c", UNMOUNT, place, door_of(disk.volume))),
            ),
            Run(Command(("mount", "-t", fs, *options, node, place))),
            Run(Command(("chmod", "700", place))),
        ),
        expect=(Expectation(shown, fs, f"file system of disk {disk.volume} of {name}"),),
    )


def _clearing(lab: Lab, topology: Topology, disk: Disk, node: str) -> Command | None:
    """Return the undo that removes a file system from an existing target; None: the volume ends with the lab."""
    served = served_of(lab, topology, disk.volume)
    if served is None or not served.exists:
        return None
    # in a guest, `node` is the hypervisor's disk
    find: tuple[str, ...] = ('readlink -f "$0"', node)
    if disk.via == "kernel":
        find = existing_connection(served).find
    elif disk.via == "user":
        find = ('losetup -n -O NAME -j "$0"', door_of(disk.volume))
    return Command(("sh", "-c", CLEAR_CONTENT, node, *find))
