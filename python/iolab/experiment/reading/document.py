"""Read YAML 1.2 text into plain data that remembers its lines.

The tree is built from ruamel.yaml's event stream, so that depth, size and aliases are bounded while reading; nothing is
ever constructed from a tag. Words are words: only `true` and `false` are booleans, `on` and `off` are text. What the
data means is decided elsewhere.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from iolab.experiment.reading.problems import Problems, note_syntax

MOST_BYTES = 64 * 1024
"""Largest file: 1000 lines and more. Measured: the densest YAML of this size is read in 0.6 s, in pure Python."""

MOST_DEPTH = 40
"""Deepest nesting; the language itself needs 12 levels."""

MOST_NODES = 30_000
"""Most values after aliases are expanded."""

MOST_DIGITS = 40
"""Longest number; quantities end at 2^63."""

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")

_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


class Table(dict[str, Any]):
    """A mapping that knows the line of each key; otherwise a plain dict."""

    __slots__ = ("line", "lines", "texts")

    def __init__(self, *args: Any, line: int = 0) -> None:
        super().__init__(*args)
        self.line = line
        self.lines: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        """How a number was written, where that differs from how Python prints it."""


class Items(list[Any]):
    """A sequence that knows the line of each item; otherwise a plain list."""

    __slots__ = ("line", "lines", "texts")

    def __init__(self, *args: Any, line: int = 0) -> None:
        super().__init__(*args)
        self.line = line
        self.lines: dict[int, int] = {}
        self.texts: dict[int, str] = {}


def line_of(container: object, key: object, default: int = 0) -> int:
    """Return the line of a key or item; `default` for data that was not read from a file."""
    match container:
        case Table():
            return container.lines.get(cast("str", key), container.line or default)
        case Items():
            return container.lines.get(cast("int", key), container.line or default)
        case _:
            return default


def written(container: Any, key: Any) -> object:
    """Return the value at a key; a number as the text it was written in."""
    if isinstance(container, Table | Items) and key in container.texts:
        return container.texts[key]
    return container[key]


class Unreadable(Exception):
    """Reading must stop; the problem is noted."""


def read(data: bytes, problems: Problems, keys: str = "lab and measure") -> Table | None:
    """Return the document's top mapping, which has such keys; on anything else note the problem and return None."""
    text = _decoded(data, problems)
    if text is None:
        return None
    try:
        top = _Builder(problems).build(_events(text))
    except Unreadable:
        return None
    except YAMLError as error:
        note_syntax(error, text, problems)
        return None
    except (
        ValueError,
        RecursionError,
        AssertionError,
        IndexError,
        KeyError,
        AttributeError,
        TypeError,
    ) as error:
        # The parser itself stumbled; the user must still get a place to look at, not a traceback.
        problems.add(
            1, "reading YAML", type(error).__name__, "YAML 1.2", "look for unusual characters or markers"
        )
        return None
    if not isinstance(top, Table):
        seen = {type(None): "an empty file", Items: "a list"}.get(type(top), "a single value")
        problems.add(
            1,
            "reading the file",
            seen,
            f"a mapping with the keys {keys}",
            "start from `iolab new NAME`",
        )
        return None
    return top


def _decoded(data: bytes, problems: Problems) -> str | None:
    if len(data) > MOST_BYTES:
        problems.add(
            0,
            "reading the file",
            f"more than {MOST_BYTES} bytes",
            f"at most {MOST_BYTES} bytes",
            "is this an experiment file?",
        )
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.add(
            line,
            "reading the file",
            f"byte 0x{data[error.start]:02x}",
            "UTF-8 text",
            "save the file as UTF-8",
        )
        return None
    for at, character in enumerate(text):
        if (
            (character < " " and character not in "\n\r\t")
            or "\x7f" <= character < "\xa0"
            or character in "\ufffe\uffff"
        ):
            line = text.count("\n", 0, at) + 1
            problems.add(
                line, "reading the file", f"control character 0x{ord(character):02x}", "text", "remove it"
            )
            return None
    return text


def _events(text: str) -> Iterator[Event]:
    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 2)
    events: Iterator[Event] = reader.parse(text)
    return events


@dataclass
class _Open:
    """A collection that is being read."""

    content: Table | Items
    anchor: str | None
    key: str | None = None
    """The key that waits for its value."""
    nodes: int = 1


