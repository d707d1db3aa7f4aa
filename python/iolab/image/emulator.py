"""Which QEMU starts a guest: the system's, or a newer one that Debian has ported back, kept in the user's cache.

Emulated igb cards and vhost-user need version 8: 7.2 has no igb, and crashes when it emulates a guest with vhost-user.
"""

import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iolab.errors import UnsupportedError
from iolab.image.build import PROGRAMS, Tell
from iolab.image.cache import UNFINISHED, Cache, default_cache
from iolab.image.packages import (
    OS_RELEASE,
    Archive,
    backports,
    find_sources,
    package_version,
    read_distribution,
    unpack,
)
from iolab.image.programs import demand, run

PROGRAM = "qemu-system-x86_64"
BACKPORTED = ("qemu-system-x86", "qemu-system-common", "qemu-system-data")
"""Packages of the newer QEMU; libraries and firmware are those that the system's QEMU came with."""
FIRMWARE = ("usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu")
"""Where these packages, and the system's, keep data and firmware."""
Version = tuple[int, int]
NEWER: Version = (8, 0)
"""Version of QEMU that vhost-user without hardware virtualisation, and emulated igb, need."""


@dataclass(frozen=True, slots=True)
class Emulator:
    """A QEMU, and how it must be started."""

    program: Path
    """The program."""
    version: Version
    """Major and minor."""
    arguments: tuple[str, ...] = ()
    """Go before all others."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Beside the caller's own."""
    files: tuple[str, ...] = ()
    """The folder that it lies in with its data; empty: those of the system."""


def find_qemu(minimum_version: Version = (0, 0), cache: Cache | None = None) -> Emulator:
    """Return a QEMU of at least this version: the system's if it will do, else the newest in the cache.

    Raises:
        UnsupportedError: there is none; says what makes one.
    """
    candidates = [*_find_system(), *find_cached_qemu(cache or default_cache())]
    for emulator in candidates:
        if emulator.version >= minimum_version:
            return emulator
    wanted = ".".join(map(str, minimum_version))
    if not candidates:
        raise UnsupportedError(
            f"looking for QEMU: {PROGRAM} is not on PATH; install the Debian packages qemu-system-x86 seabios ipxe-qemu"
        )
    seen = ", ".join(".".join(map(str, emulator.version)) for emulator in candidates)
    raise UnsupportedError(
        f"looking for QEMU {wanted} or newer: there is {seen}; `iolab image build qemu` fetches a newer one"
    )


def build_qemu(tell: Tell = lambda _: None, *, renew: bool = False, cache: Cache | None = None) -> Emulator:
    """Put the newer QEMU of the distribution's backports into the cache and return it.

    Raises:
        UnsupportedError: it cannot be fetched, or does not start on this computer.
    """
    cache = cache or default_cache()
    if not renew and (cached := find_cached_qemu(cache)):
        return cached[0]
    demand([*PROGRAMS[:3], PROGRAM], "fetching a newer QEMU")
    distribution = read_distribution(OS_RELEASE.read_text(encoding="utf-8"))
    with cache.locked(tell):
        if not renew and (cached := find_cached_qemu(cache)):
            return cached[0]
        cache.emulators.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=cache.emulators) as work:
            sources = backports(find_sources(distribution.suite), distribution.suite)
            archive = Archive(Path(work), sources)
            tell("fetching the lists of packages")
            archive.update()
            tell(f"fetching {' '.join(BACKPORTED)}")
            suite = f"{distribution.suite}-backports"
            packages = archive.download([f"{name}/{suite}" for name in BACKPORTED], Path(work))
            return _install(cache, packages)


def find_cached_qemu(cache: Cache) -> list[Emulator]:
    """Return those in the cache, the newest first."""
    if not cache.emulators.is_dir():
        return []
    folders = [path for path in cache.emulators.iterdir() if not path.name.startswith(UNFINISHED)]
    found = [emulator for folder in folders if (emulator := _describe(folder)) is not None]
    return sorted(found, key=lambda emulator: emulator.version, reverse=True)


def _install(cache: Cache, packages: Sequence[Path]) -> Emulator:
    version = package_version(packages[0]).replace(":", "_")
    with cache.new_folder(cache.emulators / version) as folder:
        for package in packages:
            unpack(package, folder)
        if _describe(folder) is None:
            said = run([folder / "usr/bin" / PROGRAM, "--version"], "starting the newer QEMU")
            raise UnsupportedError(f"starting the newer QEMU: it says {said.strip()!r} of its version")
    emulator = _describe(cache.emulators / version)
    assert emulator is not None
    return emulator


def _find_system() -> Iterable[Emulator]:
    program = shutil.which(PROGRAM)
    version = program and _ask_version(Path(program), {})
    if program and version:
        yield Emulator(Path(program), version)


def _describe(folder: Path) -> Emulator | None:
    program = folder / "usr/bin" / PROGRAM
    # Without these it would load the modules and read the data of the system's older QEMU.
    modules = next(folder.glob("usr/lib/*/qemu"), folder)
    environment = {"QEMU_MODULE_DIR": str(modules)}
    version = _ask_version(program, environment)
    if version is None:
        return None
    places = [base / place for base in (folder, Path("/")) for place in FIRMWARE]
    arguments = tuple(part for place in places if place.is_dir() for part in ("-L", str(place)))
    return Emulator(program, version, arguments, environment, (str(folder),))


def _ask_version(program: Path, environment: Mapping[str, str]) -> Version | None:
    try:
        said = run([program, "--version"], "asking QEMU for its version", environment=environment)
    except UnsupportedError:
        return None
    found = re.search(r"version (\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else None
