"""Upgrade a record of an older schema to the newest one: its shape is checked, then each step is applied in turn.

The module also contains the steps of plans.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema, to_json

from iolab.errors import StoreError
from iolab.locale import Phrase, Text
from iolab.messages.failures import OtherFailure
from iolab.messages.in_words import InWords
from iolab.messages.places import AtPort
from iolab.plan.types import PLAN_SCHEMA
from iolab.results.encoding import Malformed, malformed
from iolab.store.records import PLAN

Json = dict[str, Any]
INTEGER, TEXT = core_schema.int_schema(strict=True), core_schema.str_schema(strict=True)
NUMBER, YES_OR_NO = core_schema.float_schema(strict=True), core_schema.bool_schema(strict=True)
ANYTHING, OBJECT = core_schema.any_schema(), core_schema.dict_schema()
_SCHEMA_FIRST = re.compile(rb'\{"schema":(\d{1,9})[,}]')
"""Pattern of the start of every record that iolab wrote."""
_VERSION = SchemaValidator(
    core_schema.typed_dict_schema({"schema": core_schema.typed_dict_field(INTEGER)}, extra_behavior="ignore")
)
UNKNOWN = "unknown"
"""Replacement for a name that was not recorded."""
ROLES = {"arrivals": "napi"}
"""Current name of each thread role, by its old name."""
_PORT = re.compile(r"[^ ./]+\.[^ /]+")


@dataclass(frozen=True, slots=True)
class Step:
    """A step from one schema to the next."""

    shape: SchemaValidator
    """Shape of a record of the older schema."""
    change: Callable[[Json], Json]
    """Function that returns the record in the next schema; it may modify its argument."""


Steps = Mapping[int, Step]
"""Steps by the schema that they upgrade, without gaps up to the last schema before the newest."""


def record(
    required: Mapping[str, CoreSchema], optional: Mapping[str, CoreSchema] | None = None
) -> CoreSchema:
    """Return the shape of an object with exactly these keys."""
    field = core_schema.typed_dict_field
    fields = {name: field(each) for name, each in required.items()}
    fields |= {name: field(each, required=False) for name, each in (optional or {}).items()}
    return core_schema.typed_dict_schema(fields, extra_behavior="forbid")


def part(required: Mapping[str, CoreSchema], optional: Mapping[str, CoreSchema] | None = None) -> CoreSchema:
    """Return the shape of an object with these keys and others, which are not checked."""
    return {**record(required, optional), "extra_behavior": "allow"}


def by_name(values: CoreSchema) -> CoreSchema:
    """Return the shape of an object with arbitrary keys."""
    return core_schema.dict_schema(TEXT, values)


def either(mapping: CoreSchema, other: CoreSchema) -> CoreSchema:
    """Return the shape of a value that is an object or has a second shape."""

    def kind(value: object) -> str:
        return "object" if isinstance(value, dict) else "other"

    return core_schema.tagged_union_schema({"object": mapping, "other": other}, kind)


def many(items: CoreSchema) -> CoreSchema:
    """Return the shape of a list."""
    return core_schema.list_schema(items)


def or_none(value: CoreSchema) -> CoreSchema:
    """Return the shape of a value that may be null."""
    return core_schema.nullable_schema(value)


def version_of(text: bytes) -> int:
    """Return the schema number in a record.

    Raises:
        Malformed: the record has no schema number.
    """
    if begin := _SCHEMA_FIRST.match(text):
        return int(begin[1])
    return int(decoded(_VERSION, text)["schema"])


def upgraded(text: bytes, version: int, steps: Steps, newest: int, what: Text) -> bytes:
    """Return a record of an older schema, converted to the newest schema.

    Raises:
        StoreError: the record has a newer schema, or one that never existed.
        Malformed: the record does not have the shape of its schema; the message names the invalid key.
    """
    if version not in steps:
        raise StoreError(
            Phrase(
                "store.schema-not-read",
                what=what,
                version=version,
                oldest=min(steps, default=newest),
                newest=newest,
            )
        )
    document = decoded(steps[version].shape, text)
    return applied(document, steps, newest)


def applied(document: Json, steps: Steps, newest: int) -> bytes:
    """Return a record as JSON of the newest schema; the record must have the shape of its own schema."""
    for number in range(document["schema"], newest):
        document = steps[number].change(document)
    return to_json(document, inf_nan_mode="constants")


def decoded(shape: SchemaValidator, text: bytes) -> Json:
    """Return decoded JSON if it has a shape.

    Raises:
        Malformed: the value does not have the shape; the message names the invalid key.
    """
    try:
        document: Json = shape.validate_json(text)
    except ValidationError as error:
        raise malformed(error) from error
    return document


def quoted(words: Any) -> Any:
    """Return a sentence as a statement of the required kind; statements are returned unchanged."""
    return {"code": InWords.code, "said": words} if isinstance(words, str) else words


def if_any(words: Any, stated: Callable[[Any], Any] = quoted) -> Any:
    """Return a sentence as a statement, or None if the sentence is empty."""
    return None if words in ("", None) else stated(words)


def failure(words: Any) -> Any:
    """Return an error message as a failure that quotes it."""
    return {"code": OtherFailure.code, "said": words} if isinstance(words, str) else words


def is_port(words: str) -> bool:
    """Whether the text is the name of a port: machine.port."""
    return _PORT.fullmatch(words) is not None


def place(words: Any) -> Any:
    """Return a place from text: machine.port, or other words (cpu1, kernel, on the way)."""
    return (
        {"code": AtPort.code, "port": words} if isinstance(words, str) and is_port(words) else quoted(words)
    )


def stated(value: Any) -> Any:
    """Return a part of a record of schema 2 with its statements in their current form; the part is modified in place.

    The parameters of statements changed a few times without a new schema.
    """
    if isinstance(value, list):
        for at, each in enumerate(value):
            if isinstance(each, dict | list):
                value[at] = stated(each)
        return value
    if not isinstance(value, dict):
        return value
    for name, each in value.items():
        if isinstance(each, dict | list):
            value[name] = stated(each)
    code = value.get("code")
    change = _CHANGED.get(code) if isinstance(code, str) else None
    return change(value) if change else value


def _with(**parameters: Callable[[Any], Any]) -> Callable[[Json], Json]:
    """Return a function that changes these parameters of a statement."""

    def change(statement: Json) -> Json:
        return {name: parameters.get(name, _same)(value) for name, value in statement.items()}

    return change


def _same(value: Any) -> Any:
    return value


def _limited(statement: Json) -> Json:
    """Convert a statement whose place was optional: today, statements with a place have a separate code."""
    where = if_any(statement.pop("place", None), place)
    return statement if where is None else {**statement, "code": "limited-at", "place": where}


def _renamed(old: str, new: str) -> Callable[[Json], Json]:
    def change(statement: Json) -> Json:
        return {new if name == old else name: value for name, value in statement.items()}

    return change


def _part_broke(statement: Json) -> Json:
    return {"function": UNKNOWN, "package": UNKNOWN, **statement}


def _without_stage(statement: Json) -> Json:
    return {name: value for name, value in statement.items() if name != "stage"}


def _gone(statement: Json) -> Json:
    """Return a statement that quotes the code and parameters of an outdated statement: the feature is supported now."""
    code = statement.pop("code")
    about = ", ".join(f"{name} {value}" for name, value in statement.items() if isinstance(value, str))
    return {"code": InWords.code, "said": f"{code}: {about}"}


def from_1(plan: Json) -> Json:
    """Return a plan of schema 1 as one of schema 2, which includes the CPUs and NUMA nodes of the hosts."""
    return {**plan, "schema": 2, "computers": {}}


def from_2(plan: Json) -> Json:
    """Return a plan of schema 2 as one of schema 3, in which unmet requirements are statements instead of sentences."""
    lacking = [[measure, cell, quoted(reason)] for measure, cell, reason in plan["unsupported"]]
    return {**plan, "schema": 3, "unsupported": lacking}


def from_3(plan: Json) -> Json:
    """Return a plan of schema 3 as one of schema 4, in which some codes of unmet requirements no longer exist."""
    return {**plan, "schema": 4, "unsupported": stated(plan["unsupported"])}


def plan_text(data: bytes) -> str:
    """Return the text of a plan, converted to the newest schema; newer plans, and other text, are returned unchanged.

    Raises:
        StoreError: the plan is damaged; the message names the invalid key.
        ValueError: the data is not text.
    """
    try:
        version = version_of(data)
    except Malformed:
        return data.decode()
    if version not in PLAN_STEPS:
        return data.decode()
    try:
        return upgraded(data, version, PLAN_STEPS, PLAN_SCHEMA, PLAN).decode()
    except Malformed as error:
        raise StoreError(Phrase("store.not-what-iolab-wrote", file=PLAN, seen=error)) from None


_CHANGED: Mapping[str, Callable[[Json], Json]] = {
    "datagrams-dropped": _with(place=place, reason=quoted),
    "depth-held": _renamed("gain_ratio", "gain"),
    "limited": _limited,
    "live-frames-fail": _with(error=failure),
    "lost-at": _with(place=place, reason=quoted),
    "lost-beside": _with(place=place, reason=quoted),
    "lost-by-receiver": _with(reason=quoted),
    "others-dropped": _with(place=place),
    "part-broke": _part_broke,
    "paths-uncompared": _with(error=failure),
    "segments-dropped": _with(place=place, reason=quoted),
    "wire-unbuilt": _without_stage,
    **dict.fromkeys(
        (
            "disk-program-unbuilt",
            "disk-way-unbuilt",
            "disks-unbuilt",
            "export-unbuilt",
            "guest-file-system-unbuilt",
            "pacer-unbuilt",
            "wire-frames-unbuilt",
        ),
        _gone,
    ),
}
"""For each code, the function that converts a statement with this code."""
_UNSUPPORTED = core_schema.tuple_schema([TEXT, by_name(TEXT), ANYTHING])
_PLAN = SchemaValidator(part({"schema": INTEGER, "unsupported": many(_UNSUPPORTED)}))
"""Shape of the parts of a plan that the steps change; the check against the newest schema covers the rest."""
PLAN_STEPS: Steps = {
    number: Step(_PLAN, step) for number, step in enumerate((from_1, from_2, from_3), start=1)
}