@dataclass
class _Builder:
    """Turns events into data, within the limits."""

    problems: Problems
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    """Anchor to the finished value and its count of nodes."""
    nodes: int = 0
    top: Any = None
    documents: int = 0

    def build(self, events: Iterator[Event]) -> Any:
        for event in events:
            line = event.start_mark.line + 1
            match event:
                case DocumentStartEvent():
                    self.documents += 1
                    if self.documents > 1:
                        self.fail(line, "a second document (---)", "one document per file", "split the file")
                case AliasEvent():
                    self.alias(event, line)
                case ScalarEvent():
                    self.check_tag(event, line)
                    self.scalar(event, line)
                case MappingStartEvent() | SequenceStartEvent():
                    self.check_tag(event, line)
                    self.open(event, line)
                case MappingEndEvent() | SequenceEndEvent():
                    self.close()
        return self.top

    def fail(self, line: int, seen: object, allowed: str, advice: str = "") -> None:
        self.problems.add(line, "reading YAML", seen, allowed, advice)
        raise Unreadable

    def count(self, line: int, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MOST_NODES:
            self.fail(
                line, f"more than {MOST_NODES} values (aliases expanded)", f"at most {MOST_NODES} values"
            )
        if self.stack:
            self.stack[-1].nodes += nodes

    def check_tag(self, event: NodeEvent, line: int) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!":
            self.fail(
                line,
                f"the tag {tag}",
                "plain values without tags",
                "remove the tag; quote a text that begins with !",
            )

    def alias(self, event: AliasEvent, line: int) -> None:
        if event.anchor not in self.anchors:
            self.fail(
                line,
                f"*{event.anchor}",
                "an alias of an anchor that is complete above",
                'quote a text or path that begins with *: "*.from"',
            )
        value, nodes = self.anchors[event.anchor]
        if self.expects_key():
            self.fail(
                line,
                f"*{event.anchor} as a key",
                "text as a key",
                'quote a path that begins with *: "*.from"',
            )
        self.count(line, nodes)
        self.put(value, line, None)

    def scalar(self, event: ScalarEvent, line: int) -> None:
        self.count(line, 1)
        if self.expects_key():
            self.key(event, line)
            return
        plain = event.implicit[0] and event.style in (None, "")
        value, text = self.resolved(event.value, line) if plain else (event.value, None)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, 1)
        self.put(value, line, text)

    def expects_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].content, Table) and self.stack[-1].key is None

    def key(self, event: ScalarEvent, line: int) -> None:
        entry = self.stack[-1]
        name: str = event.value
        if event.style in (None, "") and name == "<<":
            self.fail(
                line,
                "the merge key <<",
                "keys written out",
                "YAML 1.2 has no merge keys; use factors for what varies",
            )
        if not name.strip() or (event.style in (None, "") and name in ("~", "null")):
            self.fail(line, "an empty key", "text as a key")
        content = entry.content
        assert isinstance(content, Table)
        if name in content:
            first = content.lines[name]
            self.problems.add(
                line,
                "reading YAML",
                f"the key '{name}' twice",
                "each key once",
                f"it is first at line {first}; remove one",
            )
        content.lines[name] = line
        entry.key = name

    def resolved(self, text: str, line: int) -> tuple[object, str | None]:
        if text in _WORDS:
            return _WORDS[text], None
        if _INTEGER.fullmatch(text):
            if len(text) > MOST_DIGITS:
                self.fail(line, f"a number of {len(text)} digits", f"at most {MOST_DIGITS} digits")
            number = int(text, 0) if text[:2] in ("0x", "0o") else int(text)
            return number, text if str(number) != text else None
        if _FLOAT.fullmatch(text):
            if len(text) > MOST_DIGITS or abs(float(text)) == float("inf"):
                self.fail(line, text, "a number that fits a double")
            return float(text), text
        if _NOT_FINITE.fullmatch(text):
            self.fail(line, text, "a finite number")
        return text, None

    def open(self, event: MappingStartEvent | SequenceStartEvent, line: int) -> None:
        if self.expects_key():
            self.fail(line, "a list or mapping as a key", "text as a key")
        if len(self.stack) >= MOST_DEPTH:
            self.fail(line, f"more than {MOST_DEPTH} levels of nesting", f"at most {MOST_DEPTH} levels")
        self.count(line, 1)
        content = Table(line=line) if isinstance(event, MappingStartEvent) else Items(line=line)
        self.stack.append(_Open(content, event.anchor))

    def close(self) -> None:
        done = self.stack.pop()
        if done.anchor is not None:
            self.anchors[done.anchor] = (done.content, done.nodes)
        if self.stack:
            self.stack[-1].nodes += done.nodes - 1
        self.put(done.content, done.content.line, None)

    def put(self, value: object, line: int, text: str | None) -> None:
        if not self.stack:
            self.top = value
            return
        parent = self.stack[-1]
        if isinstance(parent.content, Table):
            assert parent.key is not None
            place: Any = parent.key
            parent.content[place] = value
            parent.key = None
        else:
            place = len(parent.content)
            parent.content.append(value)
            parent.content.lines[place] = line
        if text is not None:
            parent.content.texts[place] = text
