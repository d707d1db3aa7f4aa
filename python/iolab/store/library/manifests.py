"""The additions to a library: each has a manifest, which is written once and names the files of the addition.

A file is created whole or not at all, and never replaced, so concurrent writers cannot lose data. A manifest is created
after its files, so a writer that is killed leaves files that no manifest names, and no incomplete addition.
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from iolab.errors import InputError, Problem, StoreError
from iolab.locale import Phrase
from iolab.results.encoding import Encoding
from iolab.store.frames import sync_folder

SCHEMA = 1
"""Version of manifests."""
MANIFESTS = "manifest"
"""Folder of the manifests; a folder that contains it is a library."""
MAX_MANIFEST = 4 << 20
PART = re.compile(
    r"(?:trials/host_class=[0-9a-f]{16}/month=\d{4}-\d\d|factors|series)/part-[0-9a-f]{16}\.parquet"
)
"""Pattern of the paths of the files in a library."""
NAME = re.compile(r"([0-9a-f]{16})-(\d{10})-([0-9a-f]{16})\.json")
"""Pattern of the names of manifests: run, number of trials, digest of the last trial."""
STAGED = re.compile(r"\.[^/]+\.[0-9a-f]{16}\.new")
"""Pattern of the names of files that are not complete yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A Parquet file of an addition."""

    table: str
    """Name of the table: trials, factors or series."""
    path: str
    """Path relative to the library's folder."""
    rows: int
    """Number of rows."""
    bytes: int
    """Size of the file [bytes]."""
    sha256: str
    """Digest of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One addition: a run as it was when it was added."""

    schema: int
    run: str
    """Identity of the run, equal for all additions of a run that grows."""
    name: str
    """Name of the run's folder when it was added."""
    title: str
    trials: int
    """Number of trials; if a run has several additions, the addition with the most trials is in effect."""
    first: str
    """SHA-256 of the first trial's line."""
    last: str
    """SHA-256 of the last trial's line."""
    host_class: str
    hosts: Mapping[str, object]
    """The facts that define the class of hosts."""
    iolab: str
    """Version of the iolab that added the run."""
    parts: tuple[Part, ...]

    @property
    def file_name(self) -> str:
        """Return the name of the manifest's file."""
        return f"{self.run}-{self.trials:010d}-{self.last[:16]}.json"


_MANIFEST = Encoding(Manifest)


def put(path: Path, write: Callable[[IO[bytes]], object]) -> bool:
    """Create a complete file durably; return whether the file is new. An existing file is never changed.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        with staged.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(staged, path)
        except FileExistsError:
            return False
    finally:
        with suppress(OSError):
            staged.unlink()
    sync_folder(path.parent)
    return True


def put_manifest(library: Path, manifest: Manifest) -> bool:
    """Create a manifest; return whether it is new."""
    text = json.dumps(asdict(manifest), ensure_ascii=False, indent=1).encode()
    return put(library / MANIFESTS / manifest.file_name, lambda file: file.write(text))


def read_manifest(path: Path) -> Manifest:
    """Return a manifest.

    Raises:
        StoreError: the manifest is damaged, has a newer version, or names a file outside the library.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_MANIFEST + 1)
        if len(data) > MAX_MANIFEST:
            raise ValueError(Phrase("library.manifest-too-large", most=MAX_MANIFEST))
        found = _MANIFEST.decode(data)
        if found.schema != SCHEMA:
            raise ValueError(Phrase("library.manifest-of-other-schema", version=found.schema, known=SCHEMA))
        if found.file_name != path.name or not NAME.fullmatch(path.name):
            raise ValueError(Phrase("library.manifest-of-other-name", name=repr(found.file_name)))
        if strange := [part.path for part in found.parts if not PART.fullmatch(part.path)]:
            raise ValueError(Phrase("library.path-outside", path=repr(strange[0])))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(Phrase("store.restore-from-copy", path=path, reason=reason)) from error
    return found


def manifests(library: Path) -> list[Manifest]:
    """Return all additions, in the order of their names.

    Raises:
        InputError: the folder is not a library.
        StoreError: a manifest is damaged.
    """
    folder = library / MANIFESTS
    if not folder.is_dir():
        doing, allowed = Phrase("library.opening"), Phrase("library.a-library")
        seen = Phrase("library.no-manifests") if library.exists() else Phrase("store.no-such-folder")
        raise InputError([Problem(str(library), doing, seen, allowed, Phrase("library.add-creates"))])
    return [read_manifest(path) for path in sorted(folder.iterdir()) if NAME.fullmatch(path.name)]


def in_effect(every: Iterable[Manifest]) -> list[Manifest]:
    """Return the longest addition of each run."""
    longest: dict[str, Manifest] = {}
    for each in every:
        known = longest.get(each.run)
        if known is None or (each.trials, each.last) > (known.trials, known.last):
            longest[each.run] = each
    return [*longest.values()]


def sha256_of(path: Path) -> str:
    """Return the digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
