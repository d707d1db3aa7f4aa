"""Guest image files are hashed once per boot, locally and on a remote host, and again after any change."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iolab.agent import ssh_files
from iolab.agent.ssh_connection import SshConnection
from iolab.agent.ssh_files import MARKS, digest_of, provide_files

STRANGER = 61_000
"""A different user of the host."""
STAYING = """
while [ "$1" != -- ]; do shift; done
exec sh -c "$3"
"""
"""An ssh that stays on the local host."""
COUNTING = """#!/bin/sh
echo "$*" >>{log}
exec {sha256sum} "$@"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/iolab"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Provide a file of an image."""
    path = tmp_path / "initrd"
    path.write_bytes(b"first")
    return path


@pytest.fixture
def hashed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], tuple[str, int]]:
    """Return the digest of a file, and the number of hash computations so far."""
    count = 0
    compute = hashlib.file_digest

    def counted(*given: object) -> object:
        nonlocal count
        count += 1
        return compute(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(hashlib, "file_digest", counted)
    return lambda path: (digest_of(path), count)


@pytest.fixture
def connection(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshConnection]:
    """Provide a host whose sha256sum calls are recorded."""
    (tmp_path / "ssh").write_text(STAYING)
    monkeypatch.setenv("IOLAB_SSH", f"sh {tmp_path / 'ssh'}")
    programs = tmp_path / "programs"
    programs.mkdir()
    wrapper = programs / "sha256sum"
    wrapper.write_text(COUNTING.format(log=tmp_path / "log", sha256sum=shutil.which("sha256sum")))
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    opened = SshConnection("pc6")
    yield opened
    opened.close()


def sha(content: bytes) -> str:
    """Return the digest that sha256sum would print."""
    return hashlib.sha256(content).hexdigest()


def change(path: Path, content: bytes) -> None:
    """Write different content of the same size, and restore the mtime."""
    before = path.stat()
    assert len(content) == before.st_size
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_local_file_is_rehashed_only_after_a_change_including_one_that_keeps_size_and_mtime(
    image: Path, hashed: Callable[[Path], tuple[str, int]]
) -> None:
    """Detect the change by the ctime."""
    assert hashed(image) == (sha(b"first"), 1)
    assert hashed(image) == (sha(b"first"), 1)
    change(image, b"other")
    assert hashed(image) == (sha(b"other"), 2)
    copy = image.with_name("copy")
    shutil.copy2(image, copy)
    copy.replace(image)
    assert hashed(image) == (sha(b"other"), 3)


def test_files_are_hashed_again_after_a_reboot(
    image: Path, hashed: Callable[[Path], tuple[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hash again, because an inode number may belong to a different file."""
    hashed(image)
    (tmp_path / "boot_id").write_text("11111111-1111-1111-1111-111111111111\n")
    monkeypatch.setattr(ssh_files, "BOOT_ID", tmp_path / "boot_id")
    assert hashed(image) == (sha(b"first"), 2)
    assert hashed(image) == (sha(b"first"), 2)


@pytest.mark.parametrize(
    "plant", ["owner", "mode", "link", "pipe", "no words", "folder's owner", "folder's mode"]
)
def test_digest_mark_that_another_user_could_have_written_is_ignored(
    image: Path, cache: Path, hashed: Callable[[Path], tuple[str, int]], plant: str
) -> None:
    """Compute the digest from the file, because the mark would name different content."""
    if "owner" in plant and os.geteuid() != 0:
        pytest.skip("needs root, to be two users")
    hashed(image)
    (mark,) = (cache / MARKS).iterdir()
    mark.write_text(mark.read_text().replace(sha(b"first"), sha(b"wrong")))
    assert hashed(image) == (sha(b"wrong"), 1), "the mark is what decides"
    match plant:
        case "owner":
            os.chown(mark, STRANGER, STRANGER)
        case "mode":
            mark.chmod(0o620)
        case "link":
            mark.replace(cache / "elsewhere")
            mark.symlink_to(cache / "elsewhere")
        case "pipe":
            mark.unlink()
            os.mkfifo(mark)
        case "no words":
            mark.write_bytes(b"\xff\x00")
        case "folder's owner":
            os.chown(cache / MARKS, STRANGER, STRANGER)
        case _:
            (cache / MARKS).chmod(0o770)
    assert hashed(image) == (sha(b"first"), 2)


def test_without_a_private_cache_a_file_is_hashed_each_time(
    image: Path, cache: Path, hashed: Callable[[Path], tuple[str, int]]
) -> None:
    """Do not trust marks in a folder that others can write to."""
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    assert [hashed(image)[1] for _ in range(2)] == [1, 2]


def test_remote_file_is_rehashed_only_after_a_change(
    image: Path, cache: Path, connection: SshConnection, tmp_path: Path
) -> None:
    """Hash the copy when it arrives, and when a run first checks it."""

    def looks() -> int:
        """Provide the image on the host; return how often its copy was hashed by name."""
        provide_files(connection, [image], lambda _: None)
        return (tmp_path / "log").read_text().count(f"image-{sha(b'first')}")

    name = f"image-{sha(b'first')}"
    assert [looks() for _ in range(3)] == [0, 1, 1]
    there, mark = cache / name, cache / f"{name}.hashed"
    change(there, b"other")
    assert looks() == 2
    assert there.read_bytes() == b"first", "it was copied again"
    assert [looks() for _ in range(2)] == [3, 3]
    mark.write_text(mark.read_text().replace(ssh_files.BOOT_ID.read_text().strip(), "another"))
    assert [looks() for _ in range(2)] == [4, 4]
    mark.chmod(0o666)
    assert [looks() for _ in range(2)] == [5, 5]


def test_digest_mark_written_by_another_user_of_the_host_is_removed_without_being_read(
    image: Path, cache: Path, connection: SshConnection, tmp_path: Path
) -> None:
    """Remove the mark: it would declare a changed file as hashed."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be two users")
    for _ in range(2):
        provide_files(connection, [image], lambda _: None)
    there = cache / f"image-{sha(b'first')}"
    change(there, b"other")
    status = subprocess.run(["stat", "-c", "%d %i %s %y %z", there], capture_output=True, text=True).stdout
    mark = cache / f"{there.name}.hashed"
    mark.write_text(f"{ssh_files.BOOT_ID.read_text().strip()} {status}")
    os.chown(mark, STRANGER, STRANGER)
    provide_files(connection, [image], lambda _: None)
    assert there.read_bytes() == b"first", "it was hashed, and copied again"
