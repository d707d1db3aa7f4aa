"""What a trial stored with its record: samples and series, read back when they are requested."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from tests.unit.records import balance, load_record, packet_trial, port
from tests.unit.store.drawn import any_series
from tests.unit.store.examples import BUSY, RATES

from iolab.errors import StoreError
from iolab.messages.places import AtPort
from iolab.results.packets import PacketTrial
from iolab.results.series import Series, series
from iolab.store import read
from iolab.store.codec import encode_packets
from iolab.store.read import read_packets
from iolab.store.records import SAMPLES
from iolab.store.series import encode_series, read_series
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
    with pytest.raises(StoreError, match="of schema 9: this iolab reads schemas 2"):
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
    with pytest.raises(StoreError, match="restore the file from a backup") as caught:
        read_packets(tmp_path, "a")
    assert str(path) in str(caught.value)


def test_samples_that_unpack_to_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file cannot fill the memory."""
    monkeypatch.setattr(read, "MOST_BYTES", 1000)
    stored(tmp_path, "a", gzip.compress(b" " * 100_000 + b"1"))
    with pytest.raises(StoreError, match="allowed is less"):
        read_packets(tmp_path, "a")


def stored_series(folder: Path, data: bytes, key: str = "k") -> Path:
    """Stored."""
    (folder / SAMPLES).mkdir(exist_ok=True)
    path = folder / SAMPLES / f"{key}.parquet"
    path.write_bytes(data)
    return path


def test_series_are_read_as_they_were_stored(tmp_path: Path) -> None:
    """Series are read as they were stored."""
    stored_series(tmp_path, encode_series((RATES, BUSY)))
    assert read_series(tmp_path, "k") == (RATES, BUSY)


def test_a_trial_without_series_has_none(tmp_path: Path) -> None:
    """A trial without series has none."""
    assert read_series(tmp_path, "k") == ()


def test_the_table_has_a_column_for_every_dimension(tmp_path: Path) -> None:
    """The table has a column for every dimension."""
    table = parquet.read_table(stored_series(tmp_path, encode_series((RATES, BUSY))))
    assert table["flow"].to_pylist() == ["near->far", "near->far", None]
    assert table["cpu"].to_pylist() == [None, None, 1]
    assert table["value"].to_pylist() == [1e9, 2e9, 0.5]


@settings(max_examples=60, deadline=None)
@given(st.lists(any_series(), max_size=4))
def test_any_series_survive_the_disk(tmp_path_factory: pytest.TempPathFactory, many: list[Series]) -> None:
    """Any series survive the disk."""
    folder = tmp_path_factory.mktemp("run")
    stored_series(folder, encode_series(many))
    assert read_series(folder, "k") == tuple(many)


def test_a_table_of_another_version_is_refused_with_its_version(tmp_path: Path) -> None:
    """A table of another version is refused with its version."""
    path = stored_series(tmp_path, encode_series((RATES,)))
    table = parquet.read_table(path)
    parquet.write_table(table.replace_schema_metadata({b"iolab.series": b"7"}), path)
    with pytest.raises(StoreError, match="have schema 7, but this iolab reads schema 1"):
        read_series(tmp_path, "k")


def test_a_table_with_a_column_too_many_is_refused_with_the_column(tmp_path: Path) -> None:
    """A table with a column too many is refused with the column."""
    path = stored_series(tmp_path, encode_series((RATES,)))
    table = parquet.read_table(path)
    parquet.write_table(table.append_column("colour", table["name"]), path)
    with pytest.raises(StoreError, match="colour"):
        read_series(tmp_path, "k")


def test_a_damaged_table_is_refused_with_its_path(tmp_path: Path) -> None:
    """A damaged table is refused with its path."""
    stored_series(tmp_path, encode_series((RATES,))[:-20])
    with pytest.raises(StoreError, match=r"samples/k\.parquet"):
        read_series(tmp_path, "k")


def test_series_whose_columns_do_not_belong_together_are_refused() -> None:
    """Series whose columns do not belong together are refused."""
    with pytest.raises(ValueError, match="do not rise"):
        series("received_bps", "bit/s", [(200, 1.0), (100, 1.0)])
    with pytest.raises(ValueError, match="no points"):
        series("received_bps", "bit/s", [])
    with pytest.raises(ValueError, match="values"):
        Series("x_bps", "bit/s", np.array([1], dtype=np.int64), np.array([1.0, 2.0]))
