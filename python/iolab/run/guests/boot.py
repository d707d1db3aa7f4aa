"""How guests boot, wherever their parent is: from which kernel, first stage and disks, and with which accelerator.

On this computer the image is in the user's cache; to a host reached by ssh it is copied; a guest that is itself a
parent has it on its own disks. The same holds for virtual machines and Xen domains.

The accelerator is found by really booting a guest, because a KVM node may exist and not work. The finding is kept in
the user's cache folder, by what it depends on.
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
"""With KVM the kernel comes to the end of its boot in a second; one that hangs has none."""
PATIENT_TIMEOUT_MS = 60_000
"""A boot that ran out of time is tried once more with this: a busy computer gives it a tenth of a CPU."""
NESTED_TIMEOUT_MS = 120_000
"""Below an emulated computer it takes 8 s on a calm host, on a very busy one over a minute."""
REACHED = ("VFS: Unable to mount root fs", "Kernel panic", "No working init found")
"""What a kernel without a disk says at the end of its boot, beyond all that an accelerator could break."""
NODE = "/dev/kvm"
BROKEN = "KVM internal error"
"""What QEMU says when the kernel's KVM cannot run a guest after all; it then stands still."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a boot with KVM showed."""

    boots: bool | None
    """None: nothing, it neither ended nor failed in time."""
    seen: Text = ""
    """Of a boot that failed: in words, why."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a guest is started from."""

    boot: Boot
    """Kernel and disks, as paths on its parent."""
    image: str
    """Digest of the image; of a nested guest its flavour."""
    packages: tuple[str, ...] = ()
    """Its packages as name=version; empty: the parent's own."""
    kernel: str = ""
    """Version of its kernel; empty: the parent's own."""


Find = Callable[[Guest], Source]
"""Finds what a guest on this computer is started from."""


def source_of(agent: Agent, guest: Guest, parent: str, find_here: Find) -> Source:
    """Return what a guest of a parent, whose agent is given, is started from.

    Raises:
        UnsupportedError: there is no image.
        AgentError: it cannot be copied to the parent.
    """
    if isinstance(agent.transport, SshTransport):
        image = find_image(guest.image)
        return _source(push_image(agent.transport, image), image)
    return find_here(guest) if parent == HERE else Source(PARENTS_DISKS, guest.image)


def find_here(guest: Guest) -> Source:
    """Return what a guest on this computer is started from.

    Raises:
        UnsupportedError: there is no image.
    """
    image = find_image(guest.image)
    xen = None if image.xen is None else str(image.xen)
    boot = Boot(str(image.vmlinux), str(image.initrd), str(image.root), str(image.modules), xen)
    return _source(boot, image)


def find_image(flavour: str) -> Image:
    """Return the image of a flavour, in this user's cache.

    Raises:
        UnsupportedError: there is none.
    """
    image = find(flavour, find_agent())
    if image is None:
        raise UnsupportedError(Phrase("run.guest-image-not-built", flavour=flavour))
    image.mark_used()
    return image


def push_image(transport: SshTransport, image: Image, tell: Tell = lambda _: None) -> Boot:
    """Bring an image to a host unless it is there; return where it is there.

    Raises:
        AgentError: it cannot be put there.
    """
    files = [image.vmlinux, image.initrd, image.root, image.modules, *([image.xen] if image.xen else [])]
    return Boot(*transport.provide(files, tell))


def _source(boot: Boot, image: Image) -> Source:
    return Source(boot, image.manifest.digest, image.packages, image.manifest.kernel_version)


def find_accelerator(
    agent: Agent, identity: tuple[str, ...], qemu: tuple[str, ...], kernel: str, *, nested: bool = False
) -> tuple[Accelerator | None, Text]:
    """Return what guests on the agent's kernel can use, and why it is not KVM; None: no boot showed it.

    `identity` is what the finding depends on. A boot that fails or runs out of time is tried once more: on a busy
    computer one may fail that works.
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
    # What else prevents KVM is seen again in no time, and may change: rights, memory, how a parent was started.
    if probe.boots or (probe.seen == BROKEN and not nested):
        _store({**_stored(), key: found})
    return found, probe.seen


def boot_with_kvm(
    agent: Agent, qemu: tuple[str, ...], kernel: str, timeout_ms: int = PROBE_TIMEOUT_MS
) -> Probe:
    """Boot a kernel to its end with KVM, and return what that showed."""
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
    """Return where findings lie (XDG base directories)."""
    return cache_folder() / "accelerators.json"


def _stored() -> dict[str, Json]:
    try:
        found = json.loads(place().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _store(found: dict[str, Json]) -> None:
    """Keep findings; where that cannot be, the next run finds them again."""
    with contextlib.suppress(OSError):
        place().parent.mkdir(parents=True, exist_ok=True)
        write_whole(place(), json.dumps(found, indent=1))


def provide_images(agents: Agents, experiment: Experiment, plan: Plan, tell: Tell) -> None:
    """Copy the images that guests on other hosts are started from, to all hosts at the same time.

    Raises:
        UnsupportedError: an image is not built.
        AgentError: there is no room, or the connection is gone.
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
    """Return, for each machine that is another host, the flavours of image that guests on it need."""
    found: dict[str, set[str]] = {}
    for lab in labs.each(labs.plan.steps):
        for host, flavour in _images_in(lab):
            found.setdefault(host, set()).add(flavour)
    return found


def _images_in(lab: Lab) -> set[tuple[str, str]]:
    guests = (name for name, machine in lab.machines.items() if isinstance(machine, Vm))
    places = {(parent_kernel(lab, name), image_of(lab, name)) for name in guests}
    return {(host, flavour) for host, flavour in places if host != HERE and lab.machines[host].kind == "host"}
