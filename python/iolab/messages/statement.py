"""A statement: a code with typed parameters.

Statements are stored and compared; a language turns them into sentences.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, ClassVar, Self, Unpack, get_args

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, model_serializer, model_validator

from iolab.aliases import new_code, new_keys
from iolab.messages.codes import MODULE_OF

CODE = "code"
"""The key of the code in a stored statement; the other keys are parameters."""
NAME, QUOTED = "name", "quoted"
Name = Annotated[str, NAME]
"""A name: of a machine, a port, a key of the file, or a term of the kernel or a program. Not a sentence."""
Quoted = Annotated[str, QUOTED]
"""Output of a program, the kernel or a library, or an error without a code; it is shown unchanged in every language."""
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""Pattern of the start of a word in a class name."""


class Statement(BaseModel):
    """Base class of statements. A class is one statement, and its fields are the parameters; the names of the fields
    contain the units.

    A class can stand for several statements with equal parameters: then its field `code` lists the codes. A statement
    is stored as an object with the code and all parameters. An unknown code, and a missing or unknown parameter, are
    errors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    code: ClassVar[str]
    """Short, stable code, for example counters-disagree: the class name, unless the class defines a different code.
    `codes.py` lists all codes."""

    def __init_subclass__(cls, *, kind: bool = False, **options: Unpack[ConfigDict]) -> None:
        """Set the code of a class; `kind`: the class is a base class of statements, not a statement."""
        super().__init_subclass__(**options)
        if not kind and CODE not in cls.__dict__ and CODE not in cls.__annotations__:
            cls.code = _WORD.sub("-", cls.__name__).lower()

    @model_validator(mode="wrap")
    @classmethod
    def _by_its_code(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Parse a stored statement as the class of its code, which must be a subclass of this class."""
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
    """A reason why a trial failed or is invalid."""


class TrialWarning(Statement, kind=True):
    """A warning to the reader of a result."""

    comparable: ClassVar[bool] = True
    """Whether figures of a trial with this warning may be compared with those of other trials as ratios."""


def _kind_of(code: str) -> type[Statement] | None:
    """Return the class with a code; None: no class has it."""
    module = MODULE_OF.get(code)
    return None if module is None else statements_of(module)[code]


@cache
def statements_of(module: str) -> Mapping[str, type[Statement]]:
    """Return the statements that a module in this package defines, by code."""
    path = f"{__package__}.{module}"
    every = vars(import_module(path)).values()
    own = [
        one
        for one in every
        if isinstance(one, type) and issubclass(one, Statement) and one.__module__ == path
    ]
    return {code: one for one in own for code in codes_of(one)}


def codes_of(kind: type[Statement]) -> tuple[str, ...]:
    """Return the codes of a statement class; empty: the class is a base class of several classes."""
    if CODE in kind.model_fields:
        return get_args(kind.model_fields[CODE].annotation)
    return (kind.code,) if CODE in kind.__dict__ else ()
