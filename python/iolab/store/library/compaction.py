"""Compact a library: merge the files of many additions, remove old runs, delete files that are no longer needed.

A compaction can be killed at any time: its files count only when its checkpoint exists, and the next compaction deletes
the files of a killed one.
"""

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from iolab.errors import StoreError
from iolab.locale import Phrase
from iolab.store.library.adding import put_part
from iolab.store.library.checkpoints import (
    NONE,
    Checkpoint,
    Contents,
    checkpoints,
    contents,
    folder_of,
    put_checkpoint,
    read_checkpoint,
    with_checkpoint,
)
from iolab.store.library.manifests import PART, STAGED, Manifest, Part, manifests
from iolab.store.library.reading import FACTORS, OWN, SERIES, count_of, rows_of
from iolab.store.parquet_files import ROW_GROUP, encodings

MIN_FILES = 100
"""Number of files from which a partition is merged: 1080 files of a run take 19 bytes a row and 0.26 s to read one
series; merged, they take 10 bytes and 0.01 s."""
RANGES = "0123456789abcdef"
"""First digits of the series in each range; one range of a partition is in memory at a time."""
MAX_ROWS = 1 << 24
"""Number of rows from which the next range begins a new file, about 200 MB."""
GRACE_S = 86_400.0
"""Default of the time for which replaced files are kept for readers [s]."""
DESCRIBED: Mapping[str, Any] = {"factors": FACTORS, "series": SERIES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a library."""

    months: int | None = None
    """Number of months, with the current one, that a run must have trials in; None: runs of any age."""
    bytes: int | None = None
    """Maximum total size of the runs as added [bytes]; the oldest runs are removed; None: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The result of a compaction."""

    files_before: int
    """Number of files in effect."""
    files_after: int
    """Number of files in effect."""
    removed: tuple[Manifest, ...]
    """Runs that were removed."""
    deleted: int
    """Number of deleted files."""
    deleted_bytes: int
    """Total size of the deleted files [bytes]."""


def compact(
    library: Path,
    now: datetime,
    *,
    limits: Limits | None = None,
    min_files: int = MIN_FILES,
    grace_s: float = GRACE_S,
) -> Compacted:
    """Merge the files of partitions with at least `min_files` files, remove runs beyond the limits, and delete files
    that no reader has needed for `grace_s`.

    Raises:
        InputError: the folder is not a library.
        StoreError: a file is damaged or cannot be written, or another compaction finished first.
    """
    before = contents(library)
    removed = beyond(before.runs, limits or Limits(), now)
    try:
        parts = _merged(before, {each.run for each in removed}, min_files)
        if removed or before.outdated or set(parts) != set(before.parts):
            checkpoint = Checkpoint(
                schema=NONE.schema,
                number=before.checkpoint.number + 1,
                additions=tuple(sorted({each.file_name for each in before.runs if each not in removed})),
                removed=tuple(sorted({*before.checkpoint.removed, *(each.run for each in removed)})),
                parts=tuple(parts),
            )
            if not put_checkpoint(library, checkpoint):
                raise StoreError(Phrase("library.other-compaction", library=library))
        deleted = [*_delete_unneeded(library, now.timestamp() - grace_s)]
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(Phrase("library.compacting-failed", library=library, reason=reason)) from error
    return Compacted(
        files_before=len(before.parts),
        files_after=len(parts),
        removed=removed,
        deleted=len(deleted),
        deleted_bytes=sum(deleted),
    )


def beyond(runs: Sequence[Manifest], limits: Limits, now: datetime) -> tuple[Manifest, ...]:
    """Return the runs beyond the limits, oldest first: those without trials in the last months, then the oldest until
    the others fit the size. The age of a run is the month of its newest trial."""
    aged = sorted(runs, key=lambda run: (_newest_month(run), run.name, run.run))
    utc = now.astimezone(UTC)
    first = None if limits.months is None else utc.year * 12 + utc.month - limits.months + 1
    size = sum(_bytes(run) for run in aged)
    found = []
    for run in aged:
        is_old = first is not None and _newest_month(run) < first
        if is_old or (limits.bytes is not None and size > limits.bytes):
            found.append(run)
            size -= _bytes(run)
    return tuple(found)


def _newest_month(run: Manifest) -> int:
    """Return the month of a run's newest trial, as the number of months since the year 0."""
    months = [part.path.partition("month=")[2][:7] for part in run.parts if part.table == "trials"]
    year, _, month = max(months, default="0000-01").partition("-")
    return int(year) * 12 + int(month)


def _bytes(run: Manifest) -> int:
    return sum(part.bytes for part in run.parts)


def _merged(of: Contents, removed: Collection[str], min_files: int) -> list[Part]:
    """Return the files of the next checkpoint: merged ones, and the others as they are."""
    gone = [each for each in of.runs if each.run in removed]
    included = set(of.checkpoint.additions)
    absent = {part.path for each in gone if each.file_name not in included for part in each.parts}
    absent -= {part.path for each in of.runs if each not in gone for part in each.parts}
    now_outdated = replace(
        of,
        own=tuple(part for part in of.own if part.path not in absent),
        outdated=of.outdated | {each.run for each in gone if each.file_name in included},
        touched=of.touched
        | {folder_of(part) for each in gone if each.file_name in included for part in each.parts},
    )
    groups: dict[str, list[Part]] = {}
    for part in now_outdated.parts:
        groups.setdefault(folder_of(part), []).append(part)
    parts: list[Part] = []
    with TemporaryDirectory(prefix=".adding-", dir=of.library) as scratch:
        for folder, own in groups.items():
            is_trials = own[0].table == "trials"
            if len(own) < max(2, min_files) and not (is_trials and folder in now_outdated.touched):
                parts += own
            elif is_trials:
                parts += _merge_trials(now_outdated, folder, Path(scratch))
            else:
                parts.append(_merge_described(of.library, own, Path(scratch)))
    return parts


def _merge_trials(of: Contents, folder: str, scratch: Path) -> Iterator[Part]:
    """Write the rows of a partition to new files, one range of series at a time.

    Raises:
        StoreError: a row is in no range, because its series is not a digest.
    """
    total, left = 0, count_of(of, folder)
    written = scratch / "part"
    writer: Any = None
    for at, digit in enumerate(RANGES):
        table = rows_of(of, folder, digit).sort_by([("series", "ascending"), ("time", "ascending")])
        if table.num_rows and writer is None:
            options = {name: value for name, value in encodings(OWN).items() if name != "row_group_size"}
            writer = parquet.ParquetWriter(written, OWN, store_schema=False, **options)
        if table.num_rows:
            writer.write_table(table, row_group_size=ROW_GROUP)
            total, left = total + table.num_rows, left - table.num_rows
        if writer is not None and (total >= MAX_ROWS or at == len(RANGES) - 1):
            writer.close()
            yield _put(of.library, written, "trials", folder, total)
            writer, total = None, 0
    if left:
        raise StoreError(Phrase("library.rows-differ", path=of.library / folder, rows=left))


def _merge_described(library: Path, own: Sequence[Part], scratch: Path) -> Part:
    """Write the distinct rows of factors or series to one file."""
    table, schema = own[0].table, DESCRIBED[own[0].table]
    rows = pa.concat_tables(
        [parquet.read_table(library / part.path, schema=schema, partitioning=None) for part in own]
    )
    first: dict[object, int] = {}
    keys = zip(*(rows[name].to_pylist() for name in rows.column_names if name != "dimensions"), strict=True)
    for at, key in enumerate(keys):
        first.setdefault(key, at)
    written = scratch / "part"
    distinct = rows.take(pa.array(list(first.values()), pa.int64()))
    parquet.write_table(distinct, written, store_schema=False, **encodings(schema))
    return _put(library, written, table, table, distinct.num_rows)


def _put(library: Path, written: Path, table: str, folder: str, rows: int) -> Part:
    """Sync a file, check its number of rows, and move it to its place."""
    if parquet.read_metadata(written).num_rows != rows:
        raise StoreError(Phrase("library.rows-differ", path=written, rows=rows))
    with written.open("rb") as file:
        os.fsync(file.fileno())
    return put_part(library, written, table, folder, rows)


def _delete_unneeded(library: Path, before_s: float) -> Iterator[int]:
    """Delete files that are not in effect, and were not in effect after the time `before_s`; yield their sizes.

    A checkpoint was in effect until the next one was written.
    """
    every, known = manifests(library), checkpoints(library)
    ended = [path.stat().st_mtime for path in known]
    states = [NONE, *map(read_checkpoint, known)]
    needed = {
        part.path
        for state, end in zip(states, [*ended, float("inf")], strict=True)
        if end > before_s
        for part in with_checkpoint(library, every, state).parts
    }
    for place, folders, names in os.walk(library):
        for folder in [each for each in folders if each.startswith(".adding-")]:
            folders.remove(folder)
            if (Path(place) / folder).stat().st_mtime < before_s:
                shutil.rmtree(Path(place) / folder, ignore_errors=True)
        for name in names:
            path = Path(place) / name
            relative = str(path.relative_to(library))
            is_file = PART.fullmatch(relative) or STAGED.fullmatch(name)
            if not is_file or relative in needed:
                continue
            with suppress(FileNotFoundError):
                status = path.lstat()
                if status.st_mtime < before_s:
                    path.unlink()
                    yield status.st_size
