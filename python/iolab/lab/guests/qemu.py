"""The QEMU command line of a guest. Pure: nothing is read from the host.

`Place` has the locations of program, image and sockets, which the caller found on the parent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from iolab.frozen import frozen
from iolab.lab.guests.guest import (
    FIRST_FD,
    FunctionBackend,
    Guest,
    GuestDisk,
    GuestNic,
    MacvtapBackend,
    PassedFile,
    RecordedFile,
    TapBackend,
    VhostUserBackend,
    opened_for,
    passed_files,
)
from iolab.registry.nics import NICS

QUIET = "panic=-1 nokaslr mitigations=off cryptomgr.notests no_timer_check net.ifnames=0"
"""Kernel options that save half a second of an emulated boot; a panic stops QEMU (with -no-reboot)."""
SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
"""Seccomp options of QEMU: a guest that escapes its devices cannot start programs or change privileges."""
XEN_BYTES = 192 << 20
"""Memory that Xen reserves for itself on a machine with 1.5 to 2.5 GiB [bytes]."""


@frozen
class Boot:
    """The boot files of a guest, as paths on its parent."""

    kernel: str
    """ELF kernel."""
    initrd: str
    """Initial RAM file system."""
    root: str
    """Disk with the root file system."""
    modules: str
    """Disk with kernel modules."""
    xen: str | None = None
    """Xen hypervisor below the kernel; None: no hypervisor."""


PARENTS_DISKS = Boot("/lib/modules/boot/vmlinux", "/lib/modules/boot/initrd", "/dev/vda", "/dev/vdb")
"""Boot files that a parent guest uses for its own guests: the disks from which it was started."""


@frozen(kw_only=True)
class Place:
    """The locations and capabilities found on the parent of a guest."""

    boot: Boot
    """Kernel and disks."""
    folder: str
    """Scratch folder of the guest, with its sockets `agent`, `console` and `monitor`."""
    accel: Literal["kvm", "tcg"]
    """Accelerator that works on the parent."""
    program: tuple[str, ...] = ("qemu-system-x86_64",)
    """QEMU, and arguments that precede all others."""
    program_files: tuple[str, ...] = ()
    """Folder of QEMU and its data, if they are not in the system's folders."""
    first_fd: int = FIRST_FD
    """Number of the first passed file descriptor; the others follow."""
    kernel_arguments: tuple[str, ...] = ()
    """Additional kernel arguments."""
    functions: Mapping[FunctionBackend, str] = field(default_factory=dict)
    """PCI address of each virtual function of a NIC on the parent."""


def qemu_argv(guest: Guest, place: Place) -> tuple[str, ...]:
    """Return the command that starts a guest."""
    return (
        *place.program,
        *("-name", f"{guest.name},debug-threads=on", "-nodefaults", "-no-user-config", "-display", "none"),
        *("-sandbox", SANDBOX, "-no-reboot", *_machine(guest), "-accel", place.accel, "-cpu", _cpu(place)),
        *("-smp", str(guest.cpus + guest.domains_cpus), "-m", f"{guest.memory_bytes >> 20}M"),
        *_memory(guest),
        *_boot(guest, place),
        *_sockets(place.folder),
        *_disks(guest, place.boot, passed_files(guest, place.first_fd)),
        *_cards(guest, place),
    )


def linux_arguments(guest: Guest, root: str, modules: str, *more: str) -> str:
    """Return the kernel command line that tells the agent in an image its disks and its name."""
    ours = f"iolab.root={root} iolab.modules={modules} iolab.name={guest.name}"
    return " ".join((f"quiet {QUIET} {ours}", *more))


def _cpu(place: Place) -> str:
    """Return the CPU model of the guest.

    Below Xen, SMAP and RDTSCP are disabled, because their emulation in QEMU 7.2 crashes Dom0 and PVH domains.
    """
    if place.boot.xen is not None and place.accel == "tcg":
        return "max,-smap,-rdtscp"
    return "host" if place.accel == "kvm" else "max"


