"""Copy a run without names: every file is either rewritten or left out, and the copy is read again at the end."""

import gzip
import json
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iolab.errors import InputError, IolabError, Problem, StoreError
from iolab.experiment import parse
from iolab.experiment.reading.attached import COPIES
from iolab.files import write_durably
from iolab.locale import Phrase
from iolab.store.folder import decided_file
from iolab.store.frames import sync_folder
from iolab.store.lines import stored_lines
from iolab.store.packs import GZIP, LOOSE, sample, sample_names
from iolab.store.read import experiment_text, load_run, not_a_run
from iolab.store.records import (
    COMMANDS,
    EXPERIMENT,
    FACTS,
    LABEL,
    MACHINES,
    OUTCOME,
    PACKAGE_LISTS,
    PLAN,
    REDACTED,
    REVISIONS,
    SAMPLES,
    SERIES,
    TABLES,
    TRIALS,
    StoredRun,
)
from iolab.store.redaction.names import Names

SCHEMA = 1
"""Version of redacted.json."""
JOURNALS = (TRIALS, COMMANDS)
DOCUMENTS = (PLAN, FACTS, LABEL, OUTCOME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """The result of a redaction."""

    counts: Mapping[str, int]
    """Number of different names that were replaced, by kind."""
    left_out: tuple[str, ...]
    """Paths of files that the copy lacks: captures, reports, revisions, damaged samples, and files that iolab did not
    write."""


def redact(source: Path, target: Path, words: Iterable[str], key: bytes) -> Redacted:
    """Write a copy of a run in which all names are replaced; the run itself stays the same.

    Raises:
        InputError: the source is not a run, or the target exists.
        StoreError: a file is damaged or cannot be written, or the copy has other figures than the run; there is then
            no copy.
    """
    if not decided_file(source, PLAN).is_file() or source.resolve().parent.name == REVISIONS:
        raise InputError([not_a_run(source)])
    if os.path.lexists(target):
        doing, allowed = Phrase("store.redacting-the-run"), Phrase("store.a-free-name")
        raise InputError([Problem("redact", doing, str(target), allowed)])
    run = load_run(source)
    names = Names(_texts(source), words, key)
    fresh = target.with_name(f".{target.name}.{os.getpid()}.redacting")
    try:
        fresh.mkdir(parents=True)
        damaged = _write(source, fresh, names)
        left_out = tuple(sorted({*damaged, *_left_out(source, fresh, names)}))
        about = {"schema": SCHEMA, "replaced": names.counts, "left_out": len(left_out)}
        write_durably(fresh / REDACTED, json.dumps(about, indent=1).encode())
        _compare(run, fresh)
        sync_folder(fresh)
        fresh.rename(target)
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(Phrase("store.redaction-failed", path=source, reason=reason)) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return Redacted(counts=names.counts, left_out=left_out)


def _texts(source: Path) -> Iterator[str]:
    """Yield the texts in which names are looked for."""
    yield experiment_text(source)
    machines = sorted((source / MACHINES).glob("*.json"))
    for path in (decided_file(source, FACTS), decided_file(source, PLAN), *machines):
        yield path.read_text(encoding="utf-8", errors="replace")
    for name in JOURNALS:
        for _, line in stored_lines(source, name):
            yield line.decode(errors="replace")


def _write(source: Path, fresh: Path, names: Names) -> list[str]:
    """Write every file of the copy; return the paths of damaged samples, which the copy lacks."""
    write_durably(fresh / EXPERIMENT, names.replaced(experiment_text(source)).encode())
    for name in DOCUMENTS:
        path = decided_file(source, name)
        if path.is_file():
            write_durably(fresh / name, _document(path, names))
    for name in JOURNALS:
        with (fresh / name).open("xb") as file:
            for _, line in stored_lines(source, name):
                file.write(_json(line, names) + b"\n" if line.endswith(b"\n") else b"")
            file.flush()
            os.fsync(file.fileno())
    for path in sorted((source / MACHINES).glob("*.json")):
        _put(fresh / MACHINES / names.replaced(path.name), _document(path, names))
    for path in sorted((source / PACKAGE_LISTS).glob("*.txt")):
        _put(fresh / PACKAGE_LISTS / path.name, path.read_bytes())
    for path in sorted((source / COPIES).rglob("*")):
        if path.is_file():
            place = names.replaced(str(path.relative_to(source)))
            _put(fresh / place, _text(path.read_bytes(), names))
    (fresh / SAMPLES).mkdir()
    return [*_write_samples(source / SAMPLES, fresh / SAMPLES, names)]


def _write_samples(samples: Path, fresh: Path, names: Names) -> Iterator[str]:
    """Write the samples of the copy; yield the paths of those that are damaged."""
    for name in sorted(each for each in sample_names(samples, "") if not each.endswith((*LOOSE, ".zst"))):
        try:
            content = _sample(name, sample(samples, name) or b"", names)
        except (OSError, EOFError, ValueError, RecursionError, zlib.error):
            yield f"{SAMPLES}/{name}"
        else:
            _put(fresh / names.replaced(name), content)


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, data)


