"""Which QEMU is taken: the system's if it will do, else the newest in the cache."""

from pathlib import Path

import pytest

from iolab.errors import UnsupportedError
from iolab.image import Cache, find_qemu
from iolab.image.emulator import PROGRAM


def install(folder: Path, version: str) -> Path:
    """Put a program that tells this version into a folder."""
    folder.mkdir(parents=True)
    program = folder / PROGRAM
    program.write_text(f"#!/bin/sh\necho 'QEMU emulator version {version} (Debian)'\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """A cache without a QEMU, on a computer with 7.2."""
    install(tmp_path / "bin", "7.2.19")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return Cache(tmp_path / "cache")


def test_the_systems_own_is_taken_where_it_will_do(cache: Cache, tmp_path: Path) -> None:
    """Even where the cache has a newer one."""
    install(cache.emulators / "10/usr/bin", "10.0.2")
    found = find_qemu((7, 0), cache)
    assert (found.program, found.version) == (tmp_path / "bin" / PROGRAM, (7, 2))
    assert found.arguments == ()


def test_a_newer_one_comes_with_its_own_modules_and_data(cache: Cache) -> None:
    """Otherwise it would load those of the system's older one."""
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


def test_versions_are_compared_as_numbers(cache: Cache) -> None:
    """10 is newer than 9."""
    install(cache.emulators / "9/usr/bin", "9.2.0")
    install(cache.emulators / "10/usr/bin", "10.0.2")
    assert find_qemu((8, 0), cache).version == (10, 0)


def test_a_missing_version_is_told_with_what_fetches_it(cache: Cache) -> None:
    """And with what is there; a damaged one in the cache is passed over."""
    (cache.emulators / "10/usr/bin").mkdir(parents=True)
    with pytest.raises(UnsupportedError, match=r"8\.0 or newer: there is 7\.2; `iolab image build qemu`"):
        find_qemu((8, 0), cache)


def test_a_computer_without_qemu_is_told_its_packages(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said of versions."""
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(UnsupportedError, match="qemu-system-x86 seabios"):
        find_qemu(cache=cache)
