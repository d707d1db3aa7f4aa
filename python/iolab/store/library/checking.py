"""Check a library: every file of every addition, and files that no addition names."""

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyarrow import ArrowException, parquet

from iolab.errors import StoreError
from iolab.locale import Phrase, Text
from iolab.store.library.checkpoints import NONE, checkpoints, read_checkpoint, with_checkpoint
from iolab.store.library.manifests import (
    MANIFESTS,
    NAME,
    PART,
    STAGED,
    Manifest,
    Part,
    manifests,
    read_manifest,
    sha256_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The state of a library."""

    runs: int
    """Number of runs."""
    trials: int
    """Number of trials of these runs."""
    rows: int
    """Number of figures of these runs."""
    bytes: int
    """Size of the files of these runs [bytes]."""
    superseded: int
    """Number of additions that longer additions of the same run replace."""
    unnamed: tuple[str, ...]
    """Paths of files that no addition names: files of killed writers, or of writers at work."""
    problems: tuple[Text, ...]
    """Problems with files: missing, changed or unreadable files."""


def check(library: Path) -> Checked:
    """Read every file of a library and compare it with its manifest.

    Raises:
        InputError: the folder is not a library.
    """
    folder = library / MANIFESTS
    if not folder.is_dir():
        manifests(library)
    every: list[Manifest] = []
    problems: list[Text] = []
    for path in sorted(folder.iterdir()):
        if NAME.fullmatch(path.name):
            try:
                every.append(read_manifest(path))
            except StoreError as error:
                problems.append(str(error))
    checkpoint = NONE
    for path in checkpoints(library)[-1:]:
        try:
            checkpoint = read_checkpoint(path)
        except StoreError as error:
            problems.append(str(error))
    of = with_checkpoint(library, every, checkpoint)
    for part in of.parts:
        problems += _problems(library, part.path, part)
    named = {part.path for each in every for part in each.parts} | {part.path for part in of.parts}
    return Checked(
        runs=len(of.runs),
        trials=sum(each.trials for each in of.runs),
        rows=sum(part.rows for part in of.parts if part.table == "trials"),
        bytes=sum(part.bytes for part in of.parts),
        superseded=len(every) - len(of.runs),
        unnamed=tuple(_unnamed(library, named)),
        problems=tuple(problems),
    )


def _problems(library: Path, name: str, part: Part) -> Iterator[Text]:
    path = library / name
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            yield Phrase("library.not-a-file", path=path)
        elif status.st_size != part.bytes or sha256_of(path) != part.sha256:
            yield Phrase("library.file-changed", path=path)
        elif parquet.read_metadata(path).num_rows != part.rows:
            yield Phrase("library.rows-differ", path=path, rows=part.rows)
    except FileNotFoundError:
        yield Phrase("errors.failed-with-reason", what=path, reason=Phrase("library.file-missing"))
    except (OSError, ArrowException) as error:
        yield Phrase("errors.failed-with-reason", what=path, reason=error)


def _unnamed(library: Path, named: Collection[str]) -> Iterator[str]:
    for place, _, names in os.walk(library):
        for name in sorted(names):
            path = str((Path(place) / name).relative_to(library))
            if path not in named and (PART.fullmatch(path) or STAGED.fullmatch(name) or ".adding-" in path):
                yield path
