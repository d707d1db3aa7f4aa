"""Targets in the kernel: LIO for iSCSI, nvmet for NVMe/TCP, both by configfs; and qemu-nbd for NBD. Pure."""

from iolab.experiment.model.links import Volume
from iolab.frozen import frozen
from iolab.lab.actions import Run
from iolab.lab.readback.values import Value
from iolab.lab.readings import Command, Expectation, Reading
from iolab.lab.volumes.kernel_scripts import (
    END_BY_PID_FILE,
    END_LIO,
    END_NVMET,
    SHOW_LIO_PARAMETER,
    START_LIO,
    START_NVMET,
)
from iolab.lab.volumes.scripts import SHOW_PROCESS

NBD_PORT = 10809
"""Of NBD (registered with IANA)."""


@frozen(kw_only=True)
class Export:
    """What a target exports, and where."""

    name: str
    """The volume's name."""
    volume: Volume
    """The volume."""
    path: str
    """Its file."""
    target: str
    """The target's name in its protocol."""
    initiator: str
    """The name of the one that is let in."""
    address: str
    """Where it listens."""
    port: int
    """And at which port of TCP."""
    netns: str | None
    """Namespace of that address; None: the kernel's own."""
    in_memory: bool
    """True: the file lies in memory, past which nothing can be written."""
    number: int
    """Of the volume among those of the lab, from 1."""


Made = tuple[tuple[Run, ...], tuple[Expectation, ...]]
"""What makes a target, and what must be read back of it."""


def lio(export: Export) -> Made:
    """Return a target of LIO."""
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
    """Return a subsystem of nvmet."""
    words = (export.target, export.initiator, export.address, export.path, str(export.number))
    buffered = export.in_memory or export.volume.cache == "buffered"
    do = (*words, "off" if buffered else "on", export.netns or "", str(export.port))
    made = Run(Command(("sh", "-c", START_NVMET, *do)), Command(("sh", "-c", END_NVMET, *words)))
    enabled = f"/sys/kernel/config/nvmet/subsystems/{export.target}/namespaces/1/enable"
    shown = Reading(Command(("cat", enabled)), Value())
    return (made,), (Expectation(shown, "1", f"namespace of volume {export.name}"),)


def nbd(export: Export, pid_file: str) -> Made:
    """Return a server of qemu-nbd. It serves two: the initiator, and a handshake that asks whether it still answers."""
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
