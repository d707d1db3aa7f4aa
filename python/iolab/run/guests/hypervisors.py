"""Determine the hypervisor of a guest on its parent, and its command line; boot.py has the boot files."""

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
"""Time limit for loading modules, which takes a second on an idle host, ten under emulation, and far longer on a busy
host."""
TRUSTED_CLOCK = ("clocksource=tsc", "tsc=reliable")
"""Kernel arguments that make a guest trust the TSC: inside an emulated machine, its kernel would distrust the TSC and
lose time with the clock watchdog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The start parameters of a guest on its parent."""

    argv: tuple[str, ...]
    """Command of the hypervisor or of its toolstack."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables."""
    files: tuple[Json, ...] = ()
    """Files that the agent opens for the hypervisor, as in the request process.start."""
    own_user: OwnUser | None = None
    """Dedicated user of the hypervisor; None: root."""
    configuration: str = ""
    """Content of the configuration file that a Xen domain's command names; a QEMU guest has none."""
    folder: str
    """Scratch folder of the guest."""
    channel: str = ""
    """Socket of the guest's agent; empty for a domain, whose agent uses its console."""
    console: str = ""
    """Socket of the serial line."""
    monitor: str = ""
    """Socket of the monitor."""
    accel: str
    """kvm, tcg or xen."""
    untold: Text = ""
    """Reason why it is unknown whether KVM works; empty unless a test boot gave no result."""
    version: str
    """Version of the hypervisor."""
    image: str
    """Digest of the image; for a nested guest its flavour."""
    packages: tuple[str, ...]
    """Packages in the image as name=version; empty: the same as in the parent's image."""
    nested: bool = False
    """Whether the parent is itself a guest."""


FindEmulator = Callable[[Guest], Emulator]
"""Function that finds QEMU for a guest on the local host."""


@dataclass
class Hypervisors:
    """The hypervisors on all parents."""

    agents: Agents
    """Agents of the parents."""
    find: Find = field(default_factory=lambda: find_here)
    """Function that finds the boot files of guests on the local host."""
    emulator: FindEmulator = field(default_factory=lambda: find_emulator)
    """Function that finds QEMU for guests on the local host."""
    probe: bool = True
    """Whether a test guest may be booted to determine the accelerator."""
    _probing: Lock = field(default_factory=Lock)

    def prepare(self, guest: Guest, parent: str) -> Launch:
        """Create a scratch folder for a guest and return its start parameters.

        Raises:
            UnsupportedError: the image or the hypervisor is missing.
            Refused: the parent's agent could not create the folder.
        """
        agent = self.agents.of(parent)
        prepare = self._domain if guest.engine == "xen" else self._machine
        return prepare(agent, guest, parent)

    def _machine(self, agent: Agent, guest: Guest, parent: str) -> Launch:
        """Return the start parameters of a QEMU guest."""
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
        """Return the start parameters of a Xen domain."""
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
        """Return the QEMU of a guest; each kernel other than the local host's has a separate QEMU."""
        if parent == HERE:
            return self.emulator(guest)
        if not is_guest(agent):
            return _emulator_of(agent, guest, parent, Phrase("run.install-qemu-on-parent", parent=parent))
        # The modules are loaded for each guest, because the parent may have been restarted.
        loaded = agent.run(PARENT_COMMAND, timeout_ms=MODULES_TIMEOUT_MS)
        if loaded.timed_out:
            raise UnsupportedError(
                Phrase("run.modules-not-loaded", parent=parent, seconds=MODULES_TIMEOUT_MS // 1000)
            )
        return _emulator_of(agent, guest, parent, Phrase("run.give-nested-image"))

    def accelerator(
        self, guest: Guest, parent: str, source: Source, emulator: Emulator
    ) -> tuple[Accelerator, Text]:
        """Return the accelerator of a guest, according to the experiment and the test boot.

        The second value is the reason why it is unknown whether KVM works; it is empty unless the test boot gave no
        result.

        Raises:
            UnsupportedError: the experiment requires KVM, but no kernel boots with it.
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
        with self._probing:  # guests that start in parallel share one test boot
            return find_accelerator(
                agent, identity, _program(emulator), source.boot.kernel, nested=is_guest(agent)
            )


def functions_of(agent: Agent, guest: Guest) -> dict[FunctionBackend, str]:
    """Return the PCI addresses of a guest's virtual functions on the parent.

    Raises:
        UnsupportedError: a function does not exist.
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
    """Return the QEMU of a guest on the local host.

    Raises:
        UnsupportedError: no QEMU was found.
    """
    newer = any(NICS[nic.kind].newer_qemu for nic in guest.nics)
    return find_qemu(NEWER) if newer else find_qemu()


def _program(emulator: Emulator) -> tuple[str, ...]:
    return (str(emulator.program), *emulator.arguments)


def _emulator_of(agent: Agent, guest: Guest, parent: str, advice: Text) -> Emulator:
    """Return the QEMU on a parent.

    Raises:
        UnsupportedError: no QEMU was found.
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
