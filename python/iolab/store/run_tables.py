"""The figures of a run as Arrow tables: from its Parquet files if they are current, else from its records."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyarrow import ArrowException, parquet

from iolab.errors import InputError, StoreError
from iolab.locale import Phrase
from iolab.store.columns import Tables, tables
from iolab.store.folder import decided_file
from iolab.store.lines import Identity, identity
from iolab.store.parquet_files import about_run
from iolab.store.read import load_run, not_a_run
from iolab.store.records import PLAN, TABLES, TRIALS, records_folder


@dataclass(frozen=True)
class Run:
    """A run folder whose figures are Arrow tables, for notebooks and other programs."""

    folder: Path
    """The run folder."""

    def trials(self) -> Any:
        """Return a pyarrow.Table with a row per metric of a trial; docs/reference/run-folder.md names the columns."""
        return self.tables.trials

    def factors(self) -> Any:
        """Return a pyarrow.Table with a row per cell and factor: cell, factor, level."""
        return self.tables.factors

    def series(self) -> Any:
        """Return a pyarrow.Table with a row per series: cell, measure, metric, unit, method, dimensions, host class."""
        return self.tables.series

    @cached_property
    def identity(self) -> Identity:
        """Identity of the run's trials."""
        return identity(records_folder(self.folder), TRIALS)

    @cached_property
    def tables(self) -> Tables:
        """The tables.

        Raises:
            StoreError: a file of the run is damaged.
        """
        packed = None if records_folder(self.folder) != self.folder else _packed(self.folder, self.identity)
        return packed or tables(load_run(self.folder), self.identity)


def open_run(folder: Path) -> Run:
    """Return a run folder for reading its figures.

    Raises:
        InputError: the path is not a run folder.
    """
    if not decided_file(folder, PLAN).is_file():
        raise InputError([not_a_run(folder)])
    return Run(folder)


def _packed(folder: Path, of: Identity) -> Tables | None:
    """Return the tables of a packed run; None: the run is not packed, or was extended after packing."""
    about = about_run(folder / TABLES[0])
    if (about.get("trials"), about.get("first"), about.get("last")) != (of.trials, of.first, of.last):
        return None
    try:
        trials, factors, series = (parquet.read_table(folder / name, partitioning=None) for name in TABLES)
    except (OSError, ValueError, ArrowException) as error:
        raise StoreError(
            Phrase("store.restore-or-measure-again", path=folder / TABLES[0], reason=error)
        ) from error
    return Tables(trials=trials, factors=factors, series=series, about=about)
