"""Files are whole or absent, and nobody else's is written or believed."""

import os
import stat
from pathlib import Path

import pytest

from iolab.errors import UnsupportedError
from iolab.files import cache_folder, write_durably, write_whole


def test_a_link_in_a_files_place_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    """A run folder of somebody else cannot make a report overwrite another file."""
    precious, link = tmp_path / "precious", tmp_path / "report.html"
    precious.write_text("keep me")
    link.symlink_to(precious)
    write_whole(link, "a report")
    assert (precious.read_text(), link.read_text(), link.is_symlink()) == ("keep me", "a report", False)


def test_a_file_that_cannot_be_written_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full half-way."""
    there = tmp_path / "report.html"
    there.write_text("before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(there, "after")
    assert there.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_pipe_that_nobody_reads_is_an_error_and_no_wait(tmp_path: Path) -> None:
    """A run folder of somebody else cannot make a report hang."""
    pipe = tmp_path / "report.html"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no process reads from this pipe"):
        write_whole(pipe, "a report")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "a report")
    assert os.read(reader, 100) == b"a report"
    os.close(reader)


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    """`--output /dev/stdout` stays a device."""
    write_whole(Path(os.devnull), "a report")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_durable_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    """Its name is known before: somebody could have put a link there."""
    (tmp_path / "k0.new").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        write_durably(tmp_path / "k0.new", b"x")
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a cache folder of this user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "iolab").mkdir(mode=0o755)
    return tmp_path / "iolab"


def test_a_cache_of_ones_own_is_used_and_need_not_exist(cache: Path) -> None:
    """It is made by whoever stores something."""
    assert cache_folder() == cache
    cache.rmdir()
    assert cache_folder() == cache


def test_a_cache_of_another_user_is_not_believed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root would start what that user has put there."""
    owner = cache.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(
        UnsupportedError, match=f"user {owner}, and iolab runs as user {owner + 1}.*XDG_CACHE"
    ):
        cache_folder()


def test_a_cache_that_every_user_may_write_to_is_not_believed(cache: Path) -> None:
    """Any of them could swap an image."""
    cache.chmod(0o777)
    with pytest.raises(UnsupportedError, match="every user may write to it"):
        cache_folder()


def test_a_cache_that_a_group_may_write_to_is_not_believed(cache: Path) -> None:
    """Itself, or a folder above it, where its name can be given to another."""
    cache.chmod(0o770)
    with pytest.raises(UnsupportedError, match="a group may write to it"):
        cache_folder()
    cache.chmod(0o700)
    cache.parent.chmod(0o775)
    with pytest.raises(UnsupportedError, match="a group may write to it"):
        cache_folder()
    cache.parent.chmod(0o1777)  # as /tmp
    assert cache_folder() == cache
