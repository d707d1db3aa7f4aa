"""Records as JSON and back. What is read must be exactly what the type says: nothing missing, nothing unknown."""

import json
from functools import cache
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import CoreConfig, SchemaSerializer, SchemaValidator

T = TypeVar("T")
EXACT = CoreConfig(extra_fields_behavior="forbid", strict=True)
MOST_TOLD = 3
"""Wrong fields of one record that an error lists."""


class Malformed(ValueError):
    """A text is no record of the type that was wanted; the message says which field is wrong, and how."""


class Encoding(Generic[T]):
    """One type of record, to and from JSON."""

    def __init__(self, shape: type[T]) -> None:
        schema = TypeAdapter(shape).core_schema
        self._validator = SchemaValidator(_exact(schema), EXACT)
        self._serializer = SchemaSerializer(schema)

    def encode(self, value: T) -> bytes:
        """Return a record as JSON, every field written.

        Raises:
            ValueError: a figure in it is no finite number, which JSON cannot hold.
        """
        plain = self._serializer.to_python(value, mode="json")
        return json.dumps(plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

    def decode(self, text: bytes | str) -> T:
        """Return the record that `encode` wrote.

        Raises:
            Malformed: it is no JSON, or has a field too few, too many, or of another type.
        """
        try:
            read: T = self._validator.validate_json(text)
        except ValidationError as error:
            told = [
                f"{'.'.join(map(str, each['loc'])) or 'record'}: {each['msg']}"
                for each in error.errors(include_url=False, include_input=False)[:MOST_TOLD]
            ]
            raise Malformed("; ".join(told)) from error
        return read


@cache
def encoding(shape: type[T]) -> Encoding[T]:
    """Return the encoding of a type, made once."""
    return Encoding(shape)


def _exact(schema: Any) -> Any:
    """Return a schema in which no field may be left out: a default is for who makes a record, not for who reads it."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_exact, schema))
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "default":
        return _exact(schema["schema"])
    exact = {key: _exact(value) for key, value in schema.items()}
    return {**exact, "config": EXACT} if schema.get("type") == "dataclass" else exact
