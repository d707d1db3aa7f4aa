"""Choose the QEMU that starts a guest: the system's, or a newer one from Debian backports in the user's cache.

Emulated igb cards and vhost-user need QEMU 8: QEMU 7.2 has no igb, and crashes when it emulates a guest with
vhost-user.
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
from iolab.locale import Phrase

PROGRAM = "qemu-system-x86_64"
BACKPORTED = ("qemu-system-x86", "qemu-system-common", "qemu-system-data")
"""Packages of the newer QEMU; libraries and firmware are those of the system's QEMU."""
FIRMWARE = ("usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu")
"""Folders with data and firmware, in the newer QEMU's packages and in the system's packages."""
Version = tuple[int, int]
NEWER: Version = (8, 0)
"""Minimum QEMU version for vhost-user without hardware virtualization, and for emulated igb."""


@dataclass(frozen=True, slots=True)
class Emulator:
    """A QEMU program with its start parameters."""

    program: Path
    """Path of the program."""
    version: Version
    """Major and minor version."""
    arguments: tuple[str, ...] = ()
    """Arguments that precede all others."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to the caller's environment."""
    files: tuple[str, ...] = ()
    """Folder of the program and its data; empty: the system's folders."""


def find_qemu(minimum_version: Version = (0, 0), cache: Cache | None = None) -> Emulator:
    """Return a QEMU of at least this version: the system's if it is new enough, else the newest in the cache.

    Raises:
        UnsupportedError: no QEMU is new enough; the error states how to install one.
    """
    candidates = [*_find_system(), *find_cached_qemu(cache or default_cache())]
    for emulator in candidates:
        if emulator.version >= minimum_version:
            return emulator
    wanted = ".".join(map(str, minimum_version))
    if not candidates:
        raise UnsupportedError(Phrase("image.no-qemu", program=PROGRAM))
    versions = [".".join(map(str, emulator.version)) for emulator in candidates]
    raise UnsupportedError(Phrase("image.qemu-too-old", oldest=wanted, versions=versions))


def build_qemu(tell: Tell = lambda _: None, *, renew: bool = False, cache: Cache | None = None) -> Emulator:
    """Add the newer QEMU of the distribution's backports to the cache and return it.

    Raises:
        UnsupportedError: the packages cannot be downloaded, or QEMU does not start on this host.
    """
    cache = cache or default_cache()
    if not renew and (cached := find_cached_qemu(cache)):
        return cached[0]
    demand([*PROGRAMS[:3], PROGRAM], Phrase("image.fetching-qemu"))
    distribution = read_distribution(OS_RELEASE.read_text(encoding="utf-8"))
    with cache.locked(tell):
        if not renew and (cached := find_cached_qemu(cache)):
            return cached[0]
        cache.emulators.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=cache.emulators) as work:
            sources = backports(find_sources(distribution.suite), distribution.suite)
            archive = Archive(Path(work), sources)
            tell(Phrase("image.fetching-lists"))
            archive.update()
            tell(Phrase("image.fetching-packages", packages=" ".join(BACKPORTED)))
            suite = f"{distribution.suite}-backports"
            packages = archive.download([f"{name}/{suite}" for name in BACKPORTED], Path(work))
            return _install(cache, packages)


def find_cached_qemu(cache: Cache) -> list[Emulator]:
    """Return the QEMU versions in the cache, the newest first."""
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
            said = run([folder / "usr/bin" / PROGRAM, "--version"], Phrase("image.starting-qemu"))
            raise UnsupportedError(Phrase("image.qemu-without-version", output=repr(said.strip())))
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
    # Without these environment variables, QEMU would load modules and data of the system's older version.
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
        said = run([program, "--version"], Phrase("image.reading-qemu-version"), environment=environment)
    except UnsupportedError:
        return None
    found = re.search(r"version (\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else None
