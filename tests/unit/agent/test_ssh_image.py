"""Files of guest images are hashed once per boot, here and on another host, and again after any change."""

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
"""Another user of the host."""
STAYING = """
while [ "$1" != -- ]; do shift; done
exec sh -c "$3"
"""
"""An ssh that stays on this host."""
COUNTING = """#!/bin/sh
echo "$*" >>{log}
exec {sha256sum} "$@"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/iolab"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A file of an image."""
    path = tmp_path / "initrd"
    path.write_bytes(b"first")
    return path


@pytest.fixture
def hashed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], tuple[str, int]]:
    """Return the digest of a file, and how often a file was hashed until then."""
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
    """A host, whose sha256sum is written down."""
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
    """Return the digest that another program would give."""
    return hashlib.sha256(content).hexdigest()


def change(path: Path, content: bytes) -> None:
    """Write other content of the same size, and put the mtime back."""
    before = path.stat()
    assert len(content) == before.st_size
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_is_hashed_once_and_again_when_it_changes_though_size_and_mtime_are_the_same(
    image: Path, hashed: Callable[[Path], tuple[str, int]]
) -> None:
    """The ctime tells."""
    assert hashed(image) == (sha(b"first"), 1)
    assert hashed(image) == (sha(b"first"), 1)
    change(image, b"other")
    assert hashed(image) == (sha(b"other"), 2)
    copy = image.with_name("copy")
    shutil.copy2(image, copy)
    copy.replace(image)
    assert hashed(image) == (sha(b"other"), 3)


def test_another_start_of_the_host_hashes_again(
    image: Path, hashed: Callable[[Path], tuple[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inode number may mean another file then."""
    hashed(image)
    (tmp_path / "boot_id").write_text("11111111-1111-1111-1111-111111111111\n")
    monkeypatch.setattr(ssh_files, "BOOT_ID", tmp_path / "boot_id")
    assert hashed(image) == (sha(b"first"), 2)
    assert hashed(image) == (sha(b"first"), 2)


@pytest.mark.parametrize(
    "plant", ["owner", "mode", "link", "pipe", "no words", "folder's owner", "folder's mode"]
)
def test_a_mark_that_another_user_could_have_written_is_not_believed(
    image: Path, cache: Path, hashed: Callable[[Path], tuple[str, int]], plant: str
) -> None:
    """It would name another content; the digest is computed from the file."""
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


def test_without_a_cache_of_the_user_a_file_is_hashed_each_time(
    image: Path, cache: Path, hashed: Callable[[Path], tuple[str, int]]
) -> None:
    """What lies there could be anybody's."""
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    assert [hashed(image)[1] for _ in range(2)] == [1, 2]


def test_on_another_host_a_file_is_hashed_once_and_again_when_it_changes(
    image: Path, cache: Path, connection: SshConnection, tmp_path: Path
) -> None:
    """Its copy is hashed when it arrives, and at the first look of a run."""

    def looks() -> int:
        """Have the image there; return how often its copy was hashed by name."""
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


def test_a_mark_of_another_user_there_is_removed_before_it_is_read(
    image: Path, cache: Path, connection: SshConnection, tmp_path: Path
) -> None:
    """It says of a changed file that it is the one that was hashed."""
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
