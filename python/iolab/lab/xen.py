"""A guest as a Xen domain: the text that `xl create` reads. Pure: nothing is looked for.

A domain is started from its parent's own kernel and disks; its agent speaks over the console.
"""

from iolab.lab.guest import Guest, TapBackend
from iolab.lab.qemu import PARENTS_DISKS, Boot, linux_arguments

CONSOLE = "/dev/hvc0"
"""The domain's console, which is its agent's channel."""
VIF_SCRIPT = """#!/bin/sh
[ "$1" = online ] || exit 0
ip link set dev "$vif" name "$(xenstore-read "$XENBUS_PATH/vifname")" || exit
exec xenstore-write "$XENBUS_PATH/hotplug-status" connected
"""
"""Names the parent's side of a card, which is all that is left to do. The distribution's script looks for bridges and
firewalls besides, in so many processes that a busy emulated Dom0 overruns the 40 s that libxl gives it."""


def xl_config(guest: Guest, script: str, boot: Boot = PARENTS_DISKS) -> str:
    """Return the configuration of a paravirtual domain; however it ends, it does not come back.

    `script` is where `VIF_SCRIPT` lies on the parent; the toolstack runs it for each card.
    """
    arguments = linux_arguments(guest, "/dev/xvda", "/dev/xvdb", f"iolab.channel={CONSOLE}")
    disks = [f"phy:{boot.root},xvda,r", f"phy:{boot.modules},xvdb,r"]
    disks += [
        f"{_scheme(disk.path)}:{disk.path},xvd{chr(ord('c') + number)},w"
        for number, disk in enumerate(guest.disks)
    ]
    cards = []
    for nic in guest.nics:
        assert isinstance(nic.backend, TapBackend)
        cards.append(f"mac={nic.mac},vifname={nic.backend.interface},script={script}")
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


def _scheme(path: str) -> str:
    return "phy" if path.startswith("/dev/") else "file"


def _listed(items: list[str]) -> str:
    return f"[ {', '.join(_quoted(item) for item in items)} ]"


def _quoted(text: str) -> str:
    return f'"{text}"'
