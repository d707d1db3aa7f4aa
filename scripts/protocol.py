"""Generate the files about the agent's messages outside the agent from `contract/agent-v1.schema.json`.

These files are python/iolab/agent/messages.py and contract/agent-v1-messages.md. The agent's unit tests write the
schema from its types; `make protocol` generates the schema and the files. check_tree.py reports committed files that
are not current.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import wrap
from typing import Any

SCHEMA = Path("contract/agent-v1.schema.json")
MODULE = Path("python/iolab/agent/messages.py")
PAGE = Path("contract/agent-v1-messages.md")
WIDTH = 110
"""Maximum line length of a generated docstring."""

READ = (
    "Hello", "Pong", "CommandEnded", "ProcessStarted", "ProcessEnded", "FolderMade", "SettingValue", "SettingOriginal",
    "UndoReport", "CpuTimes", "ThreadTimes", "InterfaceCounters", "QdiscCounters", "DropCounters", "SocketCounters",
    "SettingValues", "TrafficOpened", "TrafficRan", "DeviceCounts", "WireCounts", "CaptureStarted", "Captured",
    "CapturePart", "WatchStarted", "Watched", "WatchPart", "Leased",
)  # fmt: skip
"""Replies, and rows of samples, that the controller decodes, with all types of their fields. It stores all other
replies undecoded."""
NOT_READ = {
    "ThreadTimes": "voluntary_switches involuntary_switches",
    "QdiscCounters": "requeues",
    "PortOpened": "frame_bytes queues send_queues",
    "TrafficOpened": "begin_ns end_ns",
    "Stall": "involuntary_switches thread",
    "ThreadUse": "voluntary_switches involuntary_switches",
    "SenderReport": """tag offered_bytes unsent_frames invalid_frames busy_answers blocked_polls kicks
        slipped_ns gap_ns lateness_ns bursts""",
    "FlowReport": "lost_frames duplicate_frames reordered_frames latency_min_ns latency_max_ns",
    "SocketCounts": "received_frames filtered_frames truncated_frames poll_stamped_frames",
    "ReceiverReport": """waiting begin_ns end_ns first_ns last_ns received_bytes lost_frames surplus_frames
        negative_latency_frames other_tag_frames unknown_flow_frames reorder_extent_frames stall_count""",
    "TrafficRan": "ended_early shared_cpus",
    "DeviceCounts": "begin_ns end_ns",
    "WireCounts": "does stalls begin_ns",
}
"""Fields of these types that the controller does not decode, because decoding each field takes time."""
CHECKED = {"Histogram": "check_sums"}
"""Messages whose fields must be consistent, with the function of `iolab.agent.decoding` that refuses inconsistent
ones."""

Schema = dict[str, Any]


@dataclass(frozen=True)
class Property:
    """A field of a message."""

    name: str
    schema: Schema
    required: bool

    @property
    def doc(self) -> str:
        """The description of the field, on one line."""
        return " ".join(self.schema.get("description", "").split())

    @property
    def default(self) -> Any:
        """The default of an absent field, as JSON."""
        if "default" in self.schema:
            return self.schema["default"]
        return {"array": [], "string": "", "integer": 0, "boolean": False}.get(str(self.schema.get("type")))


@dataclass(frozen=True)
class Protocol:
    """All messages."""

    root: Schema = field(default_factory=lambda: json.loads(SCHEMA.read_text()))

    @property
    def types(self) -> Schema:
        """Schemas by type name."""
        return dict(self.root["$defs"])

    @cached_property
    def read(self) -> list[str]:
        """The types that the controller decodes, each after the types of its fields."""
        found: list[str] = []

        def visit(name: str) -> None:
            for part in self.properties(name):
                for inner in re.findall(r'"#/\$defs/(\w+)"', json.dumps(part.schema)):
                    if is_class(self.types[inner]) and inner not in found:
                        visit(inner)
            if name not in found:
                found.append(name)

        for name in READ:
            visit(name)
        return found

    def properties(self, name: str) -> list[Property]:
        """Return the fields of a message that the controller decodes."""
        left = NOT_READ.get(name, "").split()
        return [each for each in properties(self.types[name]) if each.name not in left]


def properties(schema: Schema) -> list[Property]:
    """Return the fields of an object."""
    required = schema.get("required", ())
    return [Property(name, one, name in required) for name, one in schema.get("properties", {}).items()]


def is_class(schema: Schema) -> bool:
    """Whether a type is one object; other types are a choice of words or of objects."""
    return schema.get("type") == "object" and "oneOf" not in schema


def words(schema: Schema) -> list[tuple[str, str]]:
    """Return the allowed words of a type with their meaning; empty for a choice of objects."""
    found = [(word, "") for word in schema.get("enum", ())]
    for each in schema.get("oneOf", ()):
        found += [(each["const"], each.get("description", ""))] if "const" in each else words(each)
    return found


def main() -> int:
    """Write the generated files."""
    for path, text in generated().items():
        path.write_text(text)
    return 0


def stale() -> Iterator[str]:
    """Report committed files that differ from the files that would be generated now."""
    for path, text in generated().items() if SCHEMA.exists() else ():
        if not path.exists() or path.read_text() != text:
            yield f"{path}: it is not what {SCHEMA} says: run make protocol"


def generated() -> dict[Path, str]:
    """Return the text of each generated file."""
    protocol = Protocol()
    return {MODULE: formatted(python(protocol)), PAGE: "\n".join(page_lines(protocol)) + "\n"}


def formatted(code: str) -> str:
    """Return code, formatted by ruff."""
    argv = [str(Path(sys.executable).parent / "ruff"), "format", "--stdin-filename", str(MODULE), "-"]
    return subprocess.run(argv, input=code, check=True, capture_output=True, text=True).stdout


# Python -----------------------------------------------------------------------------------------------------


def python(protocol: Protocol) -> str:
    """Return the module of the messages that the controller decodes."""
    major, minor = protocol.root["version"].split(".")
    checks = "".join(f", {name}" for name in CHECKED.values())
    head = f'''"""The answers of an agent that the controller reads, as frozen types, decoded once at the edge.

