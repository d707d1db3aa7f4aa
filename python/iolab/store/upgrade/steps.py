"""How a record of an older schema becomes one of the newest: its shape is checked, then each step is applied in turn.

A step gets what JSON gave and returns it as the next schema has it. What the older schema did not have becomes what
the newer one uses for "not known"; nothing is guessed. A step never fails on a record that has the shape of its
schema. What it does not look at (the parameters of a statement, say) is checked when the newest schema reads it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema, to_json

from iolab.errors import StoreError
from iolab.results.encoding import malformed

Json = dict[str, Any]
INTEGER, TEXT = core_schema.int_schema(strict=True), core_schema.str_schema(strict=True)
NUMBER, YES_OR_NO = core_schema.float_schema(strict=True), core_schema.bool_schema(strict=True)
ANYTHING, OBJECT = core_schema.any_schema(), core_schema.dict_schema()
_SCHEMA_FIRST = re.compile(rb'\{"schema":(\d{1,9})[,}]')
"""How every record begins that iolab wrote."""
_VERSION = SchemaValidator(
    core_schema.typed_dict_schema({"schema": core_schema.typed_dict_field(INTEGER)}, extra_behavior="ignore")
)


@dataclass(frozen=True, slots=True)
class Step:
    """From one schema to the next."""

    shape: SchemaValidator
    """What a record of the older schema looks like."""
    change: Callable[[Json], Json]
    """Returns it as the next schema has it; it may change what it is given."""


Steps = Mapping[int, Step]
"""By the schema that they begin at, up to the one before the newest, without a gap."""


def record(
    required: Mapping[str, CoreSchema], optional: Mapping[str, CoreSchema] | None = None
) -> CoreSchema:
    """Return the shape of an object with these keys and no other."""
    field = core_schema.typed_dict_field
    fields = {name: field(each) for name, each in required.items()}
    fields |= {name: field(each, required=False) for name, each in (optional or {}).items()}
    return core_schema.typed_dict_schema(fields, extra_behavior="forbid")


def part(required: Mapping[str, CoreSchema], optional: Mapping[str, CoreSchema] | None = None) -> CoreSchema:
    """Return the shape of an object with these keys among others, which are kept unseen."""
    return {**record(required, optional), "extra_behavior": "allow"}


def by_name(values: CoreSchema) -> CoreSchema:
    """Return the shape of an object with any keys."""
    return core_schema.dict_schema(TEXT, values)


def either(mapping: CoreSchema, other: CoreSchema) -> CoreSchema:
    """Return the shape of an object or of something else."""

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
    """Return the schema that a record says it has.

    Raises:
        Malformed: it says none.
    """
    if begin := _SCHEMA_FIRST.match(text):
        return int(begin[1])
    return int(decoded(_VERSION, text)["schema"])


def upgraded(text: bytes, version: int, steps: Steps, newest: int, what: str) -> bytes:
    """Return a record of an older schema as the newest has it.

    Raises:
        StoreError: it is of a newer schema, or of one that never was.
        Malformed: it does not have the shape of its schema; the message says which key is wrong.
    """
    if version not in steps:
        raise StoreError(
            f"reading {what}: its schema is {version}, this iolab reads {min(steps, default=newest)} to {newest}; "
            "use an iolab that is as new as the one that wrote it"
        )
    document = decoded(steps[version].shape, text)
    return applied(document, steps, newest)


def applied(document: Json, steps: Steps, newest: int) -> bytes:
    """Return a record that has the shape of its schema as the newest has it, in JSON."""
    for number in range(document["schema"], newest):
        document = steps[number].change(document)
    return to_json(document, inf_nan_mode="constants")


def decoded(shape: SchemaValidator, text: bytes) -> Json:
    """Return what JSON gives, if it has a shape.

    Raises:
        Malformed: it does not; the message says which key is wrong.
    """
    try:
        document: Json = shape.validate_json(text)
    except ValidationError as error:
        raise malformed(error) from error
    return document
