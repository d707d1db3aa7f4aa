"""How a guest is started on its parent: which hypervisor, and its words. boot_sources.py finds what it starts from."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock

from iolab.agent.client import Agent
from iolab.agent.messages import FolderMade, Json
from iolab.errors import UnsupportedError
from iolab.image.emulator import NEWER, Emulator, find_qemu
from iolab.lab.actions import Command, extract
from iolab.lab.guests.guest import FunctionBackend, Guest, passed_files
from iolab.lab.guests.qemu import Place, qemu_argv
from iolab.lab.guests.start import PARENT_COMMAND, OwnUser, own_user_of
from iolab.lab.guests.xen import CONFIG, CREATE, xl_config
from iolab.lab.kernels import HERE
from iolab.lab.links.sriov import find_function
from iolab.locale import Phrase, Text
from iolab.registry.nics import NICS
from iolab.run.agents import Agents
from iolab.run.guests.boot import Accelerator, Find, Source, find_accelerator, find_here, source_of
from iolab.run.guests.xen_domains import is_guest, prepare_dom0

QEMU = "qemu-system-x86_64"
MODULES_TIMEOUT_MS = 180_000
"""A second on a calm computer, under emulation ten, on a busy one many times as long."""
TRUSTED_CLOCK = ("clocksource=tsc", "tsc=reliable")
"""Below an emulated computer a guest's kernel doubts its clock, and loses time in watching it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a guest is started on its parent."""

    argv: tuple[str, ...]
    """The hypervisor's command, or the toolstack's."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Beside the agent's own."""
    files: tuple[Json, ...] = ()
    """What the agent opens for it, for process.start."""
    own_user: OwnUser | None = None
    """With what it runs as a user of its own; None: as root."""
    configuration: str = ""
    """Of a domain: what is in the file that the command names."""
    folder: str
    """Its scratch folder."""
    channel: str = ""
    """Socket of the guest's agent; a domain has none of these: its agent is behind its console."""
    console: str = ""
    """Socket of the serial line."""
    monitor: str = ""
    """Socket of the monitor."""
    accel: str
    """kvm, tcg or xen."""
    untold: Text = ""
    """Why it is not known whether KVM works there, where a boot did not show it."""
    version: str
    """Of the hypervisor."""
    image: str
    """Digest of the image; of a nested guest its flavour."""
    packages: tuple[str, ...]
    """Those of the image as name=version; empty: the parent's own."""
    nested: bool = False
    """Its parent is itself a guest."""


FindEmulator = Callable[[Guest], Emulator]
"""Finds the QEMU of a guest on this computer."""