Generated by scripts/protocol.py from {SCHEMA}: change the agent's types, then `make protocol`.
"""

from typing import Any, Literal, TypeAlias

from iolab.agent.decoding import Count{checks}
from iolab.frozen import frozen

Json: TypeAlias = Any
"""A JSON value; does not leave this package undecoded, except as raw samples for the store."""

PROTOCOL = ({major}, {minor})
"""Major and minor version of the protocol that this client speaks."""
'''
    return "\n\n".join([head, *(class_of(protocol, name) for name in protocol.read)])


def class_of(protocol: Protocol, name: str) -> str:
    """Return a message as a class."""
    fields = protocol.properties(name)
    given = [each.required for each in fields]
    in_order = given == sorted(given, reverse=True)
    lines = ["@frozen" if in_order else "@frozen(kw_only=True)", f"class {name}:"]
    lines += docstring(protocol.types[name].get("description", ""), is_class_doc=True)
    for each in fields:
        kind = python_type(protocol, each.schema)
        default = "" if each.required else f" = {python_default(each)}"
        lines += [f"    {each.name}: {kind}{default}", *docstring(each.doc)]
    if check := CHECKED.get(name):
        lines += [
            "",
            "    def __post_init__(self) -> None:",
            f'        """Refuse what `{check}` refuses."""',
            f"        {check}(self)",
        ]
    return "\n".join([*lines, ""])


def docstring(text: str, *, is_class_doc: bool = False) -> list[str]:
    """Return a text as the docstring of a class or field, with units in brackets."""
    text = re.sub(
        r"\((ns|ms|bytes|bit/s|packets|frames)((?:,| of)[^)]*)?\)", r"[\1\2]", " ".join(text.split())
    )
    if not text:
        return []
    if len(text) + 10 <= WIDTH:
        return [f'    """{text}"""']
    first, _, rest = text.partition(". ")
    if not is_class_doc or not rest:
        first, *others = wrap(text, WIDTH - 12)
        return [f'    """{first}', *(f"    {line}" for line in others[:-1]), f'    {others[-1]}"""']
    return [f'    """{first}.', "", *(f"    {line}" for line in wrap(rest, WIDTH - 4)), '    """']


def python_type(protocol: Protocol, schema: Schema) -> str:
    """Return the Python type of a field."""
    match schema:
        case {"anyOf": [inner, {"type": "null"}]}:
            return f"{python_type(protocol, inner)} | None"
        case {"type": [kind, "null"]}:
            return f"{python_type(protocol, schema | {'type': kind})} | None"
        case {"$ref": str(ref)}:
            name = ref.rpartition("/")[2]
            if found := words(protocol.types[name]):
                return f"Literal[{', '.join(repr(word) for word, _ in found)}]"
            return name if is_class(protocol.types[name]) else "dict[str, Json]"
        case {"type": "array" | "object"}:
            return collection(protocol, schema)
        case {"type": "integer"}:
            return "Count" if schema.get("minimum") == 0 else "int"
        case {"type": "string"}:
            return "str"
        case {"type": "boolean"}:
            return "bool"
    return "Json"


def collection(protocol: Protocol, schema: Schema) -> str:
    """Return the Python type of a field with several values."""
    match schema:
        case {"type": "array", "prefixItems": parts}:
            return f"tuple[{', '.join(python_type(protocol, part) for part in parts)}]"
        case {"type": "array", "items": inner, "maxItems": int(count)}:
            return f"tuple[{', '.join([python_type(protocol, inner)] * count)}]"
        case {"type": "array", "items": inner}:
            return f"tuple[{python_type(protocol, inner)}, ...]"
        case {"type": "object", "additionalProperties": dict(inner)}:
            return f"dict[str, {python_type(protocol, inner)}]"
    return "dict[str, Json]" if schema["type"] == "object" else "tuple[Json, ...]"


def python_default(each: Property) -> str:
    """Return the default of an absent field as Python code."""
    match each.default, each.schema:
        case [], _:
            return "()"
        case dict(values), {"$ref": str(ref)}:
            return (
                f"{ref.rpartition('/')[2]}({', '.join(f'{key}={value!r}' for key, value in values.items())})"
            )
    return repr(each.default)


# Tables of the page -----------------------------------------------------------------------------------------


def page_lines(protocol: Protocol) -> Iterator[str]:
    """Yield the lines of the page that lists all messages."""
    yield f"# Messages of the agent protocol, version {protocol.root['version']}"
    yield "\nGenerated by `scripts/protocol.py` from the agent's types; how they are used: [agent-v1.md](agent-v1.md)."
    yield "A field without *required* may be absent, and then is what the column says.\n"
    yield "| method | `params` | `result` |"
    yield "|---|---|---|"
    for method, messages in protocol.root["methods"].items():
        yield f"| `{method}` | {shown(messages['params'])} | {shown(messages['result'])} |"
    yield ""
    yield "| notification | `params` |"
    yield "|---|---|"
    for method, message in protocol.root["notifications"].items():
        yield f"| `{method}` | {shown(message)} |"
    for name in sorted(protocol.types):
        schema = protocol.types[name]
        rows = [*type_rows(schema)]
        yield f"\n## {name}\n"
        yield from wrap(schema.get("description", ""), 118)
        if rows:
            yield ""
            yield from table(rows)


def type_rows(schema: Schema) -> Iterator[tuple[str, ...]]:
    """Yield the table rows of a type: its words, or the fields of each of its forms."""
    for word, meaning in words(schema):
        yield f"`{word}`", meaning
    yield from field_rows(schema)
    for form in schema.get("oneOf", ()):
        consts = [
            f"`{one.name}`: `{one.schema['const']}`" for one in properties(form) if "const" in one.schema
        ]
        if consts:
            yield consts[0], "", "", form.get("description", "")
            yield from field_rows(form)


def field_rows(schema: Schema) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the fields of an object."""
    for each in properties(schema):
        if "const" not in each.schema:
            default = "required" if each.required else f"`{json.dumps(each.default)}`"
            yield f"`{each.name}`", shown(each.schema), default, each.doc


