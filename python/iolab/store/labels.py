"""The label of a run: a note and tags that users give it. The records of the run do not depend on the label."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iolab.errors import InputError, Problem, StoreError
from iolab.files import write_whole
from iolab.locale import Phrase
from iolab.store.folder import decided_file
from iolab.store.frames import sync_folder
from iolab.store.housekeeping import held
from iolab.store.read import not_a_run
from iolab.store.records import LABEL, PLAN, records_folder
from iolab.untrusted_json import read_untrusted

SCHEMA = 1
TAG = re.compile(r"[\w][\w.:+-]{0,39}")
"""Pattern of a tag: without spaces and without the characters of filters."""
MAX_NOTE = 4000
"""Maximum length of a note [characters]."""
MAX_LABEL = 1 << 20
"""Maximum size of a label's file [bytes]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The note and the tags of a run."""

    note: str = ""
    """Text of any kind; empty: the run has no note."""
    tags: tuple[str, ...] = ()
    """Tags without duplicates, sorted."""


def read_label(folder: Path) -> Label:
    """Return the label of a run, or of the run of a revision.

    Raises:
        StoreError: the label's file is damaged or has a newer schema.
    """
    path = records_folder(folder) / LABEL
    try:
        with path.open("rb") as file:
            return _decoded(read_untrusted(file.read(MAX_LABEL)))
    except FileNotFoundError:
        return Label()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(Phrase("store.label-unreadable", path=path, reason=reason)) from error


def _decoded(found: Any) -> Label:
    if not isinstance(found, dict):
        raise ValueError(Phrase("store.not-a-json-object", file=LABEL))
    if found.get("schema") != SCHEMA:
        raise ValueError(Phrase("store.label-of-other-schema", known=SCHEMA))
    note, tags = found.get("note"), found.get("tags")
    if not (isinstance(note, str) and isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise ValueError(Phrase("store.not-a-label"))
    return Label(note=note, tags=tuple(sorted(set(tags))))


@contextmanager
def _writing(folder: Path) -> Iterator[Path]:
    """Return the run folder, to which no other process writes in the meantime."""
    if not decided_file(folder, PLAN).is_file():
        raise InputError([not_a_run(folder)])
    path = records_folder(folder)
    with held(path):
        yield path


def _write(path: Path, label: Label) -> None:
    text = json.dumps(
        {"schema": SCHEMA, "note": label.note, "tags": label.tags}, ensure_ascii=False, indent=1
    )
    try:
        write_whole(path / LABEL, f"{text}\n")
        sync_folder(path)
    except OSError as error:
        reason = error.strerror
        raise StoreError(Phrase("store.label-not-written", path=path / LABEL, reason=reason)) from error


def set_note(folder: Path, note: str) -> None:
    """Replace the note of a run; an empty note removes it.

    Raises:
        InputError: the folder is not a run, or the note is too long.
        StoreError: a different process writes to the run, or the label cannot be read or written.
    """
    if len(note) > MAX_NOTE:
        seen, allowed = (
            Phrase("store.note-length", length=len(note)),
            Phrase("store.note-limit", most=MAX_NOTE),
        )
        raise InputError([Problem(str(folder), Phrase("store.writing-the-note"), seen, allowed)])
    readable = note.encode(errors="backslashreplace").decode()
    with _writing(folder) as path:
        _write(path, Label(note=readable, tags=read_label(path).tags))


def change_tags(folder: Path, added: Iterable[str], removed: Iterable[str]) -> Label:
    """Add and remove tags of a run; return the run's label.

    Raises:
        InputError: the folder is not a run, a tag has forbidden characters, or the run lacks a tag to remove.
        StoreError: a different process writes to the run, or the label cannot be read or written.
    """
    added, removed = set(added), set(removed)
    doing = Phrase("store.changing-tags")
    wrong = [tag for tag in sorted(added) if not TAG.fullmatch(tag)]
    if wrong:
        raise InputError(
            [Problem(str(folder), doing, repr(tag), Phrase("store.form-of-tags")) for tag in wrong]
        )
    with _writing(folder) as path:
        before = read_label(path)
        if lacking := removed - set(before.tags):
            allowed = Phrase("store.tags-of-the-run", tags=before.tags or Phrase("store.no-tags"))
            raise InputError([Problem(str(folder), doing, repr(tag), allowed) for tag in sorted(lacking)])
        label = Label(note=before.note, tags=tuple(sorted((set(before.tags) | added) - removed)))
        _write(path, label)
    return label
