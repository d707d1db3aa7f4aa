"""Frozen dataclasses that are cheap to define.

`dataclass(frozen=True, slots=True)` generates and compiles six methods per class, which takes a third of a millisecond:
with two hundred classes, this is a fifth of a command's start-up time. This module compiles one method per class on
first use; all classes share the other methods.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def frozen(cls: type[T]) -> type[T]: ...
@overload
def frozen(*, kw_only: bool) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T] | None = None, *, kw_only: bool = False) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class equivalent to `dataclass(frozen=True, slots=True)`, including `replace`, `fields` and `match`."""
    return _made(cls, kw_only) if cls is not None else lambda cls: _made(cls, kw_only)


def _made(cls: type[T], kw_only: bool) -> type[T]:
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
    own = fields(made)
    made.__init__ = _first_init(made, own)
    equal, hashed = _comparison([each.name for each in own if each.compare])
    made.__eq__, made.__hash__ = equal, made.__dict__.get("__hash__", hashed)
    made.__repr__, made.__setattr__, made.__delattr__ = _repr, _refuse, _refuse
    made.__getstate__, made.__setstate__ = _state, _set_state
    return made  # type: ignore[no-any-return]  # slots take a second class


def _first_init(made: Any, own: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Return an initialiser that compiles the real one on its first call, because many classes are never
    instantiated."""

    def __init__(self: object, *values: object, **named: object) -> None:  # noqa: N807  # becomes the method
        made.__init__ = _init(made, own)
        made.__init__(self, *values, **named)

    return __init__


def _init(made: type, own: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Compile the initialiser, which sets fields through their slots, because the class rejects normal assignment."""
    scope: dict[str, Any] = {"MISSING": MISSING}
    parameters, named, lines = ["self"], ["*"], []
    for each in own:
        name = each.name
        scope[f"set_{name}"] = getattr(made, name).__set__
        value = name
        if each.default is not MISSING:
            scope[f"default_{name}"] = each.default
            default = f"=default_{name}"
        elif each.default_factory is not MISSING:
            scope[f"make_{name}"] = each.default_factory
            default, value = "=MISSING", f"make_{name}() if {name} is MISSING else {name}"
        else:
            default = ""
        if each.init:
            (named if each.kw_only else parameters).append(f"{name}{default}")
        elif not default:
            continue  # set by `__post_init__`
        else:
            value = f"make_{name}()" if default == "=MISSING" else f"default_{name}"
        lines.append(f"    set_{name}(self, {value})")
    if hasattr(made, "__post_init__"):
        lines.append("    self.__post_init__()")
    if len(named) > 1:
        parameters += named
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *(lines or ["    pass"])]), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    return init


def _comparison(names: list[str]) -> tuple[Callable[[Any, object], bool], Callable[[Any], int]]:
    """Return the methods that compare and hash objects by these fields."""
    values = attrgetter(*names) if names else type

    def __eq__(self: object, other: object) -> bool:  # noqa: N807  # becomes the method
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:  # noqa: N807  # becomes the method
        return hash(values(self))

    return __eq__, __hash__


def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse(_: object, name: str, *_value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
