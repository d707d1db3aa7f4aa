"""Read a library: its additions, its figures as Arrow datasets, and the result of a SELECT over these figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset

from iolab.errors import InputError, Problem, StoreError, UnsupportedError
from iolab.locale import Phrase
from iolab.store.columns import TRIALS_COLUMNS
from iolab.store.library.manifests import Manifest, in_effect, manifests

TABLES = ("trials", "factors", "series", "runs")
"""Names of the tables that a query can use."""
MEMORY = "1GB"
"""Memory limit of a query; a query that needs more memory fails, and never writes to the disk."""
EXTRA = "iolab[library]"
_TEXT, _PAIRS = pa.string(), pa.map_(pa.string(), pa.string())
_KEYS = pa.schema([("host_class", _TEXT), ("month", _TEXT)])
_OWN = pa.schema(
    [
        (field.name, _TEXT if pa.types.is_dictionary(field.type) else field.type)
        for field in TRIALS_COLUMNS
        if field.name != "host_class"
    ]
)
"""Columns of the files: texts are not dictionary-encoded, because Arrow's filters on dictionaries skip no row
groups."""
_SERIES = pa.schema(
    [*((name, _TEXT) for name in ("series", "cell", "measure", "kind", "metric", "unit")),
     ("method", pa.int16()), ("dimensions", _PAIRS), ("better", _TEXT), ("host_class", _TEXT)]
)  # fmt: skip
_FACTORS = pa.schema([(name, _TEXT) for name in ("cell", "factor", "level")])


def trials_of(library: Path, runs: Sequence[Manifest]) -> Any:
    """Return the figures of runs as a dataset, with the columns of `trials` and `month`.

    Raises:
        StoreError: a file is missing.
    """
    schema = pa.schema([*_OWN, *_KEYS])
    return _dataset(library, runs, "trials", schema, dataset.partitioning(_KEYS, flavor="hive"))


def described(library: Path, runs: Sequence[Manifest]) -> tuple[Any, Any]:
    """Return the tables `factors` and `series` without duplicate rows.

    Raises:
        StoreError: a file is missing.
    """
    factors = _dataset(library, runs, "factors", _FACTORS).to_table()
    series = _dataset(library, runs, "series", _SERIES).to_table()
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


def _dataset(
    library: Path, runs: Sequence[Manifest], table: str, schema: Any, partitioning: Any = None
) -> Any:
    paths = [library / part.path for each in runs for part in each.parts if part.table == table]
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
    runs = in_effect(manifests(library))
    factors, series = described(library, runs)
    tables = dict(zip(TABLES, (trials_of(library, runs), factors, series, runs_table(runs)), strict=True))
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
