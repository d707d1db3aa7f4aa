"""A statement: a code and its typed parameters. Stored and compared as such, put in words where it is shown."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, model_serializer, model_validator

from iolab.aliases import new_code, new_keys

CODE = "code"
"""The key that tells a stored statement's code; the others are its parameters."""
NAME, QUOTED = "name", "quoted"
Name = Annotated[str, NAME]
"""What something is called: a machine, a port, a key of the file, a kernel's or program's own word. No sentence."""
Quoted = Annotated[str, QUOTED]
"""What a program, the kernel or a library said, or an error that no code is for: shown as it is, in no language."""
_KINDS: dict[str, type["Statement"]] = {}


class Statement(BaseModel):
    """What is stated. A class with a `code` is one statement, its fields are the parameters; units are in their names.

    Stored as an object: the code and every parameter. An unknown code, a missing or an unknown parameter is an error.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    code: ClassVar[str]
    """Short and stable, e.g. counters-disagree; one statement has it."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_options: Any) -> None:
        """Make the code known.

        Raises:
            TypeError: another statement has it.
        """
        if CODE in cls.__dict__ and _KINDS.setdefault(cls.code, cls) is not cls:
            raise TypeError(f"stating {cls.__name__}: {_KINDS[cls.code].__name__} has the code {cls.code}")

    @model_validator(mode="wrap")
    @classmethod
    def _by_its_code(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Read a stored statement as the class of its code, which must be of this kind."""
        if not isinstance(value, Mapping) or (CODE not in value and CODE in cls.__dict__):
            return handler(value)
        parameters = dict(value)
        code = parameters.pop(CODE, None)
        kind = _kind_of(new_code(code)) if isinstance(code, str) else None
        if kind is None or not issubclass(kind, cls):
            raise ValueError(f"{code!r} is no code of a {cls.__name__.lower()}; it may be of a newer iolab")
        return kind.model_validate(new_keys(parameters, kind.code))

    @model_serializer(mode="plain")
    def _with_its_code(self) -> dict[str, Any]:
        return {CODE: self.code, **dict(self)}


class Failure(Statement):
    """Why a trial failed, or is invalid."""


class Warning(Statement):
    """Something the reader of a result must know."""

    comparable: ClassVar[bool] = True
    """Whether figures of a trial with it may be put in proportion to others."""


def _kind_of(code: str) -> type[Statement] | None:
    """Return the class that has a code; None: no class has it."""
    if code not in _KINDS:
        _load_all()
    return _KINDS.get(code)


@cache
def _load_all() -> None:
    """Import every module of statements: a stored one may be of a class that nothing has imported yet.

    A fifth of a second: only where statements are read, or listed.
    """
    package, _, _ = __name__.rpartition(".")
    for module in iter_modules([str(Path(__file__).parent)], f"{package}."):
        import_module(module.name)


def codes(kind: type[Statement]) -> dict[str, type[Statement]]:
    """Return the statements of a kind, by code."""
    _load_all()
    return {code: found for code, found in _KINDS.items() if issubclass(found, kind)}
