"""Read a library: its additions, its figures as Arrow datasets, and the result of a SELECT over these figures."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from iolab.errors import InputError, Problem, StoreError, UnsupportedError
from iolab.locale import Phrase
from iolab.store.columns import TRIALS_COLUMNS
from iolab.store.library.checkpoints import Contents, contents, folder_of
from iolab.store.library.manifests import Manifest, Part

TABLES = ("trials", "factors", "series", "runs")
"""Names of the tables that a query can use."""
MEMORY = "1GB"
"""Memory limit of a query; a query that needs more memory fails, and never writes to the disk."""
EXTRA = "iolab[library]"
_TEXT, _PAIRS = pa.string(), pa.map_(pa.string(), pa.string())
_KEYS = pa.schema([("host_class", _TEXT), ("month", _TEXT)])
OWN = pa.schema(
    [
        (field.name, _TEXT if pa.types.is_dictionary(field.type) else field.type)
        for field in TRIALS_COLUMNS
        if field.name != "host_class"
    ]
)
"""Columns of the files: texts are not dictionary-encoded, because Arrow's filters on dictionaries skip no row
groups."""
SERIES = pa.schema(
    [*((name, _TEXT) for name in ("series", "cell", "measure", "kind", "metric", "unit")),
     ("method", pa.int16()), ("dimensions", _PAIRS), ("better", _TEXT), ("host_class", _TEXT)]
)  # fmt: skip
FACTORS = pa.schema([(name, _TEXT) for name in ("cell", "factor", "level")])


def trials_of(of: Contents) -> Any:
    """Return the figures of a library as a dataset, with the columns of `trials` and `month`.

    Files of a checkpoint that have outdated rows are read into memory without these rows; the next compaction removes
    them from the files.

    Raises:
        StoreError: a file is missing.
    """
    valid = [part for part in of.merged if not (of.outdated and folder_of(part) in of.touched)]
    mixed = [part for part in of.merged if part.table == "trials" and part not in valid]
    found = _trials(of.library, [*valid, *of.own])
    if not mixed:
        return found
    rows = _trials(of.library, mixed).to_table(filter=_valid(of))
    return dataset.dataset([found, dataset.dataset(rows)])


def rows_of(of: Contents, folder: str, digit: str) -> Any:
    """Return the valid rows of a partition whose series start with a digit, with the columns of the files.

    Raises:
        StoreError: a file is missing.
    """
    series = pc.field("series")
    in_range = (series >= digit) & (series < chr(ord(digit) + 1))
    return pa.concat_tables([rows.to_table(filter=in_range & valid) for rows, valid in _sources(of, folder)])


def count_of(of: Contents, folder: str) -> int:
    """Return the number of valid rows of a partition.

    Raises:
        StoreError: a file is missing.
    """
    return sum(rows.count_rows(filter=valid) for rows, valid in _sources(of, folder))


def _sources(of: Contents, folder: str) -> Iterator[tuple[Any, Any]]:
    """Yield the datasets of a partition, each with the expression for its valid rows."""
    for parts, valid in ((of.merged, _valid(of)), (of.own, pc.scalar(True))):
        if chosen := [part for part in parts if folder_of(part) == folder]:
            yield _dataset(of.library, chosen, "trials", OWN), valid


def _valid(of: Contents) -> Any:
    """Return the expression for the valid rows in the files of the checkpoint."""
    return ~pc.field("run").isin(pa.array(sorted(of.outdated), pa.string()))


def _trials(library: Path, parts: Sequence[Part]) -> Any:
    schema = pa.schema([*OWN, *_KEYS])
    return _dataset(library, parts, "trials", schema, dataset.partitioning(_KEYS, flavor="hive"))


def described(of: Contents) -> tuple[Any, Any]:
    """Return the tables `factors` and `series` without duplicate rows.

    Raises:
        StoreError: a file is missing.
    """
    factors = _dataset(of.library, of.parts, "factors", FACTORS).to_table()
    series = _dataset(of.library, of.parts, "series", SERIES).to_table()
    return factors.group_by(["cell", "factor", "level"]).aggregate([]), _once(series)


def _once(series: Any) -> Any:
    """Return the first row of each series."""
    first: dict[str, int] = {}
    for at, name in enumerate(series["series"].to_pylist()):
        first.setdefault(name, at)
    return series.take(pa.array(list(first.values()), pa.int64()))


def runs_table(runs: Sequence[Manifest]) -> Any:
    """Return the table `runs`: a row per run in the library."""
    columns = {
        "run": [each.run for each in runs],
        "name": [each.name for each in runs],
        "title": [each.title for each in runs],
        "host_class": [each.host_class for each in runs],
        "iolab": [each.iolab for each in runs],
    }
    made = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    return pa.table({**made, "trials": pa.array([each.trials for each in runs], pa.int64())})


def _dataset(library: Path, parts: Sequence[Part], table: str, schema: Any, partitioning: Any = None) -> Any:
    paths = [library / part.path for part in parts if part.table == table]
    if missing := [path for path in paths if not path.is_file()]:
        raise StoreError(
            Phrase("store.restore-from-copy", path=missing[0], reason=Phrase("library.file-missing"))
        )
    if not paths:
        return dataset.dataset(schema.empty_table())
    names = [str(path) for path in dict.fromkeys(paths)]
    return dataset.dataset(
        names, schema=schema, format="parquet", partitioning=partitioning,
        **({"partition_base_dir": str(library)} if partitioning else {}),
    )  # fmt: skip


def query(library: Path, text: str) -> Any:
    """Return the result of one SELECT over the tables as an Arrow table.

    The database has no files: the tables are Arrow datasets, external access is off and the configuration is locked, so
    that the text cannot read or write anything else.

    Raises:
        InputError: the text is not one SELECT, or the database refuses it.
        UnsupportedError: DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError:
        raise UnsupportedError(Phrase("library.extra-missing", what="DuckDB", extra=EXTRA)) from None
    of = contents(library)
    factors, series = described(of)
    tables = dict(zip(TABLES, (trials_of(of), factors, series, runs_table(of.runs)), strict=True))
    connection = duckdb.connect(":memory:", config={"temp_directory": "", "memory_limit": MEMORY})
    try:
        for name, table in tables.items():
            connection.register(name, table)
        for setting in LOCKED:
            connection.execute(f"SET {setting}")
        statements = connection.extract_statements(text)
        if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
            kinds = [each.type.name for each in statements]
            raise _refused(
                Phrase("library.statements", kinds=kinds) if kinds else Phrase("library.no-statement")
            )
        return connection.query(statements[0].query).to_arrow_table()
    except duckdb.Error as error:
        raise _refused(str(error)) from error
    finally:
        connection.close()


LOCKED = (
    "python_enable_replacements=false",
    "autoinstall_known_extensions=false",
    "autoload_known_extensions=false",
    "allow_community_extensions=false",
    "enable_external_access=false",
    "lock_configuration=true",
)
"""Settings of the database, applied in this order: the last one locks all settings."""


def _refused(seen: object) -> InputError:
    text = seen if isinstance(seen, Phrase) else " ".join(str(seen).split())
    allowed = Phrase("library.one-select", tables=TABLES)
    return InputError([Problem("library query", Phrase("library.querying"), text, allowed)])
