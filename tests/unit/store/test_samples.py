"""Raw samples of one trial, read back when they are asked for."""

import gzip
import json
from pathlib import Path

import pytest

from iolab.errors import StoreError
from iolab.store import samples
from iolab.store.samples import read_samples


def stored(folder: Path, key: str, data: bytes) -> Path:
    """Put a file where a run puts samples."""
    path = folder / "samples" / f"{key}.json.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def test_samples_come_back_as_they_were_stored(tmp_path: Path) -> None:
    """What a trial wrote as JSON is read as the same values."""
    stored(tmp_path, "a1-b", gzip.compress(json.dumps({"schema": 1, "load_trials": [1.5]}).encode()))
    assert read_samples(tmp_path, "a1-b") == {"schema": 1, "load_trials": [1.5]}


def test_a_trial_without_samples_has_none(tmp_path: Path) -> None:
    """No file is no error; neither is a run without the folder."""
    assert read_samples(tmp_path, "a1") is None


@pytest.mark.parametrize("key", ["../samples/a", "a/b", "", ".hidden", "/etc/passwd"])
def test_a_key_never_leaves_the_folder(tmp_path: Path, key: str) -> None:
    """A key that is a path names nothing, even where a file lies there."""
    stored(tmp_path, "a", gzip.compress(b"1"))
    assert read_samples(tmp_path, key) is None


@pytest.mark.parametrize(
    "data",
    [b"", b"no gzip", gzip.compress(b"{"), gzip.compress(b"[1, 2]" * 100)[:30], gzip.compress(b"\xff\xfe")],
)
def test_damaged_samples_are_told_with_their_file(tmp_path: Path, data: bytes) -> None:
    """Whatever is wrong in the file, the error names it and says what to do."""
    path = stored(tmp_path, "a", data)
    with pytest.raises(StoreError, match="restore the file from a copy") as caught:
        read_samples(tmp_path, "a")
    assert str(path) in str(caught.value)


def test_samples_that_unpack_to_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file cannot fill the memory."""
    monkeypatch.setattr(samples, "MOST_BYTES", 1000)
    stored(tmp_path, "a", gzip.compress(b" " * 100_000 + b"1"))
    with pytest.raises(StoreError, match="allowed is less"):
        read_samples(tmp_path, "a")
