"""Series are stored as columns that any reader of Parquet understands, and read back without loss."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from tests.unit.store.drawn import any_series
from tests.unit.store.examples import BUSY, RATES

from iolab.errors import StoreError
from iolab.results.series import Series, series
from iolab.store.records import SAMPLES
from iolab.store.series import encode_series, read_series


def stored(folder: Path, data: bytes, key: str = "k") -> Path:
    """Stored."""
    (folder / SAMPLES).mkdir(exist_ok=True)
    path = folder / SAMPLES / f"{key}.parquet"
    path.write_bytes(data)
    return path


def test_series_are_read_as_they_were_stored(tmp_path: Path) -> None:
    """Series are read as they were stored."""
    stored(tmp_path, encode_series((RATES, BUSY)))
    assert read_series(tmp_path, "k") == (RATES, BUSY)


def test_a_trial_without_series_has_none(tmp_path: Path) -> None:
    """A trial without series has none."""
    assert read_series(tmp_path, "k") == ()


def test_the_table_has_a_column_for_every_dimension(tmp_path: Path) -> None:
    """The table has a column for every dimension."""
    table = parquet.read_table(stored(tmp_path, encode_series((RATES, BUSY))))
    assert table["flow"].to_pylist() == ["near->far", "near->far", None]
    assert table["cpu"].to_pylist() == [None, None, 1]
    assert table["value"].to_pylist() == [1e9, 2e9, 0.5]


@settings(max_examples=60, deadline=None)
@given(st.lists(any_series(), max_size=4))
def test_any_series_survive_the_disk(tmp_path_factory: pytest.TempPathFactory, many: list[Series]) -> None:
    """Any series survive the disk."""
    folder = tmp_path_factory.mktemp("run")
    stored(folder, encode_series(many))
    assert read_series(folder, "k") == tuple(many)


def test_a_table_of_another_version_is_refused_with_its_version(tmp_path: Path) -> None:
    """A table of another version is refused with its version."""
    path = stored(tmp_path, encode_series((RATES,)))
    table = parquet.read_table(path)
    parquet.write_table(table.replace_schema_metadata({b"iolab.series": b"7"}), path)
    with pytest.raises(StoreError, match="have schema 7, this iolab reads 1"):
        read_series(tmp_path, "k")


def test_a_table_with_a_column_too_many_is_refused_with_the_column(tmp_path: Path) -> None:
    """A table with a column too many is refused with the column."""
    path = stored(tmp_path, encode_series((RATES,)))
    table = parquet.read_table(path)
    parquet.write_table(table.append_column("colour", table["name"]), path)
    with pytest.raises(StoreError, match="colour"):
        read_series(tmp_path, "k")


def test_a_damaged_table_is_refused_with_its_path(tmp_path: Path) -> None:
    """A damaged table is refused with its path."""
    stored(tmp_path, encode_series((RATES,))[:-20])
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
