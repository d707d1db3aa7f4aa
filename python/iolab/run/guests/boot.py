"""Boot files and accelerator of guests on any parent: kernel, initial RAM file system, disks.

On the local host, the image is in the user's cache; the image is copied to hosts reached through ssh; a parent guest
has the image on its own disks. Virtual machines and Xen domains use the same files.

The accelerator is determined by booting a test guest, because /dev/kvm may exist without working. The result is stored
in the user's cache folder, with the conditions under which it is valid.
"""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from iolab.agent.client import Agent, Refused
from iolab.agent.messages import Json
from iolab.agent.ssh import SshTransport
from iolab.agent.ssh_files import Tell
from iolab.agent.transport import find_agent
from iolab.errors import UnsupportedError
from iolab.experiment.experiment import Experiment, Lab
from iolab.experiment.model.machines import Vm
from iolab.files import cache_folder, write_whole
from iolab.image.build import find
from iolab.image.cache import Image
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.qemu import PARENTS_DISKS, Boot
from iolab.lab.guests.vm import image_of
from iolab.lab.kernels import HERE, parent_kernel
from iolab.locale import Phrase, Text
from iolab.plan.commands import Labs
from iolab.plan.types import Plan
from iolab.run.agents import Agents
from iolab.run.hosts.hosts import together

Accelerator = Literal["kvm", "tcg"]
PROBE_TIMEOUT_MS = 15_000
"""Time limit of the test boot; with KVM the kernel finishes booting in a second unless it hangs."""
PATIENT_TIMEOUT_MS = 60_000
"""Time limit of a second attempt after a time-out, because a busy host may provide only a tenth of a CPU."""
NESTED_TIMEOUT_MS = 120_000
"""Time limit of a test boot inside an emulated machine: it takes 8 s on an idle host, and more than a minute on a very
busy one."""
REACHED = ("VFS: Unable to mount root fs", "Kernel panic", "No working init found")
"""Messages of a kernel without a disk at the end of its boot, after every step in which an accelerator could fail."""
NODE = "/dev/kvm"
BROKEN = "KVM internal error"
"""Message of QEMU if the kernel's KVM cannot run a guest; QEMU then hangs."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of a test boot with KVM."""

    boots: bool | None
    """Whether the guest booted; None: unknown, because the guest neither booted nor failed within the time limit."""
    seen: Text = ""
    """Reason why the boot failed."""


@dataclass(frozen=True, slots=True)
class Source:
    """The boot files of a guest."""

    boot: Boot
    """Kernel and disks, as paths on the guest's parent."""
    image: str
    """Digest of the image; for a nested guest its flavour."""
    packages: tuple[str, ...] = ()
    """Packages in the image as name=version; empty: the same as in the parent's image."""
    kernel: str = ""
    """Version of the kernel; empty: the version in the parent's image."""


Find = Callable[[Guest], Source]
"""Function that finds the boot files of a guest on the local host."""


def source_of(agent: Agent, guest: Guest, parent: str, find_here: Find) -> Source:
    """Return the boot files of a guest on a parent, whose agent is given.

    Raises:
        UnsupportedError: there is no image.
        AgentError: the image cannot be copied to the parent.
    """
    if isinstance(agent.transport, SshTransport):
        image = find_image(guest.image)
        return _source(push_image(agent.transport, image), image)
    return find_here(guest) if parent == HERE else Source(PARENTS_DISKS, guest.image)


def find_here(guest: Guest) -> Source:
    """Return the boot files of a guest on the local host.

    Raises:
        UnsupportedError: there is no image.
    """
    image = find_image(guest.image)
    xen = None if image.xen is None else str(image.xen)
    boot = Boot(str(image.vmlinux), str(image.initrd), str(image.root), str(image.modules), xen)
    return _source(boot, image)


def find_image(flavour: str) -> Image:
    """Return the image of a flavour in the user's cache.

    Raises:
        UnsupportedError: there is no image of this flavour.
    """
    image = find(flavour, find_agent())
    if image is None:
        raise UnsupportedError(Phrase("run.guest-image-not-built", flavour=flavour))
    image.mark_used()
    return image


def push_image(transport: SshTransport, image: Image, tell: Tell = lambda _: None) -> Boot:
    """Copy an image to a host if it is missing there; return its path on the host.

    Raises:
        AgentError: the image cannot be copied.
    """
    files = [image.vmlinux, image.initrd, image.root, image.modules, *([image.xen] if image.xen else [])]
    return Boot(*transport.provide(files, tell))


def _source(boot: Boot, image: Image) -> Source:
    return Source(boot, image.manifest.digest, image.packages, image.manifest.kernel_version)