def _document(path: Path, names: Names) -> bytes:
    """Return a JSON file with replaced names. Raises StoreError: the file is damaged."""
    try:
        return _json(path.read_bytes(), names)
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(Phrase("store.restore-from-copy", path=path, reason=error)) from error


def _json(data: bytes, names: Names) -> bytes:
    """Return JSON text with replaced names; every number is equal to the original, bit for bit."""
    value = names.replaced_json(json.loads(data))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _text(data: bytes, names: Names) -> bytes:
    """Return text with replaced names; bytes that are not UTF-8 stay the same."""
    return names.replaced(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _sample(name: str, content: bytes, names: Names) -> bytes:
    if name.endswith(SERIES):
        return _table(content, names)
    if name.endswith(f".json{GZIP}"):
        return gzip.compress(_json(content, names), compresslevel=3, mtime=0)
    text = _text(content, names)
    return gzip.compress(text, compresslevel=3, mtime=0) if name.endswith(GZIP) else text


def _table(content: bytes, names: Names) -> bytes:
    """Return a Parquet file in which the texts of all columns are replaced."""
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.ParquetFile(pa.BufferReader(content)).read()
    for at, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_string(kind):
            column = table[field.name].cast(pa.string()).combine_chunks().dictionary_encode()
            texts = [None if text is None else names.replaced(text) for text in column.dictionary.to_pylist()]
            fresh = pa.DictionaryArray.from_arrays(column.indices, pa.array(texts, pa.string()))
            table = table.set_column(at, field, fresh.cast(field.type))
    out = pa.BufferOutputStream()
    parquet.write_table(table, out, compression="zstd")
    written: bytes = out.getvalue().to_pybytes()
    return written


def _left_out(source: Path, fresh: Path, names: Names) -> Iterator[str]:
    """Yield the paths of the run's files that the copy lacks; the content of packs is in the copy as files, and tables
    can be made again."""
    for place, _, found in os.walk(source):
        for name in found:
            path = str((Path(place) / name).relative_to(source))
            is_derived = path in TABLES or name.endswith((".zst", ".jsonl"))
            if not is_derived and not (fresh / names.replaced(path)).exists():
                yield path


def _compare(run: StoredRun, fresh: Path) -> None:
    """Read the copy, and compare its figures and codes with those of the run.

    Raises:
        StoreError: they differ, because a name is equal to a word that the records need.
    """
    try:
        copy = load_run(fresh)
        parse(experiment_text(fresh), str(fresh / EXPERIMENT), stored=True)
    except IolabError as error:
        raise StoreError(Phrase("store.redacted-unreadable", path=run.folder, reason=error)) from error
    if _figures(copy) != _figures(run):
        raise StoreError(Phrase("store.redacted-differs", path=run.folder))


def _figures(run: StoredRun) -> list[tuple[Any, ...]]:
    return [
        (
            each.key,
            each.block,
            each.kind,
            each.result.status,
            each.result.metrics.values.tobytes(),
            [warning.code for warning in each.result.warnings],
            None if each.result.verdict is None else each.result.verdict.limit,
            None if each.result.reason is None else each.result.reason.code,
        )
        for each in run.trials
    ]
