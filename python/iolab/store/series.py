"""The series of one trial as one Parquet table, a row per point: any program that reads Parquet can read them.

They may be large, and a report of many trials needs none: they are read only when somebody asks for them.
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
from iolab.store.records import SAMPLES, SERIES, records_folder

SERIES_SCHEMA = 1
"""Version of the table; it is in the file, under the key `iolab.series`."""
_KEY = b"iolab.series"
NEW_DIMENSIONS = frozenset({"block_bytes", "depth", "rate_bps", "buffer_bytes", "section"})
"""Dimensions that came to the table after its first version was in use."""
_OF = ("name", "unit", "over", "source")
_ARROW = {str: "string", int: "int64", float: "float64"}


def encode_series(series: Sequence[Series]) -> bytes:
    """Return series as a Parquet file; rows of one series lie together, in the order of time."""
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
    """Return what reads the series of a run's trials by their keys; it looks once which trials stored any."""
    stored = {path.name for path in (records_folder(folder) / SAMPLES).glob(f"*{SERIES}")}
    return lambda key: read_series(folder, key) if f"{key}{SERIES}" in stored else ()


def read_series(folder: Path, key: str) -> tuple[Series, ...]:
    """Return the series of a trial; none where it stored none.

    Raises:
        StoreError: the file is damaged, of another version, or has other columns.
    """
    path = records_folder(folder) / SAMPLES / f"{key}{SERIES}"
    if not path.is_file():
        return ()
    from pyarrow import ArrowException, parquet

    try:
        file = parquet.ParquetFile(path)
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
            raise ValueError(f"its columns differ from those of schema {SERIES_SCHEMA}: {', '.join(odd)}")
        return tuple(_series(table))
    except (OSError, ValueError, ArrowException) as error:
        raise StoreError(Phrase("store.restore-or-measure-again", path=path, reason=error)) from error


def _with_absent(table: Any) -> Any:
    """Return a table with the dimensions that the iolab that wrote it did not know; they apply to nothing in it."""
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
    """Return a column that has a series' value in each of its rows."""
    import pyarrow as pa

    each = pa.array(values, type=pa.type_for_alias(kind))
    # Millions of rows have a few texts: each is kept once.
    return (each.dictionary_encode() if kind == "string" else each).take(pa.array(number))


def _joined(parts: Sequence[Any], kind: Any) -> Any:
    return np.concatenate(parts) if parts else np.array([], dtype=kind)
