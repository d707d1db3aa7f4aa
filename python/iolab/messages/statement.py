"""A statement: a code and its typed parameters. Stored and compared as such, put in words where it is shown."""

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, ClassVar, Self, Unpack, get_args

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, model_serializer, model_validator

from iolab.aliases import new_code, new_keys
from iolab.messages.codes import MODULE_OF

CODE = "code"
"""The key that tells a stored statement's code; the others are its parameters."""
NAME, QUOTED = "name", "quoted"
Name = Annotated[str, NAME]
"""What something is called: a machine, a port, a key of the file, a kernel's or program's own word. No sentence."""
Quoted = Annotated[str, QUOTED]
"""What a program, the kernel or a library said, or an error that no code is for: shown as it is, in no language."""
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""Where a word begins in the name of a class."""


class Statement(BaseModel):
    """What is stated. A class is one statement, its fields are the parameters; units are in their names.

    A class may be of several statements with the same parameters: then its field `code` says which codes it may have.
    Stored as an object: the code and every parameter. An unknown code, a missing or an unknown parameter is an error.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    code: ClassVar[str]
    """Short and stable, e.g. counters-disagree: the name of the class, unless the class says another. `codes.py` has
    each one."""

    def __init_subclass__(cls, *, kind: bool = False, **options: Unpack[ConfigDict]) -> None:
        """Give a class its code; `kind`: the class is of several statements, and none itself."""
        super().__init_subclass__(**options)
        if not kind and CODE not in cls.__dict__ and CODE not in cls.__annotations__:
            cls.code = _WORD.sub("-", cls.__name__).lower()

    @model_validator(mode="wrap")
    @classmethod
    def _by_its_code(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Read a stored statement as the class of its code, which must be of this kind."""
        if not isinstance(value, Mapping) or (CODE not in value and CODE in cls.__dict__):
            return handler(value)
        parameters = dict(value)
        stored = parameters.pop(CODE, None)
        code = new_code(stored) if isinstance(stored, str) else ""
        kind = _kind_of(code)
        if kind is None or not issubclass(kind, cls):
            kind_name = _WORD.sub(" ", cls.__name__).lower()
            raise ValueError(f"{stored!r} is not a code of the kind '{kind_name}'; a newer iolab may know it")
        known = new_keys(parameters, code)
        if CODE not in kind.model_fields:
            return kind.model_validate(known)
        whole = {CODE: code, **known}
        return handler(whole) if kind is cls else kind.model_validate(whole)

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields other than the code, by name."""
        return {name: value for name, value in self if name != CODE}

    @model_serializer(mode="plain")
    def _with_its_code(self) -> dict[str, Any]:
        return {CODE: self.code, **dict(self)}


class Failure(Statement, kind=True):
    """Why a trial failed, or is invalid."""


class TrialWarning(Statement, kind=True):
    """Something the reader of a result must know."""

    comparable: ClassVar[bool] = True
    """Whether figures of a trial with it may be put in proportion to others."""


def _kind_of(code: str) -> type[Statement] | None:
    """Return the class that has a code; None: no class has it."""
    module = MODULE_OF.get(code)
    return None if module is None else statements_of(module)[code]


@cache
def statements_of(module: str) -> Mapping[str, type[Statement]]:
    """Return the statements that a module of this package defines, by code."""
    path = f"{__package__}.{module}"
    every = vars(import_module(path)).values()
    own = [
        one
        for one in every
        if isinstance(one, type) and issubclass(one, Statement) and one.__module__ == path
    ]
    return {code: one for one in own for code in codes_of(one)}


def codes_of(kind: type[Statement]) -> tuple[str, ...]:
    """Return the codes that statements of a class have; none: it is a kind of several classes."""
    if CODE in kind.model_fields:
        return get_args(kind.model_fields[CODE].annotation)
    return (kind.code,) if CODE in kind.__dict__ else ()
