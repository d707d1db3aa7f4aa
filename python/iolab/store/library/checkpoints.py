"""The contents of a library: the additions in effect, and the files that have their figures.

A compaction writes a checkpoint, which names merged files instead of the files of many additions. Checkpoints have
consecutive numbers, and each number is created only once, so of two compactions at the same time one is refused.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from iolab.errors import StoreError
from iolab.locale import Phrase
from iolab.results.encoding import Encoding
from iolab.store.library.manifests import MANIFESTS, PART, Manifest, Part, in_effect, manifests, put

SCHEMA = 1
"""Version of checkpoints."""
NAME = re.compile(r"checkpoint-(\d{6})\.json")
MAX_CHECKPOINT = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The result of a compaction."""

    schema: int
    number: int
    """Consecutive number, from 1; the checkpoint with the highest number is in effect."""
    additions: tuple[str, ...] = ()
    """File names of the manifests whose figures are in `parts`."""
    removed: tuple[str, ...] = ()
    """Identities of runs that were removed; additions of these runs are ignored."""
    parts: tuple[Part, ...] = ()
    """The files with the figures of the additions."""

    @property
    def file_name(self) -> str:
        """Return the name of the checkpoint's file."""
        return f"checkpoint-{self.number:06d}.json"


NONE = Checkpoint(schema=SCHEMA, number=0)
"""The checkpoint of a library that was never compacted."""
_CHECKPOINT = Encoding(Checkpoint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The runs of a library, and the files with their figures."""

    library: Path
    runs: tuple[Manifest, ...]
    """The addition in effect of each run."""
    checkpoint: Checkpoint
    """The checkpoint in effect."""
    merged: tuple[Part, ...]
    """Files of the checkpoint."""
    own: tuple[Part, ...]
    """Files of the additions that the checkpoint does not include."""
    outdated: frozenset[str] = field(default_factory=frozenset)
    """Identities of runs whose rows in the files of the checkpoint are not valid, because a longer addition replaces
    them or the run was removed."""
    touched: frozenset[str] = field(default_factory=frozenset)
    """Folders of the checkpoint's files that have such rows."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return all files, each once."""
        return tuple({part.path: part for part in (*self.merged, *self.own)}.values())


def contents(library: Path) -> Contents:
    """Return the contents of a library.

    Raises:
        InputError: the folder is not a library.
        StoreError: a manifest or the checkpoint is damaged.
    """
    every = manifests(library)
    known = checkpoints(library)
    return with_checkpoint(library, every, read_checkpoint(known[-1]) if known else NONE)


def with_checkpoint(library: Path, every: Iterable[Manifest], checkpoint: Checkpoint) -> Contents:
    """Return the contents of a library whose checkpoint in effect is `checkpoint`."""
    every = tuple(every)
    removed, included = set(checkpoint.removed), set(checkpoint.additions)
    runs = tuple(each for each in in_effect(every) if each.run not in removed)
    valid = {each.file_name for each in runs}
    stale = [each for each in every if each.file_name in included - valid]
    return Contents(
        library=library,
        runs=runs,
        checkpoint=checkpoint,
        merged=checkpoint.parts,
        own=tuple(part for each in runs if each.file_name not in included for part in each.parts),
        outdated=frozenset(each.run for each in stale),
        touched=frozenset(folder_of(part) for each in stale for part in each.parts),
    )


def folder_of(part: Part) -> str:
    """Return the folder of a file, which is its partition."""
    return part.path.rpartition("/")[0]


def checkpoints(library: Path) -> list[Path]:
    """Return the files of all checkpoints, oldest first."""
    return sorted(
        path for path in (library / MANIFESTS).glob("checkpoint-*.json") if NAME.fullmatch(path.name)
    )


def read_checkpoint(path: Path) -> Checkpoint:
    """Return a checkpoint.

    Raises:
        StoreError: the checkpoint is damaged, has a newer version, or names a file outside the library.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CHECKPOINT + 1)
        if len(data) > MAX_CHECKPOINT:
            raise ValueError(Phrase("library.manifest-too-large", most=MAX_CHECKPOINT))
        found = _CHECKPOINT.decode(data)
        if found.schema != SCHEMA:
            raise ValueError(Phrase("library.manifest-of-other-schema", version=found.schema, known=SCHEMA))
        if found.file_name != path.name:
            raise ValueError(Phrase("library.manifest-of-other-name", name=repr(found.file_name)))
        if strange := [part.path for part in found.parts if not PART.fullmatch(part.path)]:
            raise ValueError(Phrase("library.path-outside", path=repr(strange[0])))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(Phrase("store.restore-from-copy", path=path, reason=reason)) from error
    return found


def put_checkpoint(library: Path, checkpoint: Checkpoint) -> bool:
    """Create a checkpoint; return whether it is new. If it is not, another compaction was faster."""
    text = json.dumps(asdict(checkpoint), ensure_ascii=False, indent=1).encode()
    return put(library / MANIFESTS / checkpoint.file_name, lambda file: file.write(text))