def table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table."""
    heads = ("field", "type", "absent", "meaning") if len(rows[0]) > 2 else ("word", "meaning")
    for row in (heads, ("---",) * len(heads), *rows):
        cells = (" ".join(cell.split()).replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |"


def shown(schema: Schema) -> str:
    """Return a type in the notation of the page."""
    match schema:
        case {"anyOf": [inner, {"type": "null"}]}:
            return f"{shown(inner)} or `null`"
        case {"type": [kind, "null"]}:
            return f"{shown(schema | {'type': kind})} or `null`"
        case {"$ref": str(ref)}:
            name = ref.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"type": "array", "prefixItems": parts}:
            return f"pair of {' and '.join(shown(part) for part in parts)}"
        case {"type": "array", "items": inner}:
            return f"list of {shown(inner)}"
        case {"type": "object", "additionalProperties": dict(inner)}:
            return f"text to {shown(inner)}"
        case {"type": "integer"}:
            return (
                "u64"
                if schema["format"] == "uint"
                else schema["format"].replace("uint", "u").replace("int", "i")
            )
        case {"type": "string"}:
            return "IP address" if schema.get("format") == "ip" else "text"
        case {"type": str(kind)}:
            return kind
    return "JSON"


if __name__ == "__main__":
    sys.exit(main())
