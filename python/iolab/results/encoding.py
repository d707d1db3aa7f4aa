"""Records as JSON and back. What is read must be exactly what the type says: nothing missing, nothing unknown."""

import json
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import CoreConfig, CoreSchema, SchemaSerializer, SchemaValidator

from iolab.aliases import Sort, aliases

T = TypeVar("T")
EXACT = CoreConfig(extra_fields_behavior="forbid", strict=True)
MOST_TOLD = 3
"""Wrong fields of one record that an error lists."""


class Malformed(ValueError):
    """A text is no record of the type that was wanted; the message says which field is wrong, and how."""


class Encoding(Generic[T]):
    """One type of record, to and from JSON."""

    def __init__(self, shape: type[T], *, defaults: bool = False) -> None:
        """Make the encoding of a type; `defaults`: fields with a default are left out where they have it."""
        self._shape = shape
        self._defaults = defaults

    @cached_property
    def _schema(self) -> CoreSchema:
        """Made when it is first used: most commands read or write few of the types."""
        adapter = TypeAdapter(self._shape)
        adapter.rebuild()  # of a statement it was put off
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
            ValueError: a figure in it is no finite number, which JSON cannot hold.
        """
        plain = self._serializer.to_python(value, mode="json", exclude_defaults=self._defaults)
        return json.dumps(plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

    def decode(self, text: bytes | str) -> T:
        """Return the record that `encode` wrote.

        Raises:
            Malformed: it is no JSON, or has a field too few, too many, or of another type.
        """
        try:
            read: T = self._validator.validate_json(text)
        except ValidationError as error:
            raise malformed(error) from error
        return read


def malformed(error: ValidationError) -> Malformed:
    """Return which fields of a record are wrong, and how."""
    told = [
        f"{'.'.join(map(str, each['loc'])) or 'record'}: {each['msg']}"
        for each in error.errors(include_url=False, include_input=False)[:MOST_TOLD]
    ]
    return Malformed("; ".join(told))


def _exact(schema: Any, *, defaults: bool) -> Any:
    """Return a schema that says of every record how exact it is.

    Without `defaults` no field may be left out: a default is for who makes a record, not for who reads it.
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
    """Return a field that is read by its old name as well."""
    return field if old is None else {**field, "validation_alias": [[field["name"]], [old]]}
