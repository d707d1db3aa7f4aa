"""The series of one trial as a Parquet table with a row per point, readable by any Parquet program.

Series may be large, and a report of many trials needs no series, so series are read on demand.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from iolab.aliases import new_keys
from iolab.errors import StoreError
from iolab.locale import Phrase
from iolab.results.metric import Dimensions, names
from iolab.results.series import Over, Series
from iolab.store.packs import sample, sample_names
from iolab.store.records import SAMPLES, SERIES, records_folder

SERIES_SCHEMA = 1
"""Version of the table, stored in the file under the key `iolab.series`."""
_KEY = b"iolab.series"
NEW_DIMENSIONS = frozenset({"block_bytes", "depth", "rate_bps", "buffer_bytes", "section"})
"""Dimensions that were added after the first version of the table was in use."""
_OF = ("name", "unit", "over", "source")
_ARROW = {str: "string", int: "int64", float: "float64"}


def encode_series(series: Sequence[Series]) -> bytes:
    """Return series as a Parquet file; the rows of one series are contiguous, in time order."""
    import pyarrow as pa
    from pyarrow import parquet

    lengths = [len(each.at_ns) for each in series]
    number = np.repeat(np.arange(len(series), dtype=np.int32), lengths)
    columns: dict[str, Any] = {"series": pa.array(number)}
    for name in _OF:
        columns[name] = _repeated([str(getattr(each, name)) for each in series], "string", number)
    for name, kind in _dimensions().items():
        columns[name] = _repeated([getattr(each.dimensions, name) for each in series], kind, number)
    columns["at_ns"] = pa.array(_joined([each.at_ns for each in series], np.int64))
    columns["value"] = pa.array(_joined([each.values for each in series], np.float64))
    table = pa.table(columns).replace_schema_metadata({_KEY: str(SERIES_SCHEMA).encode()})
    sink = pa.BufferOutputStream()
    texts = [name for name in columns if name not in ("series", "at_ns", "value")]
    encodings = {"at_ns": "DELTA_BINARY_PACKED", "series": "DELTA_BINARY_PACKED"}
    parquet.write_table(table, sink, compression="zstd", use_dictionary=texts, column_encoding=encodings)
    return bytes(sink.getvalue())


def series_of(folder: Path) -> Callable[[str], tuple[Series, ...]]:
    """Return a function from a trial's key to its series; the folder is listed only once."""
    stored = sample_names(records_folder(folder) / SAMPLES, SERIES)
    return lambda key: read_series(folder, key) if f"{key}{SERIES}" in stored else ()


def read_series(folder: Path, key: str) -> tuple[Series, ...]:
    """Return the series of a trial; empty if none are stored.

    Raises:
        StoreError: the file is damaged, has a different version, or different columns.
    """
    from pyarrow import ArrowException, BufferReader, parquet

    path = records_folder(folder) / SAMPLES / f"{key}{SERIES}"

    try:
        content = None if path.is_file() else sample(path.parent, path.name)
        if content is None and not path.is_file():
            return ()
        file = parquet.ParquetFile(path if content is None else BufferReader(content))
        version = (file.schema_arrow.metadata or {}).get(_KEY, b"none").decode()
        if version != str(SERIES_SCHEMA):
            raise StoreError(
                Phrase("store.series-of-other-schema", path=path, version=version, known=SERIES_SCHEMA)
            )
        table = file.read()
        columns = dict.fromkeys(table.column_names)
        table = table.rename_columns(list(new_keys(columns, Dimensions.__name__)))
        expected = ["series", *_OF, *_dimensions(), "at_ns", "value"]
        table = _with_absent(table)
        if table.column_names != expected:
            odd = sorted(set(table.column_names) ^ set(expected)) or table.column_names
            raise ValueError(Phrase("store.columns-differ", version=SERIES_SCHEMA, columns=odd))
        return tuple(_series(table))
    except (OSError, ValueError, ArrowException) as error:
        raise StoreError(Phrase("store.restore-or-measure-again", path=path, reason=error)) from error


def _with_absent(table: Any) -> Any:
    """Return a table with null columns for the dimensions that did not exist when the table was written."""
    import pyarrow as pa

    for place, (name, kind) in enumerate(_dimensions().items(), start=1 + len(_OF)):
        if name not in table.column_names and name in NEW_DIMENSIONS:
            table = table.add_column(place, name, pa.nulls(table.num_rows, pa.type_for_alias(kind)))
    return table


def _series(table: Any) -> Iterator[Series]:
    number = table["series"].to_numpy()
    at_ns, values = table["at_ns"].to_numpy(), table["value"].to_numpy()
    bounds = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
    firsts = table.take(bounds[:-1]).to_pylist() if len(number) else []
    for row, begin, end in zip(firsts, bounds, bounds[1:], strict=False):
        yield Series(
            name=row["name"],
            unit=row["unit"],
            at_ns=at_ns[begin:end].copy(),
            values=values[begin:end].copy(),
            dimensions=Dimensions(**{name: row[name] for name in names()}),
            over=Over(row["over"]),
            source=row["source"],
        )


def _dimensions() -> Mapping[str, str]:
    """Return the column type of every dimension."""
    hints = get_type_hints(Dimensions)
    return {
        each.name: next(arrow for kind, arrow in _ARROW.items() if kind in hints[each.name].__args__)
        for each in fields(Dimensions)
    }


def _repeated(values: Sequence[object], kind: str, number: Any) -> Any:
    """Return a column that repeats a series' value in each of its rows."""
    import pyarrow as pa

    each = pa.array(values, type=pa.type_for_alias(kind))
    # Millions of rows share few texts, so each text is stored once.
    return (each.dictionary_encode() if kind == "string" else each).take(pa.array(number))


def _joined(parts: Sequence[Any], kind: Any) -> Any:
    return np.concatenate(parts) if parts else np.array([], dtype=kind)
