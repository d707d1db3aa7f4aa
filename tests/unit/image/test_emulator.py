"""Selection of QEMU: the system's if it is new enough, otherwise the newest in the cache."""

from pathlib import Path

import pytest

from iolab.errors import UnsupportedError
from iolab.image import Cache, find_qemu
from iolab.image.emulator import PROGRAM


def install(folder: Path, version: str) -> Path:
    """Install a program that prints this version into a folder."""
    folder.mkdir(parents=True)
    program = folder / PROGRAM
    program.write_text(f"#!/bin/sh\necho 'QEMU emulator version {version} (Debian)'\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """Provide a cache without a QEMU, on a computer with 7.2."""
    install(tmp_path / "bin", "7.2.19")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return Cache(tmp_path / "cache")


def test_system_qemu_is_used_if_it_is_new_enough(cache: Cache, tmp_path: Path) -> None:
    """Prefer it to a newer one in the cache."""
    install(cache.emulators / "10/usr/bin", "10.0.2")
    found = find_qemu((7, 0), cache)
    assert (found.program, found.version) == (tmp_path / "bin" / PROGRAM, (7, 2))
    assert found.arguments == ()


def test_newer_qemu_uses_its_own_modules_and_data(cache: Cache) -> None:
    """Avoid the modules of the system's older QEMU."""
    program = install(cache.emulators / "10/usr/bin", "10.0.2")
    modules, data = (
        cache.emulators / "10" / place for place in ("usr/lib/x86_64-linux-gnu/qemu", "usr/share/qemu")
    )
    modules.mkdir(parents=True)
    data.mkdir(parents=True)
    found = find_qemu((8, 0), cache)
    assert (found.program, found.version) == (program, (10, 0))
    assert found.arguments[:2] == ("-L", str(data))
    assert found.environment == {"QEMU_MODULE_DIR": str(modules)}


def test_qemu_versions_are_compared_as_numbers(cache: Cache) -> None:
    """Treat 10 as newer than 9."""
    install(cache.emulators / "9/usr/bin", "9.2.0")
    install(cache.emulators / "10/usr/bin", "10.0.2")
    assert find_qemu((8, 0), cache).version == (10, 0)


def test_missing_qemu_version_is_reported_with_the_command_that_builds_it(cache: Cache) -> None:
    """Name the existing version; skip a damaged one in the cache."""
    (cache.emulators / "10/usr/bin").mkdir(parents=True)
    with pytest.raises(
        UnsupportedError, match=r"8\.0 or newer: this host has 7\.2; `iolab image build qemu`"
    ):
        find_qemu((8, 0), cache)


def test_missing_qemu_is_reported_with_its_packages(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mention no version."""
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(UnsupportedError, match="qemu-system-x86 seabios"):
        find_qemu(cache=cache)
