"""Package sources: the machine's own apt sources, and nothing else."""

import subprocess
from pathlib import Path

import pytest

from iolab.errors import UnsupportedError
from iolab.image import packages
from iolab.image.packages import Archive, Source, backports, find_sources, list_installed, read_distribution

BOOKWORM = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n'
TARGETS = """\
copy:/mirror/|bookworm|main|Debian
copy:/mirror/|bookworm|contrib|Debian
copy:/mirror/|bookworm-updates|main|Debian
copy:/security/|bookworm-security|main|
copy:/vendor/|bookworm|main|Some vendor
copy:/vendor/|stable|main|Some vendor
copy:/mirror/|trixie|main|Debian
"""
STATUS = """\
Package: iperf3
Status: install ok installed
Version: 3.12-1
Description: measures
 Version: no field

Package: gone
Status: deinstall ok config-files
Version: 1

Package: fio
Status: install ok installed
Version: 3.33-3
"""


def test_distribution_is_read_from_os_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the code name, and Debian's name of the architecture."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert read_distribution(BOOKWORM) == packages.Distribution("bookworm", "amd64")


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        (BOOKWORM.replace("debian", "fedora"), "x86_64"),
        (BOOKWORM, "riscv64"),
        ("", "x86_64"),
        ("ID=debian", "x86_64"),
    ],
)
def test_distribution_other_than_debian_is_refused(
    text: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name the supported distributions."""
    monkeypatch.setattr("platform.machine", lambda: machine)
    with pytest.raises(UnsupportedError, match="packages of a Debian release"):
        read_distribution(text)


def test_apt_sources_are_those_of_the_release_and_its_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exclude other releases, components, and vendors with the same suite name."""
    monkeypatch.setattr(packages, "demand", lambda *_: None)
    monkeypatch.setattr(packages, "run", lambda *_: TARGETS)
    assert find_sources("bookworm") == (
        Source("copy:/mirror/", "bookworm"),
        Source("copy:/mirror/", "bookworm-updates"),
        Source("copy:/security/", "bookworm-security"),
    )
    with pytest.raises(UnsupportedError, match="no source for sid main"):
        find_sources("sid")


def test_backports_source_is_derived_from_the_release_source() -> None:
    """Derive its address."""
    sources = (Source("copy:/mirror/", "bookworm"), Source("copy:/security/", "bookworm-security"))
    assert backports(sources, "bookworm")[2:] == (Source("copy:/mirror/", "bookworm-backports"),)


def test_installed_packages_are_listed_with_their_versions() -> None:
    """Sort them, without packages of which only the configuration is left."""
    assert list_installed(STATUS) == ("fio=3.33-3", "iperf3=3.12-1")


def test_packages_are_downloaded_only_from_the_given_source(tmp_path: Path) -> None:
    """Use a local archive, without apt's own lists."""
    tree, mirror, got = tmp_path / "tree", tmp_path / "mirror", tmp_path / "got"
    for folder in (tree / "DEBIAN", mirror, got):
        folder.mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: measure\nVersion: 1:2.0-1\nArchitecture: amd64\nMaintainer: nobody\n"
        "Depends: measure-core-4\nDescription: a package\n"
    )
    (tree / "hello").write_text("hello\n")
    subprocess.run(
        ["dpkg-deb", "-b", tree, mirror / "measure_2.0-1_amd64.deb"], check=True, capture_output=True
    )
    index = (tree / "DEBIAN/control").read_text()
    size = (mirror / "measure_2.0-1_amd64.deb").stat().st_size
    (mirror / "Packages").write_text(f"{index}Filename: ./measure_2.0-1_amd64.deb\nSize: {size}\n")
    archive = Archive(tmp_path / "apt", [Source(f"copy:{mirror}/", "bookworm")])
    archive.sources_list.write_text(f"deb [trusted=yes] copy:{mirror}/ ./\n")
    archive.update()
    assert archive.depends("measure") == ("<measure-core-4>",)
    with pytest.raises(UnsupportedError, match="iproute2"):
        archive.download(["iproute2"], got)
