"""The archive of the first stage, read back by a reader of this file's own and, where it is installed, by cpio."""

import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.image.build import character_device, file, folder, pack


def read(archive: bytes) -> list[tuple[str, int, bytes]]:
    """Return name, mode and content of every entry, following the format's description."""
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
def test_what_is_packed_is_read_back(files: dict[str, bytes]) -> None:
    """Names and contents of every length survive the alignment."""
    archive = pack([file(name, content) for name, content in files.items()])
    assert [(name, content) for name, _, content in read(archive)] == list(files.items())


def test_kinds_of_entries_keep_their_modes() -> None:
    """Folder, program and device are what they were."""
    entries = [
        folder("dev"),
        file("init", b"x", executable=True),
        character_device("dev/console", 5, 1),
    ]
    modes = [mode for _, mode, _ in read(pack(entries))]
    assert modes == [stat.S_IFDIR | 0o755, stat.S_IFREG | 0o755, stat.S_IFCHR | 0o600]


@pytest.mark.skipif(shutil.which("cpio") is None, reason="needs cpio")
def test_the_program_cpio_reads_it(tmp_path: Path) -> None:
    """A program we did not write unpacks the same files."""
    archive = pack([folder("etc"), file("etc/name", b"guest\n"), file("odd", b"12345")])
    subprocess.run(["cpio", "-id", "--quiet"], input=archive, cwd=tmp_path, check=True)
    assert (tmp_path / "etc/name").read_text() == "guest\n"
    assert (tmp_path / "odd").read_bytes() == b"12345"
