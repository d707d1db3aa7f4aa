"""Exports of volumes on the lab's addresses, each for one initiator.

The targets are tgt, the kernel's targets configured through configfs (LIO for iSCSI, nvmet for NVMe/TCP), and qemu-nbd
for NBD. Pure.
"""

from collections.abc import Callable, Iterator, Mapping

from iolab.experiment.experiment import Lab
from iolab.experiment.model.volumes import Volume
from iolab.frozen import frozen
from iolab.lab.actions import Command, Expectation, Reading, Run
from iolab.lab.kernels import HERE
from iolab.lab.readback.values import Value
from iolab.lab.resources import Resource
from iolab.lab.topology import Endpoint, Topology
from iolab.lab.volumes.places import holder_of, in_memory, nbd_pid_file, socket_of, volume_path
from iolab.lab.volumes.scripts import (
    END_BY_PID_FILE,
    END_LIO,
    END_NVMET,
    END_TARGET,
    SHOW_LIO,
    SHOW_LIO_PARAMETER,
    SHOW_OFFER,
    SHOW_PROCESS,
    SHOW_TARGET,
    START_LIO,
    START_NVMET,
    START_TARGET,
)

NBD_PORT = 10809
"""TCP port of NBD (registered with IANA)."""


@frozen(kw_only=True)
class Export:
    """An export of a target."""

    name: str
    """Name of the volume."""
    volume: Volume
    """The volume."""
    path: str
    """Path of the volume's file."""
    target: str
    """Name of the target in its protocol."""
    initiator: str
    """Name of the permitted initiator."""
    address: str
    """Listening address."""
    port: int
    """Listening TCP port."""
    netns: str | None
    """Network namespace of the address; None: the kernel's initial namespace."""
    in_memory: bool
    """Whether the file is in memory, where direct I/O is impossible."""
    number: int
    """Number of the volume in the lab, from 1."""


Made = tuple[tuple[Run, ...], tuple[Expectation, ...]]
"""Actions that create a target, and expectations of its read-back."""
PORTS: Mapping[str, int] = {"iscsi": 3260, "nvme-tcp": 4420, "nbd": NBD_PORT}
"""Default port of each protocol (RFC 7143, IANA)."""
NVME_NAMES = "nqn.2026-01.net.iolab"
"""Prefix of the names of subsystems and hosts (NVM Express, 4.5)."""
NAMES = "iqn.2026-01.net.iolab"
"""Prefix of the names of targets and initiators (RFC 3721)."""


def target_name(volume: str) -> str:
    """Return the iSCSI name of a volume's target."""
    return f"{NAMES}:{volume}"


def initiator_name(machine: str) -> str:
    """Return the iSCSI initiator name of a machine."""
    return f"{NAMES}:{machine}"


def subsystem_name(volume: str) -> str:
    """Return the NVMe name of a volume's subsystem."""
    return f"{NVME_NAMES}:{volume}"


def host_name(machine: str) -> str:
    """Return the NVMe host name of a machine."""
    return f"{NVME_NAMES}:{machine}"


def by_kernel(lab: Lab, volume: Volume) -> bool:
    """Whether the kernel provides a volume's iSCSI target."""
    kernel = holder_of(lab, volume)
    guest = kernel != HERE and lab.machines[kernel].kind == "vm"
    return volume.served_by == "kernel" or (volume.served_by is None and guest)


def port_of(lab: Lab, name: str) -> int:
    """Return the listening port of a volume's target: the default port of its protocol.

    Further targets of a machine use the next ports.

    Each target is a separate server, except that all LIO targets share one port.
    """
    volume = lab.volumes[name]
    first = PORTS[volume.export or "iscsi"]
    if volume.export == "iscsi" and by_kernel(lab, volume):
        return first
    same = [other for other, one in lab.volumes.items() if (one.on, one.export) == (volume.on, volume.export)]
    return first + same.index(name)


def control_socket(volume: str) -> str:
    """Return the control socket of a volume's target."""
    return socket_of(volume, "tgt")


def offer_command(lab: Lab, volume: str) -> tuple[str, ...]:
    """Return the command that shows the sessions of a volume's iSCSI target and the offered parameters."""
    if by_kernel(lab, lab.volumes[volume]):
        return ("sh", "-c", SHOW_LIO, target_name(volume), initiator_name(initiator_of(lab, volume) or ""))
    return ("sh", "-c", SHOW_OFFER, control_socket(volume))


def initiator_of(lab: Lab, volume: str) -> str | None:
    """Return the machine with the initiator of a volume: the one that uses the volume as a disk, or its parent."""
    for name, machine in lab.machines.items():
        for disk in machine.disks:
            if disk.volume == volume:
                return machine.on if disk.via == "hypervisor" else name
    return None


def way_of(lab: Lab, topology: Topology, volume: str) -> tuple[Endpoint, Endpoint] | None:
    """Return target and initiator of a volume's export; None: no machine uses the volume, or no machine contains it.

    Raises:
        InputError: no link joins them.
    """
    target = lab.volumes[volume].existing_target
    machine, holder = initiator_of(lab, volume), lab.volumes[volume].on if target is None else target.machine
    if machine is None or holder is None:
        return None
    there = topology.endpoint(holder, towards=machine, ip=4)
    return there, topology.endpoint(machine, towards=holder, ip=4)  # exports listen on IPv4 addresses


