"""Download Debian packages from the sources of the machine's apt, with separate package lists.

The download needs no root and does not change the machine's apt.
"""

import contextlib
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from iolab.errors import UnsupportedError
from iolab.image.programs import demand, run
from iolab.locale import Phrase

ARCHITECTURES = {"x86_64": "amd64"}
"""Debian architecture by machine type (`uname -m`), for the types for which guest images can be built."""
OS_RELEASE = Path("/etc/os-release")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
COMPONENT = "main"


@dataclass(frozen=True, slots=True)
class Source:
    """A package source in this machine's apt configuration."""

    address: str
    """Address of the archive."""
    suite: str
    """Release in the archive."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The Debian release of this machine."""

    suite: str
    """Code name."""
    architecture: str
    """Debian architecture."""


class Archive:
    """An apt configuration with separate package lists in a separate folder."""

    def __init__(self, folder: Path, sources: Sequence[Source]) -> None:
        self.sources_list = folder / "sources.list"
        signed = f" [signed-by={KEYRING}]" if KEYRING.exists() else ""
        lines = [f"deb{signed} {source.address} {source.suite} {COMPONENT}\n" for source in sources]
        for part in ("state/lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        self.sources_list.write_text("".join(lines), encoding="utf-8")
        (folder / "status").touch()
        self._options = _options(
            {
                "Dir::Etc::SourceList": self.sources_list,
                "Dir::Etc::SourceParts": "/dev/null",
                "Dir::State": folder / "state",
                "Dir::State::status": folder / "status",
                "Dir::Cache": folder / "cache",
                "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
                "APT::Update::Error-Mode": "any",
            }
        )

    def update(self) -> None:
        """Download the package lists."""
        run(["apt-get", "-qq", *self._options, "update"], Phrase("image.fetching-debian-lists"))

    def depends(self, package: str, suite: str | None = None) -> tuple[str, ...]:
        """Return the names of a package's dependencies, in the given suite if there is one."""
        release = () if suite is None else ("-o", f"APT::Default-Release={suite}")
        asked = ["apt-cache", *self._options, *release, "depends", package]
        said = run(asked, Phrase("image.reading-dependencies", package=package))
        return tuple(line.split()[-1] for line in said.splitlines() if line.strip().startswith("Depends:"))

    def demand(self, packages: Iterable[str]) -> None:
        """Check that the packages exist.

        Raises:
            UnsupportedError: packages are missing; the error lists them.
        """
        asked = ["apt-cache", *self._options, "--generate", "pkgnames"]
        known = set(run(asked, Phrase("image.listing-packages")).split())
        if absent := sorted(set(packages) - known):
            raise UnsupportedError(
                Phrase("image.packages-unknown", packages=", ".join(absent), component=COMPONENT)
            )

    def download(self, packages: Sequence[str], folder: Path) -> tuple[Path, ...]:
        """Download packages into a folder and return their files in the same order."""
        what = Phrase("image.fetching-packages", packages=" ".join(packages))
        run(["apt-get", "-qq", *self._options, "download", *packages], what, folder)
        return tuple(next(folder.glob(f"{name.partition('/')[0]}_*.deb")) for name in packages)


def read_distribution(os_release: str) -> Distribution:
    """Return this machine's distribution from the text of os-release.

    Raises:
        UnsupportedError: guest images cannot be built from the packages of this distribution.
    """
    written = dict(line.split("=", 1) for line in os_release.splitlines() if "=" in line)
    name, suite = (written.get(key, "").strip('"') for key in ("ID", "VERSION_CODENAME"))
    architecture = ARCHITECTURES.get(platform.machine())
    if name != "debian" or not suite or architecture is None:
        system, machine = f"{name} {suite}".strip() or "?", platform.machine()
        raise UnsupportedError(Phrase("image.release-not-supported", system=system, architecture=machine))
    return Distribution(suite, architecture)


def find_sources(suite: str) -> tuple[Source, ...]:
    """Return the sources of a Debian release and its updates in this machine's apt configuration.

    Raises:
        UnsupportedError: apt has no such source.
    """
    demand(["apt-get", "apt-cache", "dpkg-deb"], Phrase("image.finding-packages"))
    said = run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)",
            "Created-By: Packages",
        ],
        Phrase("image.reading-sources"),
    )
    found = tuple(dict.fromkeys(_read_sources(said, suite)))
    if not any(source.suite == suite for source in found):
        raise UnsupportedError(Phrase("image.no-apt-source", suite=suite, component=COMPONENT))
    return found


def _read_sources(said: str, suite: str) -> Iterable[Source]:
    for line in said.splitlines():
        address, release, component, origin = line.split("|")
        known = release in (suite, f"{suite}-updates", f"{suite}-security")
        # Before its first update, apt does not know the origin of an address.
        if known and component == COMPONENT and origin in ("Debian", "", "$(ORIGIN)"):
            yield Source(address, release)


def backports(sources: Sequence[Source], suite: str) -> tuple[Source, ...]:
    """Return the sources with the release's backports added, at the addresses in use."""
    main = [source.address for source in sources if source.suite == suite]
    return (*sources, *(Source(address, f"{suite}-backports") for address in main))


def unpack(package: Path, folder: Path) -> None:
    """Extract a package's files into a folder, without running its scripts."""
    run(["dpkg-deb", "-x", package, folder], Phrase("image.unpacking", what=package.name))


def package_version(package: Path) -> str:
    """Return the version in a package's file name."""
    return package.name.split("_")[1].replace("%3a", ":")


def list_installed(status: str) -> tuple[str, ...]:
    """Return name=version of every installed package, sorted, from the text of dpkg's status file."""
    return tuple(sorted(_read_status(status)))


def _read_status(status: str) -> Iterable[str]:
    for paragraph in status.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " "
        )
        with contextlib.suppress(KeyError):
            if fields["Status"].endswith(" installed"):
                yield f"{fields['Package']}={fields['Version']}"


def _options(settings: dict[str, object]) -> tuple[str, ...]:
    return tuple(part for name, value in settings.items() for part in ("-o", f"{name}={value}"))
