"""The configuration of a guest that is a Xen domain: the file for `xl create` and its scripts. Pure.

The agent of the domain communicates through its console.
"""

from iolab.lab.guests.guest import Guest, TapBackend
from iolab.lab.guests.qemu import Boot, linux_arguments

CONSOLE = "/dev/hvc0"
"""The domain's console, which is the channel of its agent."""
CONFIG, VIF, DISK = "domain.cfg", "vif", "disk"
"""Files in the folder of a domain: the configuration, and the scripts that the toolstack runs for each NIC and disk."""
VIF_SCRIPT = """#!/bin/sh
[ "$1" = online ] || exit 0
ip link set dev "$vif" name "$(xenstore-read "$XENBUS_PATH/vifname")" || exit
exec xenstore-write "$XENBUS_PATH/hotplug-status" connected
"""
"""Script that only renames the parent's interface of a NIC. The distribution's script also handles bridges and
firewalls, with so many processes that a busy emulated Dom0 exceeds libxl's time limit of 40 s."""
DISK_SCRIPT = """#!/bin/sh
{ read -r disk; read -r mode; } <<END
$(xenstore-read "$XENBUS_PATH/params" "$XENBUS_PATH/mode")
END
if [ "$1" = add ]; then
  only=; [ "$mode" = r ] && only=--read-only
  [ -b "$disk" ] || disk=$(losetup --find --show $only "$disk") || exit
  exec xenstore-write "$XENBUS_PATH/node" "$disk" \
    "$XENBUS_PATH/physical-device" "$(stat -L -c %t:%T "$disk")" "$XENBUS_PATH/hotplug-status" connected
fi
[ -b "$disk" ] || exec losetup --detach "$(xenstore-read "$XENBUS_PATH/node")"
"""
"""Script that reports a block device to the backend: a block device of the parent, or a loop device that exists as long
as the domain. The distribution's script also checks for other users of the device; it starts a hundred processes, which
takes half a minute under emulation."""

LOAD = (
    *("modprobe", "-a", "-q", "xen-evtchn", "xen-gntdev", "xen-gntalloc", "xen-privcmd", "xen-netback"),
    *("xen-blkback", "bridge", "loop"),
)
"""Kernel modules that a Dom0 needs."""
MOUNT = ("mount", "-t", "tmpfs", "-o", "mode=0700,exec,size=64k", "iolab")
"""Command that mounts a file system for executable scripts, because many hosts mount /run with noexec."""
WRITE = 'printf %s "$1" >"$0" && chmod 700 "$0"'
DESTROY = 'xl domid "$0" >/dev/null 2>&1 || exit 0; exec xl destroy "$0"'
"""Command that destroys a domain; harmless if the domain does not exist."""
SERVICES = (
    "for bin in /usr/lib/xen-*/bin; do PATH=$bin:$PATH; done; "
    "mkdir -p /run/xen /var/lib/xenstored /var/log/xen || exit; "
    "pgrep -x xenstored >/dev/null || xenstored --pid-file /run/xen/xenstored.pid || exit; "
    "xenstore-read /local/domain/0/domid >/dev/null 2>&1 || xen-init-dom0 || exit; "
    "pgrep -x xenconsoled >/dev/null || xenconsoled --pid-file=/run/xen/xenconsoled.pid"
)
"""Xen services that an installed Dom0 starts at boot; in a guest of the lab, iolab starts them, and they stop with
the guest."""
ONE_BY_ONE = ("flock", "--close", "/run/xen-services.lock")
"""Lock that prevents parallel domain starts from starting the services several times."""
CREATE = ("xl", "create", "-q")
"""Command that creates a domain; the path of the configuration file follows."""


def xl_config(guest: Guest, folder: str, boot: Boot) -> str:
    """Return the configuration of a paravirtual domain, which is not restarted after it stops.

    `folder` contains the scripts on the parent.
    """
    arguments = linux_arguments(guest, "/dev/xvda", "/dev/xvdb", f"iolab.channel={CONSOLE}")
    paths = [(boot.root, "ro"), (boot.modules, "ro"), *((disk.path, "rw") for disk in guest.disks)]
    disks = [
        f"vdev=xvd{chr(ord('a') + number)},access={access},script={folder}/{DISK},target={path}"
        for number, (path, access) in enumerate(paths)
    ]
    cards = []
    for nic in guest.nics:
        assert isinstance(nic.backend, TapBackend)
        cards.append(f"mac={nic.mac},vifname={nic.backend.interface},script={folder}/{VIF}")
    lines = [
        f"name = {_quoted(guest.name)}",
        'type = "pv"',
        f"kernel = {_quoted(boot.kernel)}",
        f"ramdisk = {_quoted(boot.initrd)}",
        f"memory = {guest.memory_bytes >> 20}",
        f"vcpus = {guest.cpus}",
        *([f"cpus = {_listed([str(cpu) for cpu in guest.own_cpus])}"] if guest.own_cpus else []),
        f"disk = {_listed(disks)}",
        f"vif = {_listed(cards)}",
        f"extra = {_quoted(f'console=hvc0 {arguments}')}",
        *(f'on_{event} = "destroy"' for event in ("poweroff", "reboot", "crash")),
    ]
    return "\n".join(lines) + "\n"


def _listed(items: list[str]) -> str:
    return f"[ {', '.join(_quoted(item) for item in items)} ]"


def _quoted(text: str) -> str:
    return f'"{text}"'


def dom0_commands(*, nested: bool) -> list[tuple[str, ...]]:
    """Return the commands that prepare a Dom0.

    `nested` is set if the Dom0 is a guest of the lab, in which Xen's services are not running yet.
    """
    return [LOAD, *([(*ONE_BY_ONE, "sh", "-c", SERVICES)] if nested else [])]


def domain_commands(
    name: str, argv: tuple[str, ...], configuration: str
) -> list[tuple[tuple[str, ...], tuple[str, ...] | None]]:
    """Return the commands that create a domain, each with its undo; the last one is `argv`."""
    folder = argv[-1].rpartition("/")[0]
    files = {argv[-1]: configuration, f"{folder}/{VIF}": VIF_SCRIPT, f"{folder}/{DISK}": DISK_SCRIPT}
    return [
        ((*MOUNT, folder), ("umount", folder)),
        *((("sh", "-c", WRITE, file, text), None) for file, text in files.items()),
        (argv, ("sh", "-c", DESTROY, name)),
    ]
