"""Stored samples and series of a trial, read back on request."""

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
from iolab.store import packs
from iolab.store.codec import encode_packets
from iolab.store.read import read_packets
from iolab.store.records import SAMPLES
from iolab.store.series import encode_series, read_series
from iolab.trial.counters.drops import RING_FULL


def whole() -> PacketTrial:
    """Return a packet trial with every optional part."""
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
    """Write a file to the place of samples."""
    path = folder / "samples" / f"{key}.packets.json.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def changed(change: Any) -> bytes:
    """Return a stored trial after a change of its JSON."""
    document = json.loads(encode_packets(whole()))
    change(document)
    return gzip.compress(json.dumps(document).encode())


def test_samples_are_read_back_as_stored(tmp_path: Path) -> None:
    """Compare values and types."""
    stored(tmp_path, "a1-b", gzip.compress(encode_packets(whole())))
    assert read_packets(tmp_path, "a1-b") == whole()


def test_trial_without_samples_returns_none(tmp_path: Path) -> None:
    """Accept a missing file and a missing folder."""
    assert read_packets(tmp_path, "a1") is None


@pytest.mark.parametrize("key", ["../samples/a", "a/b", "", ".hidden", "/etc/passwd"])
def test_sample_key_cannot_leave_the_folder(tmp_path: Path, key: str) -> None:
    """Return nothing for a key that is a path, even if a file is there."""
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
def test_missing_or_unknown_field_is_refused_with_file_and_line(
    tmp_path: Path, change: Any, said: str
) -> None:
    """Never decode a missing field to None, or drop an unknown one."""
    path = stored(tmp_path, "a", changed(change))
    with pytest.raises(StoreError) as caught:
        read_packets(tmp_path, "a")
    assert said in str(caught.value)
    assert f"{path}:1" in str(caught.value)


def test_samples_of_an_unknown_schema_are_refused_with_both_schemas(tmp_path: Path) -> None:
    """Ignore the rest of the file."""
    stored(tmp_path, "a", gzip.compress(b'{"schema": 9, "kind": "forwarding", "load_trials": []}'))
    with pytest.raises(StoreError, match="of schema 9: this iolab reads schemas 2"):
        read_packets(tmp_path, "a")


@pytest.mark.parametrize(
    "data",
    [b"", b"no gzip", gzip.compress(b"{"), gzip.compress(b"[1, 2]" * 100)[:30], gzip.compress(b"\xff\xfe")],
    # gzip data contain the time, which differs between test processes.
    ids=["empty", "not gzip", "not JSON", "truncated", "not UTF-8"],
)
def test_damaged_samples_are_refused_with_their_file(tmp_path: Path, data: bytes) -> None:
    """Add a remedy."""
    path = stored(tmp_path, "a", data)
    with pytest.raises(StoreError, match="restore the file from a backup") as caught:
        read_packets(tmp_path, "a")
    assert str(path) in str(caught.value)


def test_samples_that_decompress_beyond_the_limit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protect the memory against a small file."""
    monkeypatch.setattr(packs, "MAX_SAMPLE", 1000)
    stored(tmp_path, "a", gzip.compress(b" " * 100_000 + b"1"))
    with pytest.raises(StoreError, match="after decompression"):
        read_packets(tmp_path, "a")


def stored_series(folder: Path, data: bytes, key: str = "k") -> Path:
    """Write a series file and return its path."""
    (folder / SAMPLES).mkdir(exist_ok=True)
    path = folder / SAMPLES / f"{key}.parquet"
    path.write_bytes(data)
    return path


def test_series_are_read_back_as_stored(tmp_path: Path) -> None:
    """Compare rates and CPU use."""
    stored_series(tmp_path, encode_series((RATES, BUSY)))
    assert read_series(tmp_path, "k") == (RATES, BUSY)


def test_trial_without_series_returns_an_empty_tuple(tmp_path: Path) -> None:
    """Accept a missing file."""
    assert read_series(tmp_path, "k") == ()


def test_series_table_has_a_column_for_every_dimension(tmp_path: Path) -> None:
    """Use null where a series lacks the dimension."""
    table = parquet.read_table(stored_series(tmp_path, encode_series((RATES, BUSY))))
    assert table["flow"].to_pylist() == ["near->far", "near->far", None]
    assert table["cpu"].to_pylist() == [None, None, 1]
    assert table["value"].to_pylist() == [1e9, 2e9, 0.5]


@settings(max_examples=60, deadline=None)
@given(st.lists(any_series(), max_size=4))
def test_any_series_are_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, many: list[Series]
) -> None:
    """Draw series at random."""
    folder = tmp_path_factory.mktemp("run")
    stored_series(folder, encode_series(many))
    assert read_series(folder, "k") == tuple(many)


def test_series_table_of_an_unknown_schema_is_refused(tmp_path: Path) -> None:
    """Name both schemas."""
    path = stored_series(tmp_path, encode_series((RATES,)))
    table = parquet.read_table(path)
    parquet.write_table(table.replace_schema_metadata({b"iolab.series": b"7"}), path)
    with pytest.raises(StoreError, match="have schema 7, but this iolab reads schema 1"):
        read_series(tmp_path, "k")


def test_series_table_with_an_unknown_column_is_refused(tmp_path: Path) -> None:
    """Name the column."""
    path = stored_series(tmp_path, encode_series((RATES,)))
    table = parquet.read_table(path)
    parquet.write_table(table.append_column("colour", table["name"]), path)
    with pytest.raises(StoreError, match="colour"):
        read_series(tmp_path, "k")


def test_damaged_series_table_is_refused_with_its_path(tmp_path: Path) -> None:
    """Truncate the file."""
    stored_series(tmp_path, encode_series((RATES,))[:-20])
    with pytest.raises(StoreError, match=r"samples/k\.parquet"):
        read_series(tmp_path, "k")


def test_inconsistent_series_columns_are_refused() -> None:
    """Check order, lengths, and empty series."""
    with pytest.raises(ValueError, match="do not increase"):
        series("received_bps", "bit/s", [(200, 1.0), (100, 1.0)])
    with pytest.raises(ValueError, match="no points"):
        series("received_bps", "bit/s", [])
    with pytest.raises(ValueError, match="values"):
        Series("x_bps", "bit/s", np.array([1], dtype=np.int64), np.array([1.0, 2.0]))
