"""CHAP secrets: where they are read, who may read them, and that no message shows one."""

import os
from pathlib import Path

import pytest

from iolab.errors import InputError
from iolab.experiment.model.targets import SecretSource
from iolab.run.lab.secrets import read_secret

SECRET = "hunter2hunter2"


def written(folder: Path, text: str = SECRET, mode: int = 0o600) -> SecretSource:
    """Write a secret; return its place."""
    path = folder / "secret"
    path.write_text(text)
    path.chmod(mode)
    return SecretSource(file=str(path))


def refused(source: SecretSource, **environment: str) -> str:
    """Return why a secret is refused."""
    with pytest.raises(InputError) as caught:
        read_secret(source, environment)
    text = str(caught.value)
    assert SECRET not in text
    return text


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_secret_is_read_from_a_file_without_its_line_end(tmp_path: Path, end: str) -> None:
    """Accept files as editors write them."""
    assert read_secret(written(tmp_path, SECRET + end)) == SECRET


def test_secret_is_read_from_an_environment_variable() -> None:
    """Use the environment of the controller."""
    assert read_secret(SecretSource(env="BOX"), {"BOX": SECRET}) == SECRET
    assert "BOX=SECRET iolab run" in refused(SecretSource(env="BOX"))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_secret_file_that_others_may_read_or_write_is_refused_with_a_remedy(
    tmp_path: Path, mode: int
) -> None:
    """Name the command."""
    source = written(tmp_path, mode=mode)
    text = refused(source)
    assert f"mode {mode:04o}" in text
    assert f"chmod 600 {source.file}" in text


def test_secret_file_that_is_missing_or_a_folder_or_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    """Name the command that creates the file."""
    assert "umask 077" in refused(SecretSource(file=str(tmp_path / "none")))
    assert "umask 077" in refused(SecretSource(file=str(tmp_path)))
    os.mkfifo(tmp_path / "fifo", 0o600)
    assert "not a regular file" in refused(SecretSource(file=str(tmp_path / "fifo")))


@pytest.mark.parametrize("text", ["", "short", f"{SECRET}\n{SECRET}", "hunter2 hunter2", "x" * 256, "ä" * 14])
def test_text_that_is_not_a_chap_secret_is_refused(tmp_path: Path, text: str) -> None:
    """State the length only."""
    assert "12 to 255 ASCII characters" in refused(written(tmp_path, text))
