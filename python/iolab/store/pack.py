"""Pack a run: store it in few files instead of two per trial, and add its figures as tables.

The run is readable after each step, and the next call completes steps that were interrupted.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from iolab.errors import InputError, StoreError
from iolab.locale import Phrase
from iolab.store.folder import RunFolder
from iolab.store.frames import sync_folder
from iolab.store.housekeeping import weight
from iolab.store.lines import SEALED, identity, parts_of, seal
from iolab.store.packs import LOOSE, PACK_BYTES, pack_samples, packs_of
from iolab.store.read import load_run, not_a_run
from iolab.store.records import COMMANDS, PLAN, REVISIONS, SAMPLES, TABLES, TRIALS, StoredRun

MIN_FILES = 1000
"""Number of files in `samples/` from which a run is packed at its end: about 500 trials. The files of smaller runs stay
separate, so that people can read them without decompressing."""
MIN_BYTES = PACK_BYTES
"""Size of `samples/` from which a run is packed at its end [bytes]: it fills one pack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The size of a run before and after packing."""

    files_before: int
    """Number of files."""
    files_after: int
    """Number of files."""
    bytes_before: int
    """Sum of the file sizes [bytes]."""
    bytes_after: int
    """Sum of the file sizes [bytes]."""


def pack(path: Path) -> Packed:
    """Pack a run folder. Every command can use the packed run as before, and the run can still be resumed and extended.

    Raises:
        InputError: the path is not a run folder.
        StoreError: a different process writes to the run, a file is damaged, or the disk is full.
    """
    if not (path / PLAN).is_file() or path.resolve().parent.name == REVISIONS:
        raise InputError([not_a_run(path)])
    folder = RunFolder(path)
    try:
        run = load_run(path)  # a damaged run is refused before anything is changed
        files_before, bytes_before = weight(path)
        folder.begin_parts()
        for name in (TRIALS, COMMANDS):
            for part in parts_of(path, name):
                if part.suffix != SEALED and part.name != name:
                    seal(part)
        _remove_sealed(path)
        pack_samples(path / SAMPLES)
        _write_tables(path, run)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(Phrase("store.packing-failed", path=path, reason=reason)) from error
    finally:
        folder.close()
    files_after, bytes_after = weight(path)
    return Packed(
        files_before=files_before, files_after=files_after, bytes_before=bytes_before, bytes_after=bytes_after
    )


def is_packed_at_end(path: Path) -> bool:
    """Whether a run that has ended is to be packed without a request: it has many or large samples, or was packed
    before, and pyarrow is installed."""
    samples = path / SAMPLES
    if not samples.is_dir() or find_spec("pyarrow") is None:
        return False
    if packs_of(samples):
        return True
    sizes = [each.lstat().st_size for each in samples.iterdir() if not each.name.endswith(LOOSE)]
    return len(sizes) >= MIN_FILES or sum(sizes) >= MIN_BYTES


def _remove_sealed(path: Path) -> None:
    """Remove parts whose compressed form exists: a process was killed before it removed them."""
    for name in (TRIALS, COMMANDS):
        for part in parts_of(path, name):
            if part.suffix == SEALED:
                part.with_suffix("").unlink(missing_ok=True)


def _write_tables(path: Path, run: StoredRun) -> None:
    """Write the figures as tables, unless the existing tables are up to date."""
    from iolab.store.columns import tables
    from iolab.store.parquet_files import about_run, write_table

    of = identity(path, TRIALS)
    if not of.trials or about_run(path / TABLES[0]).get("last") == of.last:
        return
    made = tables(run, of)
    for name, table in zip(reversed(TABLES), (made.series, made.factors, made.trials), strict=True):
        fresh = path / f".{name}.new"
        write_table(fresh, table)
        fresh.replace(path / name)
    sync_folder(path)
