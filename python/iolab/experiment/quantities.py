"""Pydantic field types for quantities, names and switches; the parsing itself is in `iolab.units`."""

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from iolab import units

FROZEN = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
"""Every model of the language: immutable, no unknown keys."""


def _quantity(parse: Any, unit: str, examples: list[str], **bounds: Any) -> Any:
    schema = {"type": ["string", "integer"], "examples": examples, "description": f"resolved to {unit}"}
    return Annotated[int, BeforeValidator(parse), Field(json_schema_extra=schema, **bounds)]


Bytes = _quantity(units.parse_bytes, "bytes", ["128K", "1G"], ge=0)
BitsPerSecond = _quantity(units.parse_bits_per_second, "bit/s", ["1000Mbit"], gt=0)
Nanoseconds = _quantity(units.parse_nanoseconds, "ns", ["10s", "12us"], ge=0)