def find_accelerator(
    agent: Agent, identity: tuple[str, ...], qemu: tuple[str, ...], kernel: str, *, nested: bool = False
) -> tuple[Accelerator | None, Text]:
    """Return the accelerator for guests on the agent's kernel, and the reason if this is not KVM; None: unknown.

    `identity` has the conditions under which the result is valid. A failed or timed-out boot is repeated once, because
    a boot may fail on a busy host although KVM works.
    """
    known = _stored()
    key = "|".join(identity)
    if known.get(key) in ("kvm", "tcg"):
        return ("kvm", "") if known[key] == "kvm" else ("tcg", Phrase("run.kvm-broken-earlier", seen=BROKEN))
    for timeout_ms in (NESTED_TIMEOUT_MS,) * 2 if nested else (PROBE_TIMEOUT_MS, PATIENT_TIMEOUT_MS):
        probe = boot_with_kvm(agent, qemu, kernel, timeout_ms)
        if probe.boots:
            break
    if probe.boots is None:
        return None, probe.seen
    found: Accelerator = "kvm" if probe.boots else "tcg"
    # Other obstacles to KVM (rights, memory, start options of a parent) are detected quickly and may change, so they
    # are not stored.
    if probe.boots or (probe.seen == BROKEN and not nested):
        _store({**_stored(), key: found})
    return found, probe.seen


def boot_with_kvm(
    agent: Agent, qemu: tuple[str, ...], kernel: str, timeout_ms: int = PROBE_TIMEOUT_MS
) -> Probe:
    """Boot a kernel with KVM to its end, and return the result."""
    node = agent.run(("test", "-c", NODE))
    if node.exit_status != 0:
        absent = node.exit_status == 1 and not node.timed_out
        return (
            Probe(False, Phrase("run.kvm-node-absent", node=NODE))
            if absent
            else Probe(None, Phrase("run.looking-for-node", node=NODE, reason=node.complaint))
        )
    argv = (
        *qemu,
        *("-accel", "kvm", "-machine", "q35", "-cpu", "host", "-m", "256M", "-nodefaults", "-no-user-config"),
        *("-display", "none", "-no-reboot", "-serial", "stdio", "-kernel", kernel),
        *("-append", "console=ttyS0 panic=-1 nokaslr mitigations=off clocksource=tsc tsc=reliable"),
    )
    try:
        ran = agent.run(argv, timeout_ms=timeout_ms)
    except Refused as error:
        return Probe(None, str(error))
    if any(words in ran.stdout for words in REACHED):
        return Probe(True)
    if BROKEN in ran.stderr:
        return Probe(False, BROKEN)
    if ran.timed_out:
        return Probe(None, Phrase("run.boot-not-over", seconds=timeout_ms // 1000))
    if ran.signal is not None:
        return Probe(None, Phrase("run.qemu-ended-by-signal", signal=ran.signal))
    said = ran.stderr.strip()[-200:]
    return Probe(False, f"QEMU: {said}" if said else Phrase("run.boot-ended-silently"))


def place() -> Path:
    """Return the path of the stored results (XDG base directories)."""
    return cache_folder() / "accelerators.json"


def _stored() -> dict[str, Json]:
    try:
        found = json.loads(place().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _store(found: dict[str, Json]) -> None:
    """Store results; if they cannot be stored, the next run tests again."""
    with contextlib.suppress(OSError):
        place().parent.mkdir(parents=True, exist_ok=True)
        write_whole(place(), json.dumps(found, indent=1))


def provide_images(agents: Agents, experiment: Experiment, plan: Plan, tell: Tell) -> None:
    """Copy the images for guests on other hosts, to all hosts in parallel.

    Raises:
        UnsupportedError: an image is not built.
        AgentError: a host has too little space, or the connection is lost.
    """
    if all(kernel == HERE for kernel in agents):
        return
    wanted = images_on_hosts(Labs(experiment, plan))

    def provide(host: str) -> None:
        transport = agents.of(host).transport
        if isinstance(transport, SshTransport):
            for flavour in sorted(wanted[host]):
                push_image(transport, find_image(flavour), tell)

    for done in together(provide, list(wanted)).values():
        if isinstance(done, Exception):
            raise done


def images_on_hosts(labs: Labs) -> dict[str, set[str]]:
    """Return the flavours of the images that guests on remote hosts need, by machine."""
    found: dict[str, set[str]] = {}
    for lab in labs.each(labs.plan.steps):
        for host, flavour in _images_in(lab):
            found.setdefault(host, set()).add(flavour)
    return found


def _images_in(lab: Lab) -> set[tuple[str, str]]:
    guests = (name for name, machine in lab.machines.items() if isinstance(machine, Vm))
    places = {(parent_kernel(lab, name), image_of(lab, name)) for name in guests}
    return {(host, flavour) for host, flavour in places if host != HERE and lab.machines[host].kind == "host"}
