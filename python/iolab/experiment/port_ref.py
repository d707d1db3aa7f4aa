"""The name of a port of the lab, machine.port, taken apart once."""

from functools import lru_cache
from typing import Any, Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


class PortRef(str):
    """Text "machine.port" and its two parts. It compares, sorts and prints as its text.

    The port may have dots of its own (a VLAN's interface). Text without a dot names a machine alone.
    """

    __slots__ = ("machine", "port")
    machine: str
    """The machine's name."""
    port: str
    """The port's name, which is its interface's; empty: the text names no port."""

    def __new__(cls, text: str) -> Self:
        """Split the text at its first dot."""
        if type(text) is cls:
            return text  # immutable, like every str
        ref = super().__new__(cls, text)
        ref.machine, _, ref.port = text.partition(".")
        return ref

    @classmethod
    @lru_cache(maxsize=1 << 14)  # planning names the few ports of a lab hundreds of thousands of times
    def of(cls, machine: str, port: str) -> Self:
        """Return the name of a machine's port."""
        return cls(f"{machine}.{port}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate as text, then take it apart."""
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())
