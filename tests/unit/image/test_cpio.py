"""The initramfs archive, read back by a reader in this file and, if installed, by cpio."""

import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.image.build import character_device, file, folder, pack


def read(archive: bytes) -> list[tuple[str, int, bytes]]:
    """Return name, mode and content of every entry, according to the format's description."""
    entries: list[tuple[str, int, bytes]] = []
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + name_size - 1].decode()
        begin = (at + 110 + name_size + 3) // 4 * 4
        if name == "TRAILER!!!":
            return entries
        entries.append((name, mode, archive[begin : begin + size]))
        at = (begin + size + 3) // 4 * 4


@given(st.dictionaries(st.from_regex(r"[a-z]{1,12}", fullmatch=True), st.binary(max_size=40)))
def test_packed_archive_is_read_back(files: dict[str, bytes]) -> None:
    """Check names and contents of every length, with their alignment."""
    archive = pack([file(name, content) for name, content in files.items()])
    assert [(name, content) for name, _, content in read(archive)] == list(files.items())


def test_archive_entries_keep_their_modes() -> None:
    """Check a folder, a program and a device."""
    entries = [
        folder("dev"),
        file("init", b"x", executable=True),
        character_device("dev/console", 5, 1),
    ]
    modes = [mode for _, mode, _ in read(pack(entries))]
    assert modes == [stat.S_IFDIR | 0o755, stat.S_IFREG | 0o755, stat.S_IFCHR | 0o600]


@pytest.mark.skipif(shutil.which("cpio") is None, reason="needs cpio")
def test_cpio_program_unpacks_the_archive(tmp_path: Path) -> None:
    """Compare with an independent program."""
    archive = pack([folder("etc"), file("etc/name", b"guest\n"), file("odd", b"12345")])
    subprocess.run(["cpio", "-id", "--quiet"], input=archive, cwd=tmp_path, check=True)
    assert (tmp_path / "etc/name").read_text() == "guest\n"
    assert (tmp_path / "odd").read_bytes() == b"12345"
