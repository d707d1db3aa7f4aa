"""Locations of volumes and of their device nodes: paths and kernels."""

from hashlib import sha256

from iolab.experiment.experiment import Lab
from iolab.experiment.model.volumes import Volume
from iolab.lab.kernels import HERE, kernel_of

FOLDER = "/var/tmp"
"""Folder for large persistent files (FHS 3.0), on a disk; /tmp and the agent's folder may be in memory."""
PREFIX = "iolab-"
"""Prefix of all paths of volumes: the same in every run, because users write these paths in their own programs."""
MARKER = ".iolab-volumes"
"""Name of the subfolder in which labs create files, if the user names a folder."""
RUN = "/run"
"""Folder for sockets and mount points, writable only by root."""
LONGEST_SOCKET = 40
"""Maximum length of a volume's name in a socket path, which is limited to 107 bytes in total."""


def volume_folder(volume: Volume) -> str:
    """Return the folder of a volume's file; inside a folder of the user, it is a subfolder to which only labs
    write."""
    return FOLDER if volume.folder is None else f"{volume.folder}/{MARKER}"


def volume_path(lab: Lab, name: str) -> str:
    """Return the path of a volume's file on the host that contains it."""
    return f"{volume_folder(lab.volumes[name])}/{PREFIX}{name}"


def record_of(volume: str) -> str:
    """Return the file with the identity of an existing device, which the agent compares before each use."""
    return f"{RUN}/{PREFIX}{volume}.device"


def node_of(volume: str) -> str:
    """Return the device node of a volume on a machine, independent of the kernel's name of the disk."""
    return f"/dev/{PREFIX}{volume}"


def mount_of(volume: str) -> str:
    """Return the mount point of the file system on a volume."""
    return f"{RUN}/{PREFIX}{volume}.mnt"


def door_of(volume: str) -> str:
    """Return the file of a volume's user-space export, to which the loop device is attached."""
    return f"{RUN}/{PREFIX}{volume}.door"


def socket_of(volume: str, role: str) -> str:
    """Return the path of a control socket of a volume."""
    name = f"{PREFIX}{volume}"
    short = name if len(name) <= LONGEST_SOCKET else f"{name[:24]}-{sha256(name.encode()).hexdigest()[:8]}"
    return f"{RUN}/{short}.{role}"


def monitor_of(volume: str) -> str:
    """Return the monitor socket of the storage daemon that exports a volume through FUSE."""
    return socket_of(volume, "qmp")


def nbd_pid_file(volume: str) -> str:
    """Return the PID file of a volume's NBD server."""
    return f"{RUN}/{PREFIX}{volume}.qemu-nbd"


def holder_of(lab: Lab, volume: Volume) -> str:
    """Return the kernel that contains a volume."""
    return HERE if volume.on is None else kernel_of(lab, volume.on)


def in_memory(lab: Lab, volume: Volume) -> bool:
    """Whether a volume is in memory, because guests of the lab have no other writable storage."""
    kernel = holder_of(lab, volume)
    return not volume.exists and kernel != HERE and lab.machines[kernel].kind == "vm"
