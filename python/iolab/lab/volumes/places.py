"""Where volumes are, and where machines find them: paths and kernels."""

from hashlib import sha256

from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Volume
from iolab.lab.kernels import HERE, kernel_of

FOLDER = "/var/tmp"
"""For large files that last (FHS 3.0): on a disk, where /tmp and the agent's own folder may lie in memory."""
RUN = "/run"
"""For sockets and places of mounting: only root makes something there."""
LONGEST_SOCKET = 40
"""Of the part of a socket's path that names the volume: all of it has at most 107 bytes."""


def volume_path(volume: str, prefix: str) -> str:
    """Return where a volume lies on the computer that holds it."""
    return f"{FOLDER}/{prefix}{volume}"


def node_of(volume: str, prefix: str) -> str:
    """Return the name under which a machine's kernel has a volume, whatever it called the disk itself."""
    return f"/dev/{prefix}{volume}"


def mount_of(volume: str, prefix: str) -> str:
    """Return where the file system on a volume is mounted."""
    return f"{RUN}/{prefix}{volume}.mnt"


def door_of(volume: str, prefix: str) -> str:
    """Return the file by which a program in user space passes a volume to its kernel."""
    return f"{RUN}/{prefix}{volume}.door"


def socket_of(volume: str, prefix: str, role: str) -> str:
    """Return the path of a control socket of a volume."""
    name = f"{prefix}{volume}"
    short = name if len(name) <= LONGEST_SOCKET else f"{name[:24]}-{sha256(name.encode()).hexdigest()[:8]}"
    return f"{RUN}/{short}.{role}"


def monitor_of(volume: str, prefix: str) -> str:
    """Return the monitor's socket of the storage daemon that exports a volume through FUSE."""
    return socket_of(volume, prefix, "qmp")


def nbd_pid_file(volume: str, prefix: str) -> str:
    """Return where the NBD server of a volume writes its process number."""
    return f"{RUN}/{prefix}{volume}.qemu-nbd"


def holder_of(lab: Lab, volume: Volume) -> str:
    """Return the kernel that holds a volume."""
    return HERE if volume.on is None else kernel_of(lab, volume.on)


def in_memory(lab: Lab, volume: Volume) -> bool:
    """Tell whether a volume lies in memory: guests of ours have no other place to write."""
    kernel = holder_of(lab, volume)
    return kernel != HERE and lab.machines[kernel].kind == "vm"