def _machine(guest: Guest) -> Iterator[str]:
    """Return QEMU's machine options.

    A guest with an igb NIC gets an IOMMU, so that it can pass virtual functions to its guests.
    """
    if not _splits(guest):
        yield from ("-machine", "q35")
        return
    yield from ("-machine", "q35,kernel-irqchip=split")
    yield from ("-device", "intel-iommu,intremap=on,caching-mode=on")


def _splits(guest: Guest) -> bool:
    """Whether a guest has a NIC with virtual functions."""
    return any(nic.kind == "igb" for nic in guest.nics)


def _memory(guest: Guest) -> Iterator[str]:
    """Return QEMU's memory options; the memory is shared if a user-space switch must access it."""
    if any(isinstance(nic.backend, VhostUserBackend) for nic in guest.nics):
        size = f"{guest.memory_bytes >> 20}M"
        yield from (
            "-object",
            f"memory-backend-memfd,id=mem0,size={size},share=on",
            "-numa",
            "node,memdev=mem0",
        )


def _boot(guest: Guest, place: Place) -> Iterator[str]:
    boot = place.boot
    iommu = IOMMU if _splits(guest) else ()
    arguments = linux_arguments(guest, "/dev/vda", "/dev/vdb", *iommu, *place.kernel_arguments)
    if boot.xen is None:
        yield from ("-kernel", boot.kernel, "-initrd", boot.initrd, "-append", f"console=ttyS0 {arguments}")
        return
    dom0_mib = (guest.memory_bytes - guest.domains_bytes - XEN_BYTES) >> 20
    # Each virtual CPU has a dedicated CPU: when several of them shared an emulated CPU, programs of Dom0 crashed
    # occasionally (QEMU 7.2; 1 of 100 starts, none of 150 starts since; the cause is unknown).
    xen = f"com1=115200,8n1 console=com1 noreboot dom0_mem={dom0_mib}M,max:{dom0_mib}M"
    xen += f" dom0_max_vcpus={guest.cpus} dom0_vcpus_pin"
    modules = (f"{boot.kernel} console=hvc0 {arguments}", boot.initrd)
    yield from ("-kernel", boot.xen, "-append", xen)
    yield from ("-initrd", ",".join(module.replace(",", ",,") for module in modules))


def _sockets(folder: str) -> Iterator[str]:
    yield from ("-chardev", f"socket,id=console,path={folder}/console,server=on,wait=off")
    yield from ("-serial", "chardev:console")
    yield from ("-qmp", f"unix:{folder}/monitor,server=on,wait=off")
    yield from ("-device", "virtio-serial-pci,id=serial0")
    yield from ("-chardev", f"socket,id=agent,path={folder}/agent,server=on,wait=off")
    yield from ("-device", "virtserialport,bus=serial0.0,chardev=agent,name=org.iolab.agent")


def _disks(guest: Guest, boot: Boot, files: Sequence[PassedFile]) -> Iterator[str]:
    """Return QEMU's disk options, with root and modules first (vda and vdb). Several guests read the same files."""
    for number, path in enumerate((boot.root, boot.modules)):
        options = f"if=none,id=image{number},file={path},format=raw,readonly=on,file.locking=off"
        yield from ("-drive", options, "-device", f"virtio-blk-pci,drive=image{number}")
    for bus in dict.fromkeys(disk.bus for disk in guest.disks):
        if bus in CONTROLLERS:
            yield from ("-device", CONTROLLERS[bus])
    for number, disk in enumerate(guest.disks):
        if disk.lun is not None and disk.lun.secret is not None:
            yield from ("-object", disk.lun.secret)
        throttle = "".join(f",throttling.{word}={most}" for word, most in disk.throttle)
        cache = disk.cache or ("writeback" if disk.in_memory else "none")
        reads = ",readonly=on" if disk.read_only or (disk.record is not None and not disk.writes) else ""
        for file in files:
            if isinstance(file.open, RecordedFile) and file.open.record == disk.record:
                yield from ("-add-fd", f"fd={file.fd},set={number}")
        opened = _opened(disk, number)
        yield from ("-drive", f"if=none,id=disk{number},{opened},format=raw,cache={cache}{reads}{throttle}")
        place = sum(other.bus == disk.bus for other in guest.disks[:number])
        yield from ("-device", f"{_disk(disk, place)},drive=disk{number},serial={disk.serial}")


