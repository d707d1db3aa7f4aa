"""What a trial stored beside its record, read back when it is asked for."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.records import balance, load_record, packet_trial, port

from iolab.errors import StoreError
from iolab.messages.places import AtPort
from iolab.results.packets import PacketTrial
from iolab.store import read
from iolab.store.codec import encode_packets
from iolab.store.read import read_packets
from iolab.trial.counters.drops import RING_FULL


def whole() -> PacketTrial:
    """Return a packet trial in which every part is there."""
    lossy = load_record(
        10.0,
        "hop",
        AtPort(port="dut.eth0"),
        balances=[balance(10, 9, 0, (AtPort(port="dut.eth0"), RING_FULL, 1))],
    )
    return packet_trial(
        [lossy], ports=(port("tester.p0", "send", "AF_XDP copy", "no zero-copy"),), rate_fps=10.0
    )


def stored(folder: Path, key: str, data: bytes) -> Path:
    """Put a file where a run puts samples."""
    path = folder / "samples" / f"{key}.packets.json.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def changed(change: Any) -> bytes:
    """Return a stored trial after a change of its JSON."""
    document = json.loads(encode_packets(whole()))
    change(document)
    return gzip.compress(json.dumps(document).encode())


def test_samples_come_back_as_they_were_stored(tmp_path: Path) -> None:
    """What a trial wrote is read as the same values, of the same types."""
    stored(tmp_path, "a1-b", gzip.compress(encode_packets(whole())))
    assert read_packets(tmp_path, "a1-b") == whole()


def test_a_trial_without_samples_has_none(tmp_path: Path) -> None:
    """No file is no error; neither is a run without the folder."""
    assert read_packets(tmp_path, "a1") is None


@pytest.mark.parametrize("key", ["../samples/a", "a/b", "", ".hidden", "/etc/passwd"])
def test_a_key_never_leaves_the_folder(tmp_path: Path, key: str) -> None:
    """A key that is a path names nothing, even where a file lies there."""
    stored(tmp_path, "a", gzip.compress(b"1"))
    assert read_packets(tmp_path, key) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda it: it["packets"]["load_trials"][0]["verdict"].pop("doubt"),
            "load_trials.0.verdict.doubt: Field req",
        ),
        (
            lambda it: it["packets"]["load_trials"][0]["result"].pop("steady"),
            "load_trials.0.result.steady: Field req",
        ),
        (lambda it: it["packets"].update(colour=1), "packets.colour: Unexpected"),
        (
            lambda it: it["packets"]["load_trials"][0]["balances"][0]["drops"][0].update(frames="1"),
            "frames: Input sh",
        ),
        (
            lambda it: it["packets"]["load_trials"][0]["verdict"].update(limit="luck"),
            "verdict.limit: Input should be",
        ),
    ],
)
def test_a_field_too_few_or_too_many_is_an_error_with_file_and_line(
    tmp_path: Path, change: Any, said: str
) -> None:
    """Nothing decodes to None, or is left out, without a word."""
    path = stored(tmp_path, "a", changed(change))
    with pytest.raises(StoreError) as caught:
        read_packets(tmp_path, "a")
    assert said in str(caught.value)
    assert f"{path}:1" in str(caught.value)


def test_samples_of_another_version_are_refused_with_both_versions(tmp_path: Path) -> None:
    """Whatever else is in them."""
    stored(tmp_path, "a", gzip.compress(b'{"schema": 9, "kind": "forwarding", "load_trials": []}'))
    with pytest.raises(StoreError, match="its schema is 9, this iolab reads 2"):
        read_packets(tmp_path, "a")


@pytest.mark.parametrize(
    "data",
    [b"", b"no gzip", gzip.compress(b"{"), gzip.compress(b"[1, 2]" * 100)[:30], gzip.compress(b"\xff\xfe")],
    # The bytes of gzip hold the time, which differs from one process of tests to the next.
    ids=["empty", "no gzip", "no JSON", "cut", "no UTF-8"],
)
def test_damaged_samples_are_told_with_their_file(tmp_path: Path, data: bytes) -> None:
    """Whatever is wrong in the file, the error names it and says what to do."""
    path = stored(tmp_path, "a", data)
    with pytest.raises(StoreError, match="restore the file from a copy") as caught:
        read_packets(tmp_path, "a")
    assert str(path) in str(caught.value)


def test_samples_that_unpack_to_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file cannot fill the memory."""
    monkeypatch.setattr(read, "MOST_BYTES", 1000)
    stored(tmp_path, "a", gzip.compress(b" " * 100_000 + b"1"))
    with pytest.raises(StoreError, match="allowed is less"):
        read_packets(tmp_path, "a")
