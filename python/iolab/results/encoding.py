"""Encode records as JSON and decode them.

A decoded record must match its type exactly, without missing or unknown fields.
"""

import json
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import CoreConfig, CoreSchema, SchemaSerializer, SchemaValidator

from iolab.aliases import Sort, aliases

T = TypeVar("T")
EXACT = CoreConfig(extra_fields_behavior="forbid", strict=True)
MOST_TOLD = 3
"""Maximum number of invalid fields of one record that an error lists."""


class Malformed(ValueError):
    """A text is not a record of the required type; the message names the invalid fields."""


class Encoding(Generic[T]):
    """Encoder and decoder of one record type."""

    def __init__(self, shape: type[T], *, defaults: bool = False) -> None:
        """Create the encoding of a type; with `defaults`, fields that have their default value are omitted."""
        self._shape = shape
        self._defaults = defaults

    @cached_property
    def _schema(self) -> CoreSchema:
        """Build the schema on first use, because most commands use few of the types."""
        adapter = TypeAdapter(self._shape)
        adapter.rebuild()  # the schemas of statements are built only on request
        return adapter.core_schema

    @cached_property
    def _validator(self) -> SchemaValidator:
        return SchemaValidator(_exact(self._schema, defaults=self._defaults))

    @cached_property
    def _serializer(self) -> SchemaSerializer:
        return SchemaSerializer(self._schema)

    def encode(self, value: T) -> bytes:
        """Return a record as JSON.

        Raises:
            ValueError: the record contains a number that is not finite, which JSON cannot represent.
        """
        plain = self._serializer.to_python(value, mode="json", exclude_defaults=self._defaults)
        return json.dumps(plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

    def decode(self, text: bytes | str) -> T:
        """Return the record that `encode` wrote.

        Raises:
            Malformed: the text is not JSON, or has missing or additional fields, or fields of the wrong type.
        """
        try:
            read: T = self._validator.validate_json(text)
        except ValidationError as error:
            raise malformed(error) from error
        return read


def malformed(error: ValidationError) -> Malformed:
    """Return the invalid fields of a record, each with the reason."""
    told = [
        f"{'.'.join(map(str, each['loc'])) or 'record'}: {each['msg']}"
        for each in error.errors(include_url=False, include_input=False)[:MOST_TOLD]
    ]
    return Malformed("; ".join(told))


def _exact(schema: Any, *, defaults: bool) -> Any:
    """Return a schema that every record must match exactly.

    Without `defaults`, no field may be missing: default values are for creating records, not for reading them.
    """
    if isinstance(schema, list | tuple):
        return type(schema)(_exact(each, defaults=defaults) for each in schema)
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "default" and not defaults:
        return _exact(schema["schema"], defaults=defaults)
    exact = {key: _exact(value, defaults=defaults) for key, value in schema.items()}
    if schema.get("type") == "dataclass-args":
        old = {row.new: row.old for row in aliases(Sort.JSON_KEY, schema["dataclass_name"])}
        exact["fields"] = [_with_old_name(each, old.get(each["name"])) for each in exact["fields"]]
    return {**exact, "config": EXACT} if schema.get("type") == "dataclass" else exact


def _with_old_name(field: dict[str, Any], old: str | None) -> dict[str, Any]:
    """Return a field that can also be read under its old name."""
    return field if old is None else {**field, "validation_alias": [[field["name"]], [old]]}