def _opened(disk: GuestDisk, number: int) -> str:
    """Return the block device options of a file, a LUN, or a device whose descriptor is in the set `number`."""
    if disk.record is not None:
        return f"file.driver=host_device,file.filename=/dev/fdset/{number}"
    if disk.lun is None:
        return f"file={disk.path}"
    return ",".join(f"file.{key}={value}" for key, value in disk.lun.options)


def _disk(disk: GuestDisk, place: int) -> str:
    """Return the device options of a disk at position `place` on its bus, from 0."""
    match disk.bus:
        case "virtio-blk":
            return "virtio-blk-pci"
        case "nvme":
            return "nvme"
        case "ide":
            return f"ide-hd,bus=ide.{place}"
        case "virtio-scsi" | "pvscsi":
            return f"scsi-hd,bus={disk.bus.replace('-', '')}.0"


def _cards(guest: Guest, place: Place) -> Iterator[str]:
    fd = place.first_fd
    for number, nic in enumerate(guest.nics):
        count = len(opened_for(nic))
        yield from _card(nic, number, tuple(range(fd, fd + count)), place)
        fd += count


def _card(nic: GuestNic, number: int, fds: tuple[int, ...], place: Place) -> Iterator[str]:
    match nic.backend:
        case FunctionBackend(interface, index) as function:
            address = place.functions.get(function, f"{interface}/virtfn{index}")
            yield from ("-device", f"vfio-pci,host={address}")
            return
        case VhostUserBackend(_, _, socket):
            yield from ("-chardev", f"socket,id=switch{number},path={place.folder}/{socket}")
            yield from ("-netdev", f"vhost-user,id=net{number},chardev=switch{number},queues={nic.queues}")
        case TapBackend() | MacvtapBackend():
            yield from ("-netdev", f"tap,id=net{number},{_passed(nic, fds)}")
    bus = ""
    if nic.kind == "igb":  # only a dedicated port has free addresses for its virtual functions
        bus = f",bus=root{number}"
        yield from ("-device", f"pcie-root-port,id=root{number},chassis={number + 1}")
    yield from ("-device", f"{NICS[nic.kind].device},netdev=net{number},mac={nic.mac}{_virtio(nic)}{bus}")


def _passed(nic: GuestNic, fds: tuple[int, ...]) -> str:
    taps, vhosts = fds[: nic.queues], fds[nic.queues :]
    if nic.queues == 1:
        return f"fd={taps[0]}" + (f",vhost=on,vhostfd={vhosts[0]}" if vhosts else "")
    text = f"fds={':'.join(map(str, taps))}"
    return text + (f",vhost=on,vhostfds={':'.join(map(str, vhosts))}" if vhosts else "")


def _virtio(nic: GuestNic) -> str:
    """Return the options of virtio NICs: queues, interrupts (one per queue and two more), and rings."""
    if not NICS[nic.kind].is_virtio:
        return ""
    words = f",mq=on,vectors={2 * nic.queues + 2}" if nic.queues > 1 else ""
    if nic.kind == "vhost-user":
        words += "".join(f",{name}=off" for name in UNSWITCHED)
    words += f",rx_queue_size={nic.rx_ring}" if nic.rx_ring is not None else ""
    return words + (f",tx_queue_size={nic.tx_ring}" if nic.tx_ring is not None else "")


IOMMU = ("intel_iommu=on", "iommu=pt")
"""Kernel arguments that use the IOMMU only for passed-through devices."""
UNSWITCHED = ("csum", "gso", "host_tso4", "host_tso6", "host_ecn", "host_ufo",
              "guest_csum", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo")  # fmt: skip
"""Offloads that a virtio NIC leaves to the receiver of its frames; a switch with a tap does not perform them, so
the guest does."""
CONTROLLERS = {
    "virtio-scsi": "virtio-scsi-pci,id=virtioscsi",
    "pvscsi": "pvscsi,id=pvscsi",
    "ide": "ahci,id=ide",
}
"""Controllers to which the disks of a bus are attached."""
