"""Exports of volumes by iSCSI: a target in user space (tgt) on the lab's addresses, for one initiator.

Pure. A target in the kernel, NVMe/TCP and NBD are not built yet.
"""

from collections.abc import Iterator
from hashlib import sha256

from iolab.experiment.experiment import Lab
from iolab.lab.readback.values import Value
from iolab.lab.resources import Command, Expectation, Reading, Resource, Run
from iolab.lab.topology import Endpoint, Topology, netns_of
from iolab.lab.volumes.places import RUN, holder_of, volume_path
from iolab.lab.volumes.scripts import END_TARGET, SHOW_OFFER, SHOW_TARGET, START_TARGET

PORT = 3260
"""Of iSCSI (RFC 7143)."""
NAMES = "iqn.2026-01.net.iolab"
"""Begins the names of targets and initiators (RFC 3721)."""
LONGEST_SOCKET = 40
"""Of the part of a control socket's path that names the volume: all of it has at most 107 bytes."""


def target_name(volume: str) -> str:
    """Return the iSCSI name of a volume's target."""
    return f"{NAMES}:{volume}"


def initiator_name(machine: str) -> str:
    """Return the iSCSI name of a machine as initiator."""
    return f"{NAMES}:{machine}"


def control_socket(volume: str, prefix: str) -> str:
    """Return where the target of a volume is controlled."""
    name = f"{prefix}{volume}"
    short = name if len(name) <= LONGEST_SOCKET else f"{name[:24]}-{sha256(name.encode()).hexdigest()[:8]}"
    return f"{RUN}/{short}.tgt"


def offer_command(volume: str, prefix: str) -> tuple[str, ...]:
    """Return the command that shows who is logged in to a volume's target, and what it offers."""
    return ("sh", "-c", SHOW_OFFER, control_socket(volume, prefix))


def initiator_of(lab: Lab, volume: str) -> str | None:
    """Return the machine that has a volume as a disk."""
    return next(
        (name for name, machine in lab.machines.items() for disk in machine.disks if disk.volume == volume),
        None,
    )


def way_of(lab: Lab, topology: Topology, volume: str) -> tuple[Endpoint, Endpoint] | None:
    """Return target and initiator of a volume's export; None: nobody has it, or no machine holds it.

    Raises:
        InputError: no link joins them.
    """
    machine, holder = initiator_of(lab, volume), lab.volumes[volume].on
    if machine is None or holder is None:
        return None
    return topology.endpoint(holder, towards=machine), topology.endpoint(machine, towards=holder)


def export_resources(lab: Lab, topology: Topology, prefix: str) -> Iterator[Resource]:
    """Return the targets of a lab."""
    for name, volume in lab.volumes.items():
        if volume.export == "iscsi" and (way := way_of(lab, topology, name)) is not None:
            yield _target(lab, name, way, prefix)


def _target(lab: Lab, name: str, way: tuple[Endpoint, Endpoint], prefix: str) -> Resource:
    volume, (target, initiator) = lab.volumes[name], way
    kernel, socket = holder_of(lab, volume), control_socket(name, prefix)
    netns = None if volume.on is None else netns_of(lab, volume.on, prefix)
    portal = f"{target.address}:{PORT}"

    def told(*words: str) -> Run:
        return Run(Command(("env", f"TGT_IPC_SOCKET={socket}", "tgtadm", *words)))

    flags = ("--bsoflags", "direct") if volume.cache == "direct" else ()
    path = volume_path(name, prefix)
    one = ("--mode", "target", "--tid", "1")
    unit = ("--mode", "logicalunit", "--tid", "1", "--lun", "1")
    store = ("--bstype", "rdwr", *flags, "--backing-store", path)
    bound = (
        ("--initiator-name", initiator_name(initiator.machine)),
        ("--initiator-address", initiator.address),
    )
    params = volume.params.written()
    return Resource(
        key=f"export:{name}",
        machine=target.machine,
        kernel=kernel,
        needs=(f"volume:{name}", f"address:{target.ref}"),
        actions=(
            Run(
                Command(("sh", "-c", START_TARGET, socket, portal), netns),
                Command(("sh", "-c", END_TARGET, socket)),
            ),
            told("--op", "new", *one, "--targetname", target_name(name)),
            *(told("--op", "update", *one, "--name", key, "--value", word) for key, word in params.items()),
            told("--op", "new", *unit, *store),
            *(told("--op", "bind", *one, *words) for words in bound),
        ),
        expect=tuple(
            Expectation(
                Reading(Command(("sh", "-c", SHOW_TARGET, socket, key)), Value()),
                word,
                f"{key} of volume {name}",
            )
            for key, word in params.items()
        ),
    )
