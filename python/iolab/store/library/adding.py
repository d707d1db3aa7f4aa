"""Add a run to a library: Parquet files by class of hosts and month, then the manifest."""

import os
from collections.abc import Iterator, Set
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.compute as pc

import iolab
from iolab.errors import StoreError
from iolab.locale import Phrase
from iolab.store.columns import TRIALS_COLUMNS, Tables
from iolab.store.digests import run_id
from iolab.store.frames import sync_folder
from iolab.store.library.checkpoints import checkpoints, read_checkpoint
from iolab.store.library.manifests import (
    MANIFESTS,
    NAME,
    SCHEMA,
    Manifest,
    Part,
    put_manifest,
    read_manifest,
    sha256_of,
)
from iolab.store.lines import Identity, stored_lines
from iolab.store.parquet_files import write_table
from iolab.store.records import TRIALS, records_folder
from iolab.store.run_tables import Run


class State(StrEnum):
    """The result of an addition."""

    ADDED = "added"
    EXISTS = "exists"
    """The library already has these trials, or more trials of the same run."""
    REMOVED = "removed"
    """A compaction removed the run from the library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """The result of an addition."""

    state: State
    """Whether the run was added."""
    manifest: Manifest | None
    """The manifest of the addition that contains the run's trials."""


def add(library: Path, run: Run) -> Addition:
    """Add a run, or the trials that the run has gained since it was last added.

    Raises:
        StoreError: the run has no trials, continues a run in the library with different trials, or cannot be written.
    """
    of = run.identity
    if not of.trials:
        raise StoreError(Phrase("library.run-without-trials", run=run.folder))
    known = checkpoints(library)
    if known and run_id(of) in read_checkpoint(known[-1]).removed:
        return Addition(state=State.REMOVED, manifest=None)
    longer = _known(library, run, of)
    if longer is not None:
        return Addition(state=State.EXISTS, manifest=longer)
    try:
        manifest = add_tables(library, run.tables)
    except OSError as error:
        raise StoreError(
            Phrase("library.adding-failed", library=library, reason=error.strerror or error)
        ) from error
    return Addition(state=State.EXISTS if manifest is None else State.ADDED, manifest=manifest)


def add_tables(library: Path, tables: Tables) -> Manifest | None:
    """Add the tables of a run; None: another writer has added them in the meantime.

    Raises:
        OSError: a file cannot be written.
        StoreError: the tables are not those of a run.
    """
    about = tables.about
    if not tables.trials.schema.equals(TRIALS_COLUMNS):
        raise StoreError(Phrase("library.columns-differ", columns=tables.trials.column_names))
    library.mkdir(parents=True, exist_ok=True)
    (library / MANIFESTS).mkdir(exist_ok=True)
    parts = []
    with TemporaryDirectory(prefix=".adding-", dir=library) as scratch:
        for table, folder, rows in _split(tables):
            parts.append(_put_part(library, Path(scratch), table, folder, rows))
    manifest = Manifest(
        schema=SCHEMA,
        run=str(about["run"]),
        name=str(about["name"]),
        title=str(about["title"]),
        trials=int(str(about["trials"])),
        first=str(about["first"]),
        last=str(about["last"]),
        host_class=str(about["host_class"]),
        hosts=about["hosts"] if isinstance(about["hosts"], dict) else {},
        iolab=iolab.__version__,
        parts=tuple(parts),
    )
    return manifest if put_manifest(library, manifest) else None


def _split(tables: Tables) -> Iterator[tuple[str, str, Any]]:
    """Yield table, folder and rows of each file."""
    trials = tables.trials.drop_columns(["host_class"])
    months = pc.add(pc.multiply(pc.year(trials["time"]), 12), pc.subtract(pc.month(trials["time"]), 1))
    distinct = sorted(months.unique().to_pylist())
    for number in distinct:
        rows = trials if len(distinct) == 1 else trials.filter(pc.equal(months, number))
        month = f"{number // 12:04d}-{number % 12 + 1:02d}"
        yield "trials", f"trials/host_class={tables.about['host_class']}/month={month}", rows
    yield "factors", "factors", tables.factors
    yield "series", "series", tables.series


def _put_part(library: Path, scratch: Path, table: str, folder: str, rows: Any) -> Part:
    written = scratch / "part"
    write_table(written, rows.replace_schema_metadata(None), plain=True)
    return put_part(library, written, table, folder, rows.num_rows)


def put_part(library: Path, written: Path, table: str, folder: str, rows: int) -> Part:
    """Move a complete file to a path whose name is a digest of its content; an existing file is compared.

    Raises:
        OSError: the file cannot be moved.
        StoreError: a file with this name has different content.
    """
    digest = sha256_of(written)
    path = f"{folder}/part-{digest[:16]}.parquet"
    place = library / path
    size = written.stat().st_size
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(written, place)
        sync_folder(place.parent)
    except FileExistsError:
        if sha256_of(place) != digest:
            raise StoreError(Phrase("library.file-damaged", path=place)) from None
        os.utime(place)  # so that no compaction deletes the file as unneeded before a manifest names it
    written.unlink()  # the next file must not overwrite this one, which has the same inode
    return Part(table=table, path=path, rows=rows, bytes=size, sha256=digest)


def _known(library: Path, run: Run, of: Identity) -> Manifest | None:
    """Return an addition that already has all trials of the run.

    Raises:
        StoreError: a run in the library starts with the same trial and continues with different trials.
    """
    folder = library / MANIFESTS
    found = [path for path in folder.glob(f"{run_id(of)}-*.json") if NAME.fullmatch(path.name)]
    every = [read_manifest(path) for path in sorted(found, reverse=True)]
    lines = _line_digests(run, {each.trials for each in every})
    for known in every:
        if known.trials <= of.trials and lines.get(known.trials) != known.last:
            raise StoreError(
                Phrase("library.other-continuation", run=run.folder, name=known.name, library=library)
            )
        if known.trials >= of.trials:
            return known
    return None


def _line_digests(run: Run, numbers: Set[int]) -> dict[int, str]:
    """Return the digests of some lines of the run's trials, by line number from 1."""
    lines = stored_lines(records_folder(run.folder), TRIALS) if numbers else ()
    limited = enumerate(islice(lines, max(numbers, default=0)), start=1)
    return {number: sha256(line).hexdigest() for number, (_, line) in limited if number in numbers}