@dataclass
class Hypervisors:
    """What starts guests on every parent."""

    agents: Agents
    """Of the parents."""
    find: Find = field(default_factory=lambda: find_here)
    """For guests on this computer."""
    emulator: FindEmulator = field(default_factory=lambda: find_emulator)
    """Likewise."""
    probe: bool = True
    """Whether a guest may be booted to find out what works."""
    _probing: Lock = field(default_factory=Lock)

    def prepare(self, guest: Guest, parent: str) -> Launch:
        """Make a scratch folder for a guest and return how it is started.

        Raises:
            UnsupportedError: image or hypervisor are missing.
            Refused: the parent's agent could not make the folder.
        """
        agent = self.agents.of(parent)
        prepare = self._domain if guest.engine == "xen" else self._machine
        return prepare(agent, guest, parent)

    def _machine(self, agent: Agent, guest: Guest, parent: str) -> Launch:
        """Return how QEMU is started."""
        source = source_of(agent, guest, parent, self.find)
        emulator = self._emulator(agent, guest, parent)
        accel, untold = self.accelerator(guest, parent, source, emulator)
        folder = agent.ask(FolderMade, "folder.create", {"name": guest.name}).path
        nested = is_guest(agent)
        steady = TRUSTED_CLOCK if accel == "kvm" and nested else ()
        place = Place(
            boot=source.boot,
            folder=folder,
            accel=accel,
            program=_program(emulator),
            program_files=emulator.files,
            kernel_arguments=steady,
            functions=functions_of(agent, guest),
        )
        return Launch(
            argv=qemu_argv(guest, place),
            environment=emulator.environment,
            files=tuple(asdict(file) for file in passed_files(guest)),
            own_user=own_user_of(guest, place),
            folder=folder,
            channel=f"{folder}/agent",
            console=f"{folder}/console",
            monitor=f"{folder}/monitor",
            accel=accel,
            untold=untold,
            version=".".join(map(str, emulator.version)),
            image=source.image,
            packages=source.packages,
            nested=nested,
        )

    def _domain(self, agent: Agent, guest: Guest, parent: str) -> Launch:
        """Return how a Xen domain is made."""
        version = prepare_dom0(agent, parent)
        source = source_of(agent, guest, parent, self.find)
        folder = agent.ask(FolderMade, "folder.create", {"name": guest.name}).path
        return Launch(
            argv=(*CREATE, f"{folder}/{CONFIG}"),
            configuration=xl_config(guest, folder, source.boot),
            folder=folder,
            accel="xen",
            version=version,
            image=source.image,
            packages=source.packages,
            nested=is_guest(agent),
        )

    def _emulator(self, agent: Agent, guest: Guest, parent: str) -> Emulator:
        """Return the QEMU that a guest is started with: on other kernels than this computer's their own."""
        if parent == HERE:
            return self.emulator(guest)
        if not is_guest(agent):
            return _emulator_of(agent, guest, parent, Phrase("run.install-qemu-on-parent", parent=parent))
        # Each time: the parent may have been started again.
        loaded = agent.run(PARENT_COMMAND, timeout_ms=MODULES_TIMEOUT_MS)
        if loaded.timed_out:
            raise UnsupportedError(
                Phrase("run.modules-not-loaded", parent=parent, seconds=MODULES_TIMEOUT_MS // 1000)
            )
        return _emulator_of(agent, guest, parent, Phrase("run.give-nested-image"))

    def accelerator(
        self, guest: Guest, parent: str, source: Source, emulator: Emulator
    ) -> tuple[Accelerator, Text]:
        """Return what a guest uses: what was found to work, as far as the experiment leaves it open.

        The second is why it is not known what works, where no boot showed it.

        Raises:
            UnsupportedError: it asks for KVM where no kernel boots with it.
        """
        if guest.accel == "tcg" or not self.probe:
            return ("kvm" if guest.accel == "kvm" else "tcg"), ""
        found, why = self._found(parent, source, emulator)
        untold = why if found is None else ""
        if guest.accel == "auto":
            return found or "tcg", untold
        if found == "tcg":
            where = parent or Phrase("run.this-computer")
            raise UnsupportedError(Phrase("run.no-kernel-boots-with-kvm", where=where, why=why))
        return "kvm", untold

    def _found(self, parent: str, source: Source, emulator: Emulator) -> tuple[Accelerator | None, Text]:
        agent = self.agents.of(parent)
        facts = agent.run(("uname", "-n", "-r", "-m")).stdout.strip()
        above = agent.run(("grep", "-m1", "model name", "/proc/cpuinfo")).stdout.strip()
        identity = (facts, above, parent, ".".join(map(str, emulator.version)), source.kernel)
        with self._probing:  # guests that start together ask together
            return find_accelerator(
                agent, identity, _program(emulator), source.boot.kernel, nested=is_guest(agent)
            )


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
                    Phrase(
                        "run.virtual-function-absent",
                        index=nic.backend.index,
                        interface=nic.backend.interface,
                    )
                )
            found[nic.backend] = address
    return found


def find_emulator(guest: Guest) -> Emulator:
    """Return the QEMU of a guest on this computer.

    Raises:
        UnsupportedError: there is none.
    """
    newer = any(NICS[nic.kind].newer_qemu for nic in guest.nics)
    return find_qemu(NEWER) if newer else find_qemu()


def _program(emulator: Emulator) -> tuple[str, ...]:
    return (str(emulator.program), *emulator.arguments)


def _emulator_of(agent: Agent, guest: Guest, parent: str, advice: Text) -> Emulator:
    """Return the QEMU that a parent has.

    Raises:
        UnsupportedError: it has none.
    """
    shown = agent.run((QEMU, "--version")).stdout
    words = shown.partition(" version ")[2].split()
    if not words:
        raise UnsupportedError(
            Phrase("run.parent-without-qemu", guest=guest.name, parent=parent, qemu=QEMU, advice=advice)
        )
    numbers = words[0].split(".")[:2]
    if len(numbers) < 2 or not all(number.isdecimal() for number in numbers):
        raise UnsupportedError(
            Phrase(
                "run.qemu-version-unreadable",
                guest=guest.name,
                parent=parent,
                qemu=QEMU,
                version=repr(words[0][:80]),
            )
        )
    major, minor = map(int, numbers)
    newer = [nic.kind for nic in guest.nics if NICS[nic.kind].newer_qemu]
    if newer and (major, minor) < NEWER:
        wanted = Phrase("run.nic-needs-newer-qemu", nic=newer[0], version=".".join(map(str, NEWER)))
        raise UnsupportedError(
            Phrase(
                "run.parent-qemu-too-old", guest=guest.name, parent=parent, wanted=wanted, version=words[0]
            )
        )
    return Emulator(Path(QEMU), (major, minor))
