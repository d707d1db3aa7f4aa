"""Files are complete or absent, and foreign ones are neither written nor trusted."""

import os
import stat
from pathlib import Path

import pytest

from iolab.errors import UnsupportedError
from iolab.files import cache_folder, write_durably, write_whole


def test_write_whole_replaces_a_symbolic_link_and_keeps_its_target(tmp_path: Path) -> None:
    """Prevent a foreign run folder from overwriting a different file."""
    precious, link = tmp_path / "precious", tmp_path / "report.html"
    precious.write_text("keep me")
    link.symlink_to(precious)
    write_whole(link, "a report")
    assert (precious.read_text(), link.read_text(), link.is_symlink()) == ("keep me", "a report", False)


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a disk that becomes full."""
    there = tmp_path / "report.html"
    there.write_text("before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(there, "after")
    assert there.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_pipe_without_a_reader_raises_an_error_instead_of_blocking(tmp_path: Path) -> None:
    """Prevent a foreign run folder from blocking a report."""
    pipe = tmp_path / "report.html"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no process reads from this pipe"):
        write_whole(pipe, "a report")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "a report")
    assert os.read(reader, 100) == b"a report"
    os.close(reader)


def test_device_file_is_written_directly(tmp_path: Path) -> None:
    """Keep `--output /dev/stdout` a device."""
    write_whole(Path(os.devnull), "a report")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_write_durably_refuses_a_symbolic_link(tmp_path: Path) -> None:
    """Refuse it, because the file name is predictable."""
    (tmp_path / "k0.new").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        write_durably(tmp_path / "k0.new", b"x")
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a cache folder of this user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "iolab").mkdir(mode=0o755)
    return tmp_path / "iolab"


def test_private_cache_is_used_and_need_not_exist(cache: Path) -> None:
    """Create it on the first write."""
    assert cache_folder() == cache
    cache.rmdir()
    assert cache_folder() == cache


def test_cache_of_a_different_user_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent root from starting that user's files."""
    owner = cache.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(
        UnsupportedError, match=f"user {owner}, but iolab runs as user {owner + 1}.*XDG_CACHE"
    ):
        cache_folder()


def test_world_writable_cache_is_refused(cache: Path) -> None:
    """Refuse it, because any user could replace an image."""
    cache.chmod(0o777)
    with pytest.raises(UnsupportedError, match="writable by every user"):
        cache_folder()


def test_group_writable_cache_is_refused(cache: Path) -> None:
    """Check folders above it, too, in which it could be renamed."""
    cache.chmod(0o770)
    with pytest.raises(UnsupportedError, match="writable by a group"):
        cache_folder()
    cache.chmod(0o700)
    cache.parent.chmod(0o775)
    with pytest.raises(UnsupportedError, match="writable by a group"):
        cache_folder()
    cache.parent.chmod(0o1777)  # as /tmp
    assert cache_folder() == cache
