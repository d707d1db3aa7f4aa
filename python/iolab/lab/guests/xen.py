"""A guest as a Xen domain: the text that `xl create` reads, and the scripts it names. Pure: nothing is looked for.

Its agent speaks over its console.
"""

from iolab.lab.guests.guest import Guest, TapBackend
from iolab.lab.guests.qemu import Boot, linux_arguments

CONSOLE = "/dev/hvc0"
"""The domain's console, which is its agent's channel."""
CONFIG, VIF, DISK = "domain.cfg", "vif", "disk"
"""Files in the folder of a domain: what `xl create` reads, and what the toolstack runs for each card and disk."""
VIF_SCRIPT = """#!/bin/sh
[ "$1" = online ] || exit 0
ip link set dev "$vif" name "$(xenstore-read "$XENBUS_PATH/vifname")" || exit
exec xenstore-write "$XENBUS_PATH/hotplug-status" connected
"""
"""Names the parent's side of a card, which is all that is left to do. The distribution's script looks for bridges and
firewalls besides, in so many processes that a busy emulated Dom0 overruns the 40 s that libxl gives it."""
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
"""Names a block device to the backend: the parent's, or a loop device that a file has while the domain lives. The
distribution's script also looks whether another domain uses it, in a hundred processes: half a minute under
emulation."""

LOAD = (
    *("modprobe", "-a", "-q", "xen-evtchn", "xen-gntdev", "xen-gntalloc", "xen-privcmd", "xen-netback"),
    *("xen-blkback", "bridge", "loop"),
)
"""What a Dom0 needs of its kernel, besides."""
MOUNT = ("mount", "-t", "tmpfs", "-o", "mode=0700,exec,size=64k", "iolab")
"""Scripts are run from it: on many hosts nothing may be run from below /run."""
WRITE = 'printf %s "$1" >"$0" && chmod 700 "$0"'
DESTROY = 'xl domid "$0" >/dev/null 2>&1 || exit 0; exec xl destroy "$0"'
"""Harmless where there is no such domain."""
SERVICES = (
    "for bin in /usr/lib/xen-*/bin; do PATH=$bin:$PATH; done; "
    "mkdir -p /run/xen /var/lib/xenstored /var/log/xen || exit; "
    "pgrep -x xenstored >/dev/null || xenstored --pid-file /run/xen/xenstored.pid || exit; "
    "xenstore-read /local/domain/0/domid >/dev/null 2>&1 || xen-init-dom0 || exit; "
    "pgrep -x xenconsoled >/dev/null || xenconsoled --pid-file=/run/xen/xenconsoled.pid"
)
"""What an installed Dom0 starts by itself, and a guest of ours does not; they end with it."""
ONE_BY_ONE = ("flock", "--close", "/run/xen-services.lock")
"""Domains that start together would each start them."""
CREATE = ("xl", "create", "-q")
"""Makes a domain; the file of its configuration follows."""


def xl_config(guest: Guest, folder: str, boot: Boot) -> str:
    """Return the configuration of a paravirtual domain; however it ends, it does not come back.

    `folder` is where the scripts lie on the parent.
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
    """Return what makes a Dom0 ready; `nested`: it is a guest of ours, which has not started Xen's services."""
    return [LOAD, *([(*ONE_BY_ONE, "sh", "-c", SERVICES)] if nested else [])]


def domain_commands(
    name: str, argv: tuple[str, ...], configuration: str
) -> list[tuple[tuple[str, ...], tuple[str, ...] | None]]:
    """Return the commands that make a domain, each with its undo; the last one is `argv`."""
    folder = argv[-1].rpartition("/")[0]
    files = {argv[-1]: configuration, f"{folder}/{VIF}": VIF_SCRIPT, f"{folder}/{DISK}": DISK_SCRIPT}
    return [
        ((*MOUNT, folder), ("umount", folder)),
        *((("sh", "-c", WRITE, file, text), None) for file, text in files.items()),
        (argv, ("sh", "-c", DESTROY, name)),
    ]
