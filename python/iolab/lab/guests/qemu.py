"""A guest as QEMU's command line. Pure: nothing is looked for.

Where program, image and sockets lie is in `Place`, from whoever found them on the parent.
"""

from collections.abc import Iterator, Mapping
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
    TapBackend,
    VhostUserBackend,
    opened_for,
)
from iolab.registry.nics import NICS

QUIET = "panic=-1 nokaslr mitigations=off cryptomgr.notests no_timer_check net.ifnames=0"
"""Half a second of an emulated boot is saved by these; a panic ends QEMU (with -no-reboot)."""
SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
"""A guest that breaks out of its devices can start no program and change no rights: the kernel ends QEMU (seccomp)."""
XEN_BYTES = 192 << 20
"""What the hypervisor keeps for itself of a computer of 1.5 to 2.5 GiB [bytes]."""


@frozen
class Boot:
    """What a guest is started from, as paths on its parent."""

    kernel: str
    """ELF kernel."""
    initrd: str
    """First stage."""
    root: str
    """Disk with the root file system."""
    modules: str
    """Disk with kernel modules."""
    xen: str | None = None
    """The hypervisor below the kernel; None: there is none."""


PARENTS_DISKS = Boot("/lib/modules/boot/vmlinux", "/lib/modules/boot/initrd", "/dev/vda", "/dev/vdb")
"""Where a guest of ours finds what it was itself started from."""


@frozen(kw_only=True)
class Place:
    """What was found on the parent of a guest."""

    boot: Boot
    """Kernel and disks."""
    folder: str
    """Scratch folder of the guest: its sockets are `agent`, `console` and `monitor` in it."""
    accel: Literal["kvm", "tcg"]
    """The accelerator that works there."""
    program: tuple[str, ...] = ("qemu-system-x86_64",)
    """QEMU, and arguments that go before all others."""
    program_files: tuple[str, ...] = ()
    """Where it lies with its data, unless that is the system's."""
    first_fd: int = FIRST_FD
    """Number of the first passed file; the others follow."""
    kernel_arguments: tuple[str, ...] = ()
    """Beside the usual ones."""
    functions: Mapping[FunctionBackend, str] = field(default_factory=dict)
    """Virtual function of a card to its PCI address there."""


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
        *_disks(guest, place.boot),
        *_cards(guest, place),
    )


def linux_arguments(guest: Guest, root: str, modules: str, *more: str) -> str:
    """Return the kernel command line by which the agent in an image finds its disks and its name."""
    ours = f"iolab.root={root} iolab.modules={modules} iolab.name={guest.name}"
    return " ".join((f"quiet {QUIET} {ours}", *more))


def _cpu(place: Place) -> str:
    """Return the CPU that the guest sees.

    Below Xen, QEMU 7.2 emulates SMAP and RDTSCP so that Dom0 and PVH domains die of them.
    """
    if place.boot.xen is not None and place.accel == "tcg":
        return "max,-smap,-rdtscp"
    return "host" if place.accel == "kvm" else "max"


def _machine(guest: Guest) -> Iterator[str]:
    """Give a guest with an igb an IOMMU: it can pass the card's virtual functions on to guests of its own."""
    if not _splits(guest):
        yield from ("-machine", "q35")
        return
    yield from ("-machine", "q35,kernel-irqchip=split")
    yield from ("-device", "intel-iommu,intremap=on,caching-mode=on")


def _splits(guest: Guest) -> bool:
    """Tell whether a guest has a card that splits into virtual functions."""
    return any(nic.kind == "igb" for nic in guest.nics)


def _memory(guest: Guest) -> Iterator[str]:
    """Share the memory where a switch in user space must see it."""
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
    # Each virtual CPU has a CPU for itself: with an emulated CPU shared among them, programs of Dom0 died now and then
    # (QEMU 7.2; 1 launch in 100, none in 150 since; why is not known).
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


def _disks(guest: Guest, boot: Boot) -> Iterator[str]:
    """Give root and modules first: they are vda and vdb. Several guests read the same files."""
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
        yield from ("-drive", f"if=none,id=disk{number},{_opened(disk)},format=raw,cache={cache}{throttle}")
        place = sum(other.bus == disk.bus for other in guest.disks[:number])
        yield from ("-device", f"{_disk(disk, place)},drive=disk{number},serial={disk.serial}")


def _opened(disk: GuestDisk) -> str:
    """Return what QEMU opens."""
    if disk.lun is None:
        return f"file={disk.path}"
    return ",".join(f"file.{key}={value}" for key, value in disk.lun.options)


def _disk(disk: GuestDisk, place: int) -> str:
    """Return the device of a disk that is the `place`th on its bus, from 0."""
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
    if nic.kind == "igb":  # the addresses of its virtual functions are free below a port of its own only
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
    """Return the options of virtio cards alone: queues, with an interrupt each and two more, and rings."""
    if not NICS[nic.kind].is_virtio:
        return ""
    words = f",mq=on,vectors={2 * nic.queues + 2}" if nic.queues > 1 else ""
    if nic.kind == "vhost-user":
        words += "".join(f",{name}=off" for name in UNSWITCHED)
    words += f",rx_queue_size={nic.rx_ring}" if nic.rx_ring is not None else ""
    return words + (f",tx_queue_size={nic.tx_ring}" if nic.tx_ring is not None else "")


IOMMU = ("intel_iommu=on", "iommu=pt")
"""What makes a kernel use the IOMMU, for devices that are passed through only."""
UNSWITCHED = ("csum", "gso", "host_tso4", "host_tso6", "host_ecn", "host_ufo",
              "guest_csum", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo")  # fmt: skip
"""What a card leaves to who takes its frames, and a switch between it and a tap does not do: the guest does it."""
CONTROLLERS = {
    "virtio-scsi": "virtio-scsi-pci,id=virtioscsi",
    "pvscsi": "pvscsi,id=pvscsi",
    "ide": "ahci,id=ide",
}
"""What disks of a bus hang on."""
