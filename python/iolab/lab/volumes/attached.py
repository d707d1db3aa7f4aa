"""Disks of hosts and namespaces: a volume as a block device of their kernel; and file systems on disks, also of guests.

`via: local` attaches the volume's own file to a loop device. `via: user` puts QEMU's storage daemon between: it speaks
iSCSI, or opens the file, and shows the disk as a file by FUSE, to which the loop device is attached. The same door over
a local file shows what the door costs.
"""

from collections.abc import Iterator

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Disk
from iolab.lab.actions import Command, Expectation, Reading, Run
from iolab.lab.dependencies import kernel_dependencies
from iolab.lab.kernels import kernel_of
from iolab.lab.readback.values import Value
from iolab.lab.resources import Resource
from iolab.lab.topology import Topology, netns_of
from iolab.lab.volumes.exports import port_of, way_of
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

MAKE_FILE_SYSTEM: dict[str, tuple[str, ...]] = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
    "btrfs": ("mkfs.btrfs", "-q", "-f", "-K"),
}
"""Makes a file system whole at once: nothing of it is written later, in the midst of a measurement, and no block that
was allocated is given back."""
ZEROS_WRITTEN = ("env", "UNIX_IO_NOZEROOUT=1")
"""mkfs.ext4 writes its zeros then: blocks that the store only notes as zero are read from no disk."""


def attached_resources(lab: Lab, topology: Topology) -> Iterator[Resource]:
    """Return the disks of hosts and namespaces, and the file systems on all disks."""
    for name, machine in lab.machines.items():
        for disk in machine.disks:
            if disk.via == "kernel":
                yield _connected(lab, topology, name, disk)
            elif machine.kind != "vm":
                yield _attached(lab, topology, name, disk)
            if disk.fs is not None:
                yield _mounted(lab, name, disk, topology.prefix)


def _connected(lab: Lab, topology: Topology, name: str, disk: Disk) -> Resource:
    """Return a disk to which the machine's own kernel connects."""
    way = way_of(lab, topology, disk.volume)
    portal = (
        "" if way is None else way[0].address,
        port_of(lab, disk.volume),
    )  # without one the cell is refused elsewhere
    actions, expect = kernel_disk(name, disk.volume, lab.volumes[disk.volume], portal, topology.prefix)
    needs = () if way is None else (f"export:{disk.volume}", f"address:{way[1].ref}")
    return Resource(
        key=f"disk:{name}.{disk.volume}",
        machine=name,
        kernel=kernel_of(lab, name),
        needs=needs,
        actions=actions,
        expect=expect,
    )


def _attached(lab: Lab, topology: Topology, name: str, disk: Disk) -> Resource:
    volume, node = lab.volumes[disk.volume], node_of(disk.volume, topology.prefix)
    kernel = kernel_of(lab, name)
    way = way_of(lab, topology, disk.volume) if volume.export is not None else None
    door = _door(lab, topology, name, disk) if disk.via == "user" else ()
    file = door_of(disk.volume, topology.prefix) if door else volume_path(disk.volume, topology.prefix)
    # Past its cache a loop device writes a file of FUSE wrongly (Linux 6.18: no file system made so can be mounted).
    # So the kernel keeps blocks of the door: programs of ours empty it, and the ledger shows what it answered. What it
    # would read ahead, a throttle of the door would count: the agent attaches a device that reads nothing ahead.
    attach = ("sh", "-c", ATTACH, file) if door else ("losetup", "--find", "--direct-io=on", file)
    if way is None:
        needs = (f"volume:{disk.volume}", *kernel_dependencies(lab, kernel))
    else:
        needs = (f"export:{disk.volume}", f"address:{way[1].ref}")
    attached = Command(("losetup", "-n", "-O", "NAME", "-j", file))
    what = f"disk {disk.volume} of {name}"
    expected = [
        (("blockdev", "--getsize64", node), str(volume.size), f"size of {what}"),
        (("sh", "-c", SHOW_BACKING, node), file, f"file behind {what}"),
    ]
    if door:
        expected.append((("sh", "-c", SHOW_PROCESS, f"{file}.pid"), "runs", f"storage daemon of {what}"))
    return Resource(
        key=f"disk:{name}.{disk.volume}",
        machine=name,
        kernel=kernel,
        needs=needs,
        actions=(
            *door,
            Run(Command(attach), Command(("sh", "-c", DETACH, file))),
            *node_link(Reading(attached, Value()), node),
        ),
        expect=tuple(
            Expectation(Reading(Command(argv), Value()), value, about) for argv, value, about in expected
        ),
    )


def _door(lab: Lab, topology: Topology, name: str, disk: Disk) -> tuple[Run, ...]:
    """Return what shows a volume as a file by way of QEMU's storage daemon."""
    door, netns = door_of(disk.volume, topology.prefix), netns_of(lab, name, topology.prefix)
    monitor = monitor_of(disk.volume, topology.prefix)
    end = Command(("sh", "-c", END_INITIATOR, door, monitor))
    # Programs that an agent starts in a namespace mount where nobody else sees it; this one stays outside.
    inside = ("nsenter", f"--net=/run/netns/{netns}") if netns is not None else ()
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
        *_node(lab, topology, disk),
        *("--export", f"type=fuse,id=door,node-name=disk,mountpoint={door},writable=on"),
    )
    return (
        Run(Command(("sh", "-c", REFUSE_EXISTING, door))),
        Run(Command(("sh", "-c", MAKE_DOOR, door)), end),
        Run(Command(daemon)),
    )


def _node(lab: Lab, topology: Topology, disk: Disk) -> tuple[str, ...]:
    """Return what QEMU's storage daemon opens, slowed down where that is asked for."""
    limits = throttled(disk)
    if not limits:
        return _opened(lab, topology, disk, "disk")
    most = ",".join(f"x-{word}={value}" for word, value in limits)
    slowed = ("--object", f"throttle-group,id=slow,{most}")
    above = ("--blockdev", "driver=throttle,node-name=disk,throttle-group=slow,file=fast")
    return (*slowed, *_opened(lab, topology, disk, "fast"), *above)


def _opened(lab: Lab, topology: Topology, disk: Disk, name: str) -> tuple[str, ...]:
    node = f"node-name={name},{DAEMON_CACHES.get(disk.cache, DIRECT)}"  # other caches are refused elsewhere
    way = way_of(lab, topology, disk.volume) if lab.volumes[disk.volume].export is not None else None
    if way is None:
        return ("--blockdev", f"driver=file,filename={volume_path(disk.volume, topology.prefix)},{node}")
    lun = lun_of(disk.volume, lab.volumes[disk.volume], way, port_of(lab, disk.volume))
    secret = () if lun.secret is None else ("--object", lun.secret)
    return (*secret, "--blockdev", ",".join((*(f"{key}={value}" for key, value in lun.options), node)))


def _mounted(lab: Lab, name: str, disk: Disk, prefix: str) -> Resource:
    node, place = node_of(disk.volume, prefix), mount_of(disk.volume, prefix)
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
            Run(Command((*ZEROS_WRITTEN, *MAKE_FILE_SYSTEM[fs], node))),
            Run(Command(("sh", "-c", REFUSE_EXISTING, place))),
            Run(
                Command(("mkdir", "-m", "700", place)),
                Command(("sh", "-c", UNMOUNT, place, door_of(disk.volume, prefix))),
            ),
            Run(Command(("mount", "-t", fs, *options, node, place))),
            Run(Command(("chmod", "700", place))),
        ),
        expect=(Expectation(shown, fs, f"file system of disk {disk.volume} of {name}"),),
    )
