"""Debian packages from where the machine's own apt gets them, through an apt with lists of its own.

Needs no root and changes nothing of the machine's apt.
"""

import contextlib
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from iolab.errors import UnsupportedError
from iolab.image.programs import demand, run

ARCHITECTURES = {"x86_64": "amd64"}
"""Debian's names of the machines that guests can be built for."""
OS_RELEASE = Path("/etc/os-release")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
COMPONENT = "main"


@dataclass(frozen=True, slots=True)
class Source:
    """One place that packages come from, as this machine's apt knows it."""

    address: str
    """Of the archive."""
    suite: str
    """Release in that archive."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The Debian that this machine runs."""

    suite: str
    """Its code name."""
    architecture: str
    """Debian's name of this kind of computer."""


class Archive:
    """An apt with lists of its own, in a folder of its own."""

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
        """Fetch the lists of packages."""
        run(["apt-get", "-qq", *self._options, "update"], "fetching the lists of Debian packages")

    def depends(self, package: str, suite: str | None = None) -> tuple[str, ...]:
        """Return what a package depends on, by name; as a suite has it, where one is given."""
        release = () if suite is None else ("-o", f"APT::Default-Release={suite}")
        asked = ["apt-cache", *self._options, *release, "depends", package]
        said = run(asked, f"asking for the package {package}")
        return tuple(line.split()[-1] for line in said.splitlines() if line.strip().startswith("Depends:"))

    def demand(self, packages: Iterable[str]) -> None:
        """Check that there are packages of these names.

        Raises:
            UnsupportedError: names those that there are not.
        """
        asked = ["apt-cache", *self._options, "--generate", "pkgnames"]
        known = set(run(asked, "listing the Debian packages that there are").split())
        if absent := sorted(set(packages) - known):
            raise UnsupportedError(
                f"building a guest image: there is no Debian package {', '.join(absent)} in {COMPONENT} of this "
                "release; `apt-cache search` finds names"
            )

    def download(self, packages: Sequence[str], folder: Path) -> tuple[Path, ...]:
        """Fetch packages into a folder and return their files, in that order."""
        what = f"fetching the Debian packages {' '.join(packages)}"
        run(["apt-get", "-qq", *self._options, "download", *packages], what, folder)
        return tuple(next(folder.glob(f"{name.partition('/')[0]}_*.deb")) for name in packages)


def read_distribution(os_release: str) -> Distribution:
    """Return what this machine runs, from the text of os-release.

    Raises:
        UnsupportedError: guests cannot be built from its packages.
    """
    written = dict(line.split("=", 1) for line in os_release.splitlines() if "=" in line)
    name, suite = (written.get(key, "").strip('"') for key in ("ID", "VERSION_CODENAME"))
    architecture = ARCHITECTURES.get(platform.machine())
    if name != "debian" or not suite or architecture is None:
        raise UnsupportedError(
            f"building a guest image: this is {name or 'unknown'} {suite} on {platform.machine()}; "
            "images are made from the packages of a Debian release on x86_64: build on such a machine"
        )
    return Distribution(suite, architecture)


def find_sources(suite: str) -> tuple[Source, ...]:
    """Return where this machine's apt gets a release of Debian from, with its updates.

    Raises:
        UnsupportedError: it has no such source.
    """
    demand(["apt-get", "apt-cache", "dpkg-deb"], "looking for Debian packages")
    said = run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)",
            "Created-By: Packages",
        ],
        "asking apt for its sources",
    )
    found = tuple(dict.fromkeys(_read_sources(said, suite)))
    if not any(source.suite == suite for source in found):
        raise UnsupportedError(
            f"looking for Debian packages: apt has no source for {suite} {COMPONENT}; add one to its sources"
        )
    return found


def _read_sources(said: str, suite: str) -> Iterable[Source]:
    for line in said.splitlines():
        address, release, component, origin = line.split("|")
        known = release in (suite, f"{suite}-updates", f"{suite}-security")
        # An apt that has fetched nothing yet does not know who is behind an address.
        if known and component == COMPONENT and origin in ("Debian", "", "$(ORIGIN)"):
            yield Source(address, release)


def backports(sources: Sequence[Source], suite: str) -> tuple[Source, ...]:
    """Return the release and what Debian has ported back to it, at the addresses the machine uses already."""
    main = [source.address for source in sources if source.suite == suite]
    return (*sources, *(Source(address, f"{suite}-backports") for address in main))


def unpack(package: Path, folder: Path) -> None:
    """Put a package's files into a folder; runs none of its scripts."""
    run(["dpkg-deb", "-x", package, folder], f"unpacking {package.name}")


def package_version(package: Path) -> str:
    """Return the version that a package's file name tells."""
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
