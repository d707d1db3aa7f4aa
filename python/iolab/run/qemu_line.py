"""The command line of QEMU for a guest, and the files that the parent's agent opens for it. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from iolab.agent.messages import Json
from iolab.lab.guest import Guest, GuestNic, MacvtapBackend, TapBackend
from iolab.run.accel import Accelerator

MODELS = {
    "e1000": "e1000",
    "e1000e": "e1000e",
    "rtl8139": "rtl8139",
    "vmxnet3": "vmxnet3",
    "virtio-net": "virtio-net-pci",
    "vhost-net": "virtio-net-pci",
    "macvtap": "virtio-net-pci",
    "macvtap+vhost": "virtio-net-pci",
}
FIRST_FD = 10
APPEND = (
    "console=ttyS0 quiet panic=-1 nokaslr mitigations=off cryptomgr.notests no_timer_check net.ifnames=0 "
    "iolab.root=/dev/vda iolab.modules=/dev/vdb"
)


@dataclass(frozen=True, slots=True)
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
    xen: str | None
    """The hypervisor below the kernel."""


def qemu_line(
    guest: Guest, boot: Boot, folder: str, accel: Accelerator
) -> tuple[tuple[str, ...], tuple[Json, ...]]:
    """Return the arguments, and the files, of a guest whose sockets lie in `folder`."""
    argv = [
        *("-name", f"{guest.name},debug-threads=on", "-nodefaults", "-no-user-config", "-display", "none"),
        *("-no-reboot", "-machine", "q35", "-accel", "tcg,thread=multi" if accel == "tcg" else "kvm"),
        *("-cpu", "max", "-smp", str(guest.cpus), "-m", f"{guest.memory_bytes >> 20}M"),
        *("-chardev", f"socket,id=con,path={folder}/console,server=on,wait=off", "-serial", "chardev:con"),
        *("-chardev", f"socket,id=mon,path={folder}/monitor,server=on,wait=off"),
        *("-mon", "chardev=mon,mode=control", "-device", "virtio-serial-pci,id=vs0"),
        *("-chardev", f"socket,id=ag,path={folder}/agent,server=on,wait=off"),
        *("-device", "virtserialport,chardev=ag,name=org.iolab.agent,bus=vs0.0"),
        *("-kernel", boot.kernel, "-initrd", boot.initrd, "-append", f"{APPEND} iolab.name={guest.name}"),
    ]
    for number, path in enumerate((boot.root, boot.modules)):
        drive = f"if=none,id=d{number},file={path},format=raw,readonly=on,file.locking=off"
        argv += ["-drive", drive, "-device", f"virtio-blk-pci,drive=d{number}"]
    files: list[Json] = []
    for number, nic in enumerate(guest.nics):
        argv += _card(nic, number, files)
    return tuple(argv), tuple(files)


def _card(nic: GuestNic, number: int, files: list[Json]) -> Iterator[str]:
    virtio = MODELS[nic.kind] == "virtio-net-pci"
    fds = []
    for _ in range(nic.queues):
        fds.append(FIRST_FD + len(files))
        files.append({"fd": fds[-1], "open": _open(nic, virtio)})
    words = f"fds={':'.join(map(str, fds))}" if nic.queues > 1 else f"fd={fds[0]}"
    yield from ("-netdev", f"tap,id=n{number},{words}")
    queues = f",mq=on,vectors={2 * nic.queues + 2}" if nic.queues > 1 else ""
    yield from ("-device", f"{MODELS[nic.kind]},netdev=n{number},mac={nic.mac}{queues}")


def _open(nic: GuestNic, virtio: bool) -> Json:
    match nic.backend:
        case TapBackend(netns, interface):
            kind = {"kind": "tap", "netns": netns, "name": interface}
            return kind | {"vnet_header": virtio, "multi_queue": nic.queues > 1}
        case MacvtapBackend(netns, interface):
            return {"kind": "macvtap", "netns": netns, "interface": interface}
        case other:
            raise ValueError(f"no file for {other}")