def export_resources(lab: Lab, topology: Topology) -> Iterator[Resource]:
    """Return the targets of a lab."""
    for number, (name, volume) in enumerate(lab.volumes.items(), 1):
        if volume.export is None or (way := way_of(lab, topology, name)) is None:
            continue
        target, initiator = way
        told = Export(
            name=name,
            volume=volume,
            path=volume_path(lab, name),
            target=subsystem_name(name) if volume.export == "nvme-tcp" else target_name(name),
            initiator=(host_name if volume.export == "nvme-tcp" else initiator_name)(initiator.machine),
            address=target.address,
            port=port_of(lab, name),
            netns=target.netns,
            in_memory=in_memory(lab, volume),
            number=number,
        )
        actions, expect = _made(lab, told, initiator.address)
        yield Resource(
            key=f"export:{name}",
            machine=target.machine,
            kernel=holder_of(lab, volume),
            needs=(f"volume:{name}", f"address:{target.ref}"),
            actions=actions,
            expect=expect,
        )


def _made(lab: Lab, told: Export, initiator_address: str) -> Made:
    match told.volume.export:
        case "nvme-tcp":
            return nvmet(told)
        case "nbd":
            return nbd(told, nbd_pid_file(told.name))
        case _:
            return lio(told) if by_kernel(lab, told.volume) else _tgt(told, initiator_address)


def _tgt(export: Export, initiator_address: str) -> Made:
    volume, name, socket = export.volume, export.name, control_socket(export.name)

    def told(*words: str) -> Run:
        return Run(Command(("env", f"TGT_IPC_SOCKET={socket}", "tgtadm", *words)))

    flags = ("--bsoflags", "direct") if volume.cache == "direct" and not export.in_memory else ()
    one = ("--mode", "target", "--tid", "1")
    unit = ("--mode", "logicalunit", "--tid", "1", "--lun", "1")
    store = ("--bstype", "rdwr", *flags, "--backing-store", export.path)
    bound = (("--initiator-name", export.initiator), ("--initiator-address", initiator_address))
    params = volume.params.written()
    actions = (
        Run(
            Command(("sh", "-c", START_TARGET, socket, f"{export.address}:{export.port}"), export.netns),
            Command(("sh", "-c", END_TARGET, socket)),
        ),
        told("--op", "new", *one, "--targetname", export.target),
        *(told("--op", "update", *one, "--name", key, "--value", word) for key, word in params.items()),
        *_accounts(volume, told),
        told("--op", "new", *unit, *store),
        *(told("--op", "bind", *one, *words) for words in bound),
    )
    process = Reading(Command(("sh", "-c", SHOW_PROCESS, f"{socket}.pid")), Value())
    expect = (
        Expectation(process, "runs", f"target of volume {name}"),
        *(
            Expectation(
                Reading(Command(("sh", "-c", SHOW_TARGET, socket, key)), Value()),
                word,
                f"{key} of volume {name}",
            )
            for key, word in params.items()
        ),
    )
    return actions, expect


def _accounts(volume: Volume, told: Callable[..., Run]) -> Iterator[Run]:
    """Yield the actions that enable CHAP in tgt."""
    if volume.chap is not None:
        user = ("--mode", "account", "--user", volume.chap.user)
        yield told("--op", "new", *user, "--password", volume.chap.secret)
        yield told("--op", "bind", *user, "--tid", "1")


def lio(export: Export) -> Made:
    """Return the actions that create an LIO target, with the expectations of its read-back."""
    volume, chap = export.volume, export.volume.chap
    words = (export.target, export.initiator, export.address, export.path)
    user, secret = (chap.user, chap.secret) if chap is not None else ("", "")
    params = volume.params.written()
    do = (
        *words,
        str(volume.size),
        export.netns or "",
        user,
        secret,
        *(f"{key}={word}" for key, word in params.items()),
    )
    made = Run(Command(("sh", "-c", START_LIO, *do)), Command(("sh", "-c", END_LIO, *words)))
    expect = tuple(
        Expectation(
            Reading(Command(("sh", "-c", SHOW_LIO_PARAMETER, export.target, key)), Value()),
            word,
            f"{key} of volume {export.name}",
        )
        for key, word in params.items()
    )
    return (made,), expect


def nvmet(export: Export) -> Made:
    """Return the actions that create an nvmet subsystem, with the expectations of its read-back."""
    words = (export.target, export.initiator, export.address, export.path, str(export.number))
    buffered = export.in_memory or export.volume.cache == "buffered"
    do = (*words, "off" if buffered else "on", export.netns or "", str(export.port))
    made = Run(Command(("sh", "-c", START_NVMET, *do)), Command(("sh", "-c", END_NVMET, *words)))
    enabled = f"/sys/kernel/config/nvmet/subsystems/{export.target}/namespaces/1/enable"
    shown = Reading(Command(("cat", enabled)), Value())
    return (made,), (Expectation(shown, "1", f"namespace of volume {export.name}"),)


def nbd(export: Export, pid_file: str) -> Made:
    """Return the actions that start a qemu-nbd server, which accepts two clients: the initiator and a liveness
    check."""
    buffered = export.in_memory or export.volume.cache == "buffered"
    served = Command(
        (
            "qemu-nbd",
            *("--fork", "--persistent", "--shared", "2", "--format", "raw"),
            *("--cache", "writeback" if buffered else "none"),
            *("--bind", export.address, "--port", str(export.port), "--export-name", export.name),
            *("--pid-file", pid_file, export.path),
        ),
        export.netns,
    )
    end = Command(("sh", "-c", END_BY_PID_FILE, pid_file))
    shown = Reading(Command(("sh", "-c", SHOW_PROCESS, pid_file)), Value())
    return (Run(served, end),), (Expectation(shown, "runs", f"server of volume {export.name}"),)
