"""The figures of a run as tidy tables: `trials` has a row per metric of a trial, `factors` and `series` describe them.

A series has the values of one quantity in one resolved cell, with one method version, on one class of hosts.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from iolab.results.metric import Heads
from iolab.store.digests import cell_digest, digest, host_class, run_id, stable_facts
from iolab.store.lines import Identity
from iolab.store.records import StoredRun, TrialRecord

COLUMNS_SCHEMA = 1
"""Version of the tables, stored in the files under the key `iolab.columns`."""
ABOUT = b"iolab.columns"
_TEXT = pa.dictionary(pa.int32(), pa.string())
_PAIRS = pa.map_(pa.string(), pa.string())
TRIALS_COLUMNS = pa.schema(
    [
        ("series", _TEXT),
        ("time", pa.timestamp("us", tz="UTC")),
        ("run", _TEXT),
        ("block", pa.int32()),
        ("cell", _TEXT),
        ("measure", _TEXT),
        ("kind", _TEXT),
        ("metric", _TEXT),
        ("unit", _TEXT),
        ("method", pa.int16()),
        ("dimensions", _PAIRS),
        ("value", pa.float64()),
        ("limited_by", _TEXT),
        ("status", _TEXT),
        ("limit", _TEXT),
        ("flags", _TEXT),
        ("host_class", _TEXT),
    ]
)
"""Columns of `trials`: docs/reference/run-folder.md describes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of one run."""

    trials: Any
    """Rows in the order of series and time; a trial without metrics has one row, whose metric and value are null."""
    factors: Any
    """A row per cell and factor: cell, factor, level."""
    series: Any
    """A row per series."""
    about: Mapping[str, object]
    """Identity of the run and of its class of hosts."""


def tables(run: StoredRun, of: Identity) -> Tables:
    """Return the figures of a run as tables; the values are bit-identical to those in the records."""
    hosts = host_class(run.facts)
    made = _Rows(hosts)
    for record in run.trials:
        made.add(record)
    about = {
        "schema": COLUMNS_SCHEMA,
        "run": run_id(of),
        "name": run.name,
        "title": run.plan.title,
        "trials": of.trials,
        "first": of.first,
        "last": of.last,
        "host_class": hosts,
        "hosts": stable_facts(run.facts),
    }
    factors = [
        (cell, name, level) for cell, labels in sorted(made.cells.items()) for name, level in labels.items()
    ]
    metadata = {ABOUT: json.dumps(about).encode()}
    return Tables(
        trials=made.trials(run_id(of)).replace_schema_metadata(metadata),
        factors=_texts(("cell", "factor", "level"), factors).replace_schema_metadata(metadata),
        series=made.described().replace_schema_metadata(metadata),
        about=about,
    )


@dataclass(slots=True)
class _Rows:
    """The growing columns of the table `trials`: indices of series and trials, and values."""

    host_class: str
    cells: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of each cell."""
    _known: dict[tuple[object, ...], int] = field(default_factory=dict)
    """Index of each series, by the key of the series."""
    _series: list[tuple[Any, ...]] = field(default_factory=list)
    _of_heads: dict[tuple[int, str, str], Any] = field(default_factory=dict)
    _heads: list[Heads | None] = field(default_factory=list)
    """Metadata objects whose addresses are used as keys; this list keeps the objects alive."""
    _numbers: list[Any] = field(default_factory=list)
    _values: list[Any] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)
    _trials: list[tuple[Any, ...]] = field(default_factory=list)
    _limits: dict[int, str] = field(default_factory=dict)
    _rows: int = 0

    def add(self, record: TrialRecord) -> None:
        """Add the rows of a trial."""
        result, cell = record.result, cell_digest(record)
        self.cells.setdefault(cell, record.cell)
        heads: Heads | None = result.metrics.heads
        values = np.frombuffer(result.metrics.values, dtype=np.float64)
        if not len(values):
            heads, values = None, np.array([np.nan])
        key = (id(heads), cell, record.measure)
        if key not in self._of_heads:
            self._of_heads[key] = np.array([*self._numbered(record, cell, heads)], dtype=np.int32)
            self._heads.append(heads)
        self._numbers.append(self._of_heads[key])
        self._values.append(values)
        self._counts.append(len(values))
        for at, bound in result.metrics.limits.items():
            self._limits[self._rows + at] = bound
        self._rows += len(values)
        flags = ",".join(sorted({each.code for each in result.warnings}))
        limit = None if result.verdict is None else result.verdict.limit.value
        self._trials.append((_microseconds(record.wall), record.block, result.status.value, limit, flags))

    def _numbered(self, record: TrialRecord, cell: str, heads: Heads | None) -> Iterator[int]:
        about = (cell, record.measure, record.kind)
        if heads is None:
            yield self._number((*about, None, None, None, (), ""))
            return
        columns = zip(heads.quantities, heads.units, heads.methods, heads.better, strict=True)
        for of, unit, method, better in columns:
            known = tuple((name, str(value)) for name, value in of.dimensions.known().items())
            yield self._number((*about, of.name, unit, method, known, better))

    def _number(self, key: tuple[Any, ...]) -> int:
        if key not in self._known:
            self._known[key] = len(self._series)
            cell, _, _, metric, _, method, dimensions, _ = key
            self._series.append((digest("series", cell, metric, dimensions, method, self.host_class), *key))
        return self._known[key]

    def trials(self, run_id: str) -> Any:
        """Return the table `trials`, sorted by series and time."""
        numbers = np.concatenate(self._numbers) if self._numbers else np.array([], dtype=np.int32)
        values = np.concatenate(self._values) if self._values else np.array([])
        of_trial = np.repeat(np.arange(len(self._trials), dtype=np.int32), self._counts)
        rank = np.argsort(np.argsort([each[0] for each in self._series], kind="stable"), kind="stable")
        times = np.array([each[0] for each in self._trials], dtype=np.int64)
        order = np.lexsort((times[of_trial], rank[numbers])) if len(numbers) else np.array([], dtype=np.int64)
        series, trial = numbers[order], of_trial[order]
        limited = np.zeros(len(order), dtype=np.int32)
        names = sorted(set(self._limits.values()))
        for at, name in self._limits.items():
            limited[at] = names.index(name) + 1
        described = [*zip(*self._series, strict=True)] or [()] * 9
        taken = [*zip(*self._trials, strict=True)] or [()] * 5
        columns = {
            "series": _taken(described[0], series),
            "time": pa.array(times[trial]).cast(pa.timestamp("us", tz="UTC")),
            "run": _taken([run_id], np.zeros(len(order), dtype=np.int32)),
            "block": pa.array(np.array(taken[1], dtype=np.int32)[trial]),
            "cell": _taken(described[1], series),
            "measure": _taken(described[2], series),
            "kind": _taken(described[3], series),
            "metric": _taken(described[4], series),
            "unit": _taken(described[5], series),
            "method": pa.array(described[6], pa.int16()).take(pa.array(series)),
            "dimensions": pa.array(described[7], _PAIRS).take(pa.array(series)),
            "value": _values(
                values[order], [described[4][at] is None for at in range(len(self._series))], series
            ),
            "limited_by": _taken([None, *names], limited[order]),
            "status": _taken(taken[2], trial),
            "limit": _taken(taken[3], trial),
            "flags": _taken(taken[4], trial),
            "host_class": _taken([self.host_class], np.zeros(len(order), dtype=np.int32)),
        }
        return pa.table(columns, schema=TRIALS_COLUMNS)

    def described(self) -> Any:
        """Return the table `series`."""
        names = ("series", "cell", "measure", "kind", "metric", "unit", "method", "dimensions", "better")
        described = [*zip(*sorted(each for each in self._series if each[4] is not None), strict=True)] or [
            ()
        ] * 9
        kinds = {"method": pa.int16(), "dimensions": _PAIRS}
        columns = {
            name: pa.array(column, kinds.get(name, pa.string()))
            for name, column in zip(names, described, strict=True)
        }
        return pa.table(
            {**columns, "host_class": pa.array([self.host_class] * len(described[0]), pa.string())}
        )


def _values(values: Any, absent: Sequence[bool], series: Any) -> Any:
    """Return the values; trials without metrics have null, and a measured NaN stays a NaN."""
    mask = np.array(absent, dtype=bool)[series] if len(series) else np.array([], dtype=bool)
    return pa.array(values, mask=mask)


def _taken(texts: Sequence[str | None], at: Any) -> Any:
    """Return a dictionary-encoded column with the text of each index."""
    distinct = {
        text: number for number, text in enumerate(dict.fromkeys(text for text in texts if text is not None))
    }
    numbers = np.array([distinct.get(text, -1) if text is not None else -1 for text in texts], dtype=np.int32)
    rows = numbers[at] if len(at) else np.array([], dtype=np.int32)
    return pa.DictionaryArray.from_arrays(
        pa.array(rows, mask=rows < 0), pa.array(list(distinct), pa.string())
    )


def _texts(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    columns = [*zip(*rows, strict=True)] or [()] * len(names)
    return pa.table({name: pa.array(each, pa.string()) for name, each in zip(names, columns, strict=True)})


def _microseconds(wall: str) -> int:
    """Return a start time since 1970 [us]."""
    found = datetime.fromisoformat(wall)
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return round((found - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6)
