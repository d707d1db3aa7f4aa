"""Read YAML 1.2 text into plain data with line numbers.

The tree is built from ruamel.yaml's event stream, so depth, size and aliases are limited during parsing; tags never
construct objects. Only `true` and `false` are booleans; `on` and `off` are text. Other modules interpret the data.
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
from iolab.locale import Phrase, Text

MOST_BYTES = 64 * 1024
"""Maximum file size, enough for more than 1000 lines. Measured: the densest YAML of this size is read in 0.6 s, in pure
Python."""

MOST_DEPTH = 40
"""Maximum nesting depth; the language itself needs 12 levels."""

MOST_NODES = 30_000
"""Maximum number of values after alias expansion."""

MOST_DIGITS = 40
"""Maximum number of digits; quantities are below 2^63."""

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")

_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


class Table(dict[str, Any]):
    """A dict that stores the line of each key."""

    __slots__ = ("line", "lines", "texts")

    def __init__(self, *args: Any, line: int = 0) -> None:
        super().__init__(*args)
        self.line = line
        self.lines: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        """Original spelling of numbers, if it differs from Python's."""


class Items(list[Any]):
    """A list that stores the line of each item."""

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
    """Return the value at a key; numbers are returned in their original spelling."""
    if isinstance(container, Table | Items) and key in container.texts:
        return container.texts[key]
    return container[key]


TOP_KEYS = Phrase("check.lab-and-measure")


class Unreadable(Exception):
    """Raised to stop reading; the problem is already reported."""


def read(data: bytes, problems: Problems, keys: Text = TOP_KEYS) -> Table | None:
    """Return the top-level mapping of a document, or report a problem and return None.

    `keys` describes the expected keys, for the message.
    """
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
        # An error inside the parser itself: the user must get a position, not a traceback.
        problems.add(
            1,
            Phrase("check.reading-yaml"),
            type(error).__name__,
            Phrase("check.allowed-yaml"),
            Phrase("check.look-for-unusual-characters"),
        )
        return None
    if not isinstance(top, Table):
        seen = {type(None): Phrase("check.an-empty-file"), Items: Phrase("check.a-list")}.get(
            type(top), Phrase("check.a-single-value")
        )
        problems.add(
            1,
            Phrase("check.reading-file"),
            seen,
            Phrase("check.mapping-with-keys", keys=keys),
            Phrase("check.start-from-iolab-new-name"),
        )
        return None
    return top


def _decoded(data: bytes, problems: Problems) -> str | None:
    if len(data) > MOST_BYTES:
        problems.add(
            0,
            Phrase("check.reading-file"),
            Phrase("check.more-than-bytes", most_bytes=MOST_BYTES),
            Phrase("check.at-most-bytes", most_bytes=MOST_BYTES),
            Phrase("check.is-this-an-experiment-file"),
        )
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.add(
            line,
            Phrase("check.reading-file"),
            Phrase("check.byte", byte=f"{data[error.start]:02x}"),
            Phrase("check.allowed-encoding"),
            Phrase("check.save-in-allowed-encoding"),
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
                line,
                Phrase("check.reading-file"),
                Phrase("check.control-character", code=f"{ord(character):02x}"),
                "text",
                Phrase("check.remove-it"),
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
    """The key whose value is read next."""
    nodes: int = 1


@dataclass
class _Builder:
    """Builder that converts events to data, within the limits."""

    problems: Problems
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    """Complete value of each anchor, and the value's number of nodes."""
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
                        self.fail(
                            line,
                            Phrase("check.second-document"),
                            Phrase("check.one-document-per-file"),
                            Phrase("check.split-file"),
                        )
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

    def fail(self, line: int, seen: object, allowed: Text, advice: Text = "") -> None:
        self.problems.add(line, Phrase("check.reading-yaml"), seen, allowed, advice)
        raise Unreadable

    def count(self, line: int, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MOST_NODES:
            self.fail(
                line,
                Phrase("check.more-than-values-aliases-expanded", most_nodes=MOST_NODES),
                Phrase("check.at-most-values", most_nodes=MOST_NODES),
            )
        if self.stack:
            self.stack[-1].nodes += nodes

    def check_tag(self, event: NodeEvent, line: int) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!":
            self.fail(
                line,
                Phrase("check.the-tag", tag=tag),
                Phrase("check.plain-values-without-tags"),
                Phrase("check.remove-or-quote-tag"),
            )

    def alias(self, event: AliasEvent, line: int) -> None:
        if event.anchor not in self.anchors:
            self.fail(
                line,
                f"*{event.anchor}",
                Phrase("check.alias-of-complete-anchor"),
                Phrase("check.quote-text-with-asterisk"),
            )
        value, nodes = self.anchors[event.anchor]
        if self.expects_key():
            self.fail(
                line,
                Phrase("check.alias-as-key", anchor=event.anchor),
                Phrase("check.text-as-key"),
                Phrase("check.quote-path-with-asterisk"),
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
                Phrase("check.merge-key"),
                Phrase("check.keys-written-out"),
                Phrase("check.yaml-without-merge-keys"),
            )
        if not name.strip() or (event.style in (None, "") and name in ("~", "null")):
            self.fail(line, Phrase("check.empty-key"), Phrase("check.text-as-key"))
        content = entry.content
        assert isinstance(content, Table)
        if name in content:
            first = content.lines[name]
            self.problems.add(
                line,
                Phrase("check.reading-yaml"),
                Phrase("check.key-twice", key=name),
                Phrase("check.each-key-once"),
                Phrase("check.remove-one-of-two-keys", first=first),
            )
        content.lines[name] = line
        entry.key = name

    def resolved(self, text: str, line: int) -> tuple[object, str | None]:
        if text in _WORDS:
            return _WORDS[text], None
        if _INTEGER.fullmatch(text):
            if len(text) > MOST_DIGITS:
                self.fail(
                    line,
                    Phrase("check.number-of-digits", digits=len(text)),
                    Phrase("check.at-most-digits", most_digits=MOST_DIGITS),
                )
            number = int(text, 0) if text[:2] in ("0x", "0o") else int(text)
            return number, text if str(number) != text else None
        if _FLOAT.fullmatch(text):
            if len(text) > MOST_DIGITS or abs(float(text)) == float("inf"):
                self.fail(line, text, Phrase("check.number-that-fits-double"))
            return float(text), text
        if _NOT_FINITE.fullmatch(text):
            self.fail(line, text, Phrase("check.finite-number"))
        return text, None

    def open(self, event: MappingStartEvent | SequenceStartEvent, line: int) -> None:
        if self.expects_key():
            self.fail(line, Phrase("check.list-or-mapping-as-key"), Phrase("check.text-as-key"))
        if len(self.stack) >= MOST_DEPTH:
            self.fail(
                line,
                Phrase("check.more-than-levels-of-nesting", most_depth=MOST_DEPTH),
                Phrase("check.at-most-levels", most=MOST_DEPTH),
            )
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
