"""Where a guest's hypervisor, kernel and disks are on its parent, and how it is started there.

On this computer the image is in the user's cache; to a host reached by ssh it is copied; a guest that is itself a
parent has it on its own disks.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock

from iolab.agent.client import Agent
from iolab.agent.messages import Json
from iolab.agent.ssh import SshTransport
from iolab.agent.ssh_image import Tell
from iolab.agent.transport import find_agent
from iolab.errors import UnsupportedError
from iolab.image.build import find
from iolab.image.cache import Image
from iolab.image.emulator import NEWER, Emulator, find_qemu
from iolab.lab.functions import find_function
from iolab.lab.guest import FunctionBackend, Guest
from iolab.lab.kernels import HERE
from iolab.lab.qemu import PARENTS_DISKS, Boot, Place, passed_files, qemu_argv
from iolab.lab.resources import Command, extract
from iolab.run.accel import Accelerator, find_accelerator
from iolab.run.agents import Agents
from iolab.run.domains import prepare_dom0

QEMU = "qemu-system-x86_64"
PARENT_MODULES = ("tun", "vhost_net", "macvtap", "bridge", "kvm_amd", "kvm_intel")
"""What a guest needs to be a parent; no hardware asks for these, and one of the last two does not fit."""
TRUSTED_CLOCK = ("clocksource=tsc", "tsc=reliable")
"""Below an emulated computer a guest's kernel doubts its clock, and loses time in watching it."""
NEEDS_NEWER = ("vhost-user", "igb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a guest is started on its parent."""

    argv: tuple[str, ...]
    """The hypervisor's command."""
    environment: Mapping[str, str]
    """Beside the agent's own."""
    files: tuple[Json, ...]
    """What the agent opens for it, as process.start is told."""
    channel: str
    """Socket of the guest's agent."""
    console: str
    """Socket of the serial line."""
    monitor: str
    """Socket of the monitor."""
    accel: str
    """kvm, tcg or xen."""
    version: str
    """Of the hypervisor."""
    image: str
    """Digest of the image; of a nested guest its flavour."""
    packages: str
    """Digest of the image's list of packages; empty: the parent's own."""
    nested: bool = False
    """Its parent is itself a guest."""


@dataclass(frozen=True, slots=True)
class Source:
    """What guests on one parent are started from."""

    boot: Boot
    """Kernel and disks."""
    emulator: Emulator
    """The hypervisor."""
    image: str
    """Digest of the image; of a nested guest its flavour."""
    packages: str = ""
    """Digest of its list of packages."""
    kernel: str = ""
    """Version of its kernel; empty: the parent's own."""


Find = Callable[[Guest], Source]
"""Finds what a guest on this computer is started from."""


@dataclass
class Hypervisors:
    """What starts guests on every parent."""

    agents: Agents
    """Of the parents."""
    find: Find = field(default_factory=lambda: find_here)
    """For guests on this computer."""
    probe: bool = True
    """Whether accel: auto may boot a guest to find out."""
    _probing: Lock = field(default_factory=Lock)

    def prepare(self, guest: Guest, parent: str) -> Launch:
        """Make a scratch folder for a guest and return how it is started.

        Raises:
            UnsupportedError: image or hypervisor are missing.
            Refused: the parent's agent could not make the folder.
        """
        agent = self.agents.of(parent)
        if guest.engine == "xen":
            return self._domain(agent, guest, parent)
        source = self._source(agent, guest, parent)
        accel = self.accelerator(guest, parent, source)
        folder = agent.call("folder.create", {"name": guest.name})["path"]
        program = (str(source.emulator.program), *source.emulator.arguments)
        nested = _is_guest(agent)
        steady = TRUSTED_CLOCK if accel == "kvm" and nested else ()
        place = Place(
            boot=source.boot,
            folder=folder,
            accel=accel,
            program=program,
            kernel_arguments=steady,
            functions=functions_of(agent, guest),
        )
        return Launch(
            argv=qemu_argv(guest, place),
            environment=source.emulator.environment,
            files=tuple(asdict(file) for file in passed_files(guest)),
            channel=f"{folder}/agent",
            console=f"{folder}/console",
            monitor=f"{folder}/monitor",
            accel=accel,
            version=".".join(map(str, source.emulator.version)),
            image=source.image,
            packages=source.packages,
            nested=nested,
        )

    def _source(self, agent: Agent, guest: Guest, parent: str) -> Source:
        if isinstance(agent.transport, SshTransport):
            return self._on_host(agent, agent.transport, guest, parent)
        return self.find(guest) if parent == HERE else self._nested(agent, guest, parent)

    def _domain(self, agent: Agent, guest: Guest, parent: str) -> Launch:
        """Return how a Xen domain is made: from its parent's own kernel and disks."""
        if not _is_guest(agent):
            raise UnsupportedError(
                f"starting {guest.name} on {parent or 'this computer'}: domains are made on guests of ours only, from "
                "their disks; put it on a vm with image: xen, or let a domain that exists take part as kind: host"
            )
        version = prepare_dom0(agent, parent)
        folder = agent.call("folder.create", {"name": guest.name})["path"]
        return Launch(
            argv=("xl", "create", "-q", f"{folder}/domain.cfg"),
            environment={},
            files=(),
            channel="",
            console="",
            monitor="",
            accel="xen",
            version=version,
            image=guest.image,
            packages="",
            nested=_is_guest(agent),
        )

    def _on_host(self, agent: Agent, transport: SshTransport, guest: Guest, parent: str) -> Source:
        """Return what a guest of another host is started from: its own QEMU, and our image, which is copied there."""
        image = find_image(guest.image)
        emulator = _emulator_of(agent, guest, parent, f"install the package qemu-system-x86 on {parent}")
        boot = push_image(transport, image)
        manifest = image.manifest
        return Source(boot, emulator, manifest.digest, packages_of(image), manifest.kernel_version)

    def _nested(self, agent: Agent, guest: Guest, parent: str) -> Source:
        """Return what a guest of a guest is started from: its parent's own disks."""
        agent.run(
            ("modprobe", "-a", "-q", *PARENT_MODULES)
        )  # each time: the parent may have been started anew
        emulator = _emulator_of(agent, guest, parent, "give it image: nested")
        return Source(PARENTS_DISKS, emulator, guest.image)

    def accelerator(self, guest: Guest, parent: str, source: Source) -> Accelerator:
        """Return what a guest uses: as asked, or what was found to work."""
        if guest.accel != "auto":
            return guest.accel
        if not self.probe:
            return "tcg"
        agent = self.agents.of(parent)
        facts = agent.run(("uname", "-n", "-r", "-m")).stdout.strip()
        above = agent.run(("grep", "-m1", "model name", "/proc/cpuinfo")).stdout.strip()
        identity = (facts, above, parent, ".".join(map(str, source.emulator.version)), source.kernel)
        program = (str(source.emulator.program), *source.emulator.arguments)
        with self._probing:  # guests that start together ask together
            return find_accelerator(agent, identity, program, source.boot.kernel, nested=_is_guest(agent))


def functions_of(agent: Agent, guest: Guest) -> dict[FunctionBackend, str]:
    """Return where the virtual functions are on the parent that a guest is given.

    Raises:
        UnsupportedError: one is not there.
    """
    found: dict[FunctionBackend, str] = {}
    for nic in guest.nics:
        if isinstance(nic.backend, FunctionBackend):
            reading = find_function(nic.backend.interface, nic.backend.index)
            assert isinstance(reading.source, Command)
            address = extract(reading, agent.run(reading.source.argv).stdout)
            if address is None:
                raise UnsupportedError(
                    f"looking for virtual function {nic.backend.index} of {nic.backend.interface}: it is not there"
                )
            found[nic.backend] = address
    return found


def find_here(guest: Guest) -> Source:
    """Return what a guest on this computer is started from.

    Raises:
        UnsupportedError: there is no image, or no hypervisor.
    """
    newer = any(nic.kind in NEEDS_NEWER for nic in guest.nics)
    emulator = find_qemu(NEWER) if newer else find_qemu()
    image = find_image(guest.image)
    xen = None if image.xen is None else str(image.xen)
    boot = Boot(str(image.vmlinux), str(image.initrd), str(image.root), str(image.modules), xen)
    return Source(boot, emulator, image.manifest.digest, packages_of(image), image.manifest.kernel_version)


def find_image(flavour: str) -> Image:
    """Return the image of a flavour, in this user's cache.

    Raises:
        UnsupportedError: there is none.
    """
    image = find(flavour, find_agent())
    if image is None:
        raise UnsupportedError(
            f"looking for the guest image {flavour}: it has not been built with this agent; "
            f"`iolab image build {flavour}` does it"
        )
    return image


def push_image(transport: SshTransport, image: Image, tell: Tell = lambda _: None) -> Boot:
    """Bring an image to a host unless it is there; return where it is there.

    Raises:
        AgentError: it cannot be put there.
    """
    files = [image.vmlinux, image.initrd, image.root, image.modules, *([image.xen] if image.xen else [])]
    return Boot(*transport.provide(files, tell))


def packages_of(image: Image) -> str:
    """Return the digest of an image's list of packages."""
    return hashlib.sha256("\n".join(image.packages).encode()).hexdigest()


def _is_guest(agent: Agent) -> bool:
    """Tell whether an agent is the init of a guest of ours."""
    return "machine" in agent.hello.capabilities


def _emulator_of(agent: Agent, guest: Guest, parent: str, advice: str) -> Emulator:
    """Return the QEMU that a parent has.

    Raises:
        UnsupportedError: it has none.
    """
    shown = agent.run((QEMU, "--version")).stdout
    words = shown.partition(" version ")[2].split()
    if not words:
        raise UnsupportedError(f"starting {guest.name} on {parent}: {parent} has no {QEMU}; {advice}")
    major, minor = (int(number) for number in words[0].split(".")[:2])
    return Emulator(Path(QEMU), (major, minor))
