"""Derive the valid keys and values from the pydantic models: the places of dotted paths, and descriptions for messages.

The models are the only definition of the language; this module contains no key or measure kind by name.
"""

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from iolab.experiment.model.instruments import Registered
from iolab.experiment.model.links import ADDRESS_ALLOWED, Address, Link
from iolab.experiment.model.machines import Host, Netns, Vm
from iolab.experiment.model.quantities import PortRef, Quantity
from iolab.experiment.model.volumes import Volume
from iolab.frozen import frozen
from iolab.locale import Phrase, Text
from iolab.registry.registry import measure_kinds


@cache
def models() -> Mapping[str, Mapping[str, type[BaseModel]]]:
    """Return a mapping from section group to kind to model; links and volumes have one kind.

    Raises:
        UnsupportedError: a measure kind of a different package cannot be loaded.
    """
    return {
        "machines": {"host": Host, "netns": Netns, "vm": Vm},
        "links": {"": Link},
        "volumes": {"": Volume},
        "measure": {name: kind.model for name, kind in measure_kinds().items()},
    }


@cache
def described_models() -> Mapping[str, Mapping[str, type[BaseModel]]]:
    """Return `models` with the docstring of each field as its description.

    Pydantic's use_attribute_docstrings would parse the sources of all models at every start, even if no schema is
    needed.

    Raises:
        UnsupportedError: a measure kind of a different package cannot be loaded.
    """
    tops = [model for group in models().values() for model in group.values()]
    for model in dict.fromkeys(
        [*(part for top in tops for part in reversed(list(models_within(top)))), *tops]
    ):
        _describe_fields(model)
    for model in tops:
        model.model_rebuild(force=True)
    return models()


def _describe_fields(model: type[BaseModel]) -> None:
    for base in reversed(model.__mro__):
        if base is BaseModel or not issubclass(base, BaseModel):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in itertools.pairwise(tree.body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                    value=ast.Constant(value=str() as words)
                ):
                    if name in model.model_fields:
                        model.model_fields[name].description = inspect.cleandoc(words)
    model.model_rebuild(force=True)


@frozen
class Lost:
    """A path that does not resolve."""

    depth: int
    """Index of the first word that matches no key."""
    word: str
    """The word that matches no key."""
    known: tuple[str, ...]
    """Valid words at that position."""


@cache
def keys(model: type[BaseModel]) -> Mapping[str, Any]:
    """Return the keys of a model as written in the file, each with its annotation."""
    return {info.alias or name: info.rebuild_annotation() for name, info in model.model_fields.items()}


def members(annotation: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield the alternatives of an annotation, without None, each with its metadata."""
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        inner = next((mark.choices() for mark in marks if isinstance(mark, Registered)), inner)
        metadata = [
            part for mark in marks for part in (mark.metadata if isinstance(mark, FieldInfo) else [mark])
        ]
        for member, closer in members(inner):
            yield member, (*closer, *metadata)
    elif get_origin(annotation) in (Union, UnionType):
        for option in get_args(annotation):
            yield from members(option)
    elif annotation is not NoneType and annotation is not None:
        yield annotation, ()


def locate(annotation: Any, words: tuple[str, ...], depth: int = 0) -> tuple[str, ...] | Lost:
    """Return the keys from a place to the place that `words` names, or the position of the first invalid word.

    In a mapping of single values (settings, addresses) all remaining words form one key, because such keys contain
    dots. In a mapping of models, a key with dots (machine.port) takes as many words as the rest of the path requires.
    """
    if not words:
        return ()
    lost = [Lost(depth, words[0], ())]
    for member, _ in members(annotation):
        found = _locate_in(member, words, depth)
        if not isinstance(found, Lost):
            return found
        lost.append(found)
    furthest = max(place.depth for place in lost)
    known = dict.fromkeys(word for place in lost if place.depth == furthest for word in place.known)
    word = next(place.word for place in lost if place.depth == furthest)
    return Lost(furthest, word, tuple(known))


def _locate_in(member: Any, words: tuple[str, ...], depth: int) -> tuple[str, ...] | Lost:
    first, rest = words[0], words[1:]
    if isinstance(member, type) and issubclass(member, BaseModel):
        known = keys(member)
        options = list(known.values()) if first == "*" else [known[first]] if first in known else []
        lost = Lost(depth, first, tuple(known))
    elif get_origin(member) is dict:
        value = get_args(member)[1]
        if all(_is_single(option) for option, _ in members(value)) and first != "*":
            return (".".join(words),)
        return _locate_below_key(get_args(member)[0], value, words, depth)
    elif get_origin(member) is tuple:
        counts = first == "*" or (first.isascii() and first.isdigit() and len(first) < 6)
        options, lost = ([get_args(member)[0]] if counts else []), Lost(depth, first, ("0", "1", "*"))
    else:
        return Lost(depth, first, ())
    for option in options:
        found = locate(option, rest, depth + 1)
        if not isinstance(found, Lost):
            return (first, *found)
        lost = max(lost, found, key=lambda place: place.depth)
    return lost


def _locate_below_key(key: Any, value: Any, words: tuple[str, ...], depth: int) -> tuple[str, ...] | Lost:
    """Return the keys below a mapping of models whose key may consist of several words, as port names do."""
    least = 2 if key is PortRef and words[0] != "*" else 1
    lost = Lost(depth, words[0], ())
    for count in range(least, len(words) + 1):
        rest = words[count:]
        if not rest and count > least and not (key is PortRef and words[-1].isdecimal()):
            break  # an error in the last word, not a longer key: only names of VLAN interfaces end in a number
        found = locate(value, rest, depth + count)
        if not isinstance(found, Lost):
            return (".".join(words[:count]), *found)
        lost = max(lost, found, key=lambda place: place.depth)
    return lost


def _is_single(member: Any) -> bool:
    return get_origin(member) is Literal or (
        isinstance(member, type) and not issubclass(member, BaseModel) and get_origin(member) is None
    )


def annotation_at(annotation: Any, place: tuple[str | int, ...]) -> Any:
    """Return the annotation of a place in data, or None if no model has such a place."""
    if not place:
        return annotation
    for member, _ in members(annotation):
        inner = None
        if isinstance(member, type) and issubclass(member, BaseModel):
            inner = keys(member).get(str(place[0]))
        elif get_origin(member) is dict:
            inner = get_args(member)[1]
        elif get_origin(member) is tuple:
            inner = get_args(member)[0]
        found = annotation_at(inner, place[1:]) if inner is not None else None
        if found is not None:
            return found
    return None


def allowed(annotation: Any) -> Text:
    """Return a description of the valid values at a place."""
    options: list[Text] = list(
        dict.fromkeys(_in_words(member, metadata) for member, metadata in members(annotation))
    )
    if _takes_none(annotation) and "none" not in options:
        options.append("none")
    named = [option for option in options if option]
    if len(named) > 1:
        return Phrase("check.one-of-options", options=named)
    return named[0] if named else Phrase("check.nothing")


def choices(annotation: Any) -> tuple[str, ...]:
    """Return the valid words at a place if they form a closed set; otherwise empty."""
    words = [
        word
        for member, _ in members(annotation)
        if get_origin(member) is Literal
        for word in get_args(member)
    ]
    return tuple(map(str, words)) + (("none",) if words and _takes_none(annotation) else ())


def _takes_none(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _takes_none(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return any(_takes_none(option) for option in get_args(annotation))
    return annotation is NoneType or annotation is None


def _in_words(member: Any, metadata: tuple[Any, ...]) -> Text:
    for mark in metadata:
        if isinstance(mark, Quantity):
            return mark.allowed
    if member is str and any(mark in metadata for mark in get_args(Address)[1:]):
        return ADDRESS_ALLOWED
    if member in _PLAIN:
        return _bounded(_PLAIN[member], metadata)
    if isinstance(member, type) and issubclass(member, BaseModel):
        return Phrase("check.mapping-with-the-keys", keys=[*keys(member)])
    match get_origin(member):
        case origin if origin is Literal:
            return Phrase("errors.listed", items=get_args(member))
        case origin if origin is tuple:
            least = next((mark.min_length for mark in metadata if isinstance(mark, MinLen)), 0)
            item = allowed(get_args(member)[0])
            if least:
                return Phrase("check.list-of-at-least", least=least, item=item)
            return Phrase("check.list-of-each", item=item)
        case _:
            return Phrase("check.mapping-of-names-to", item=allowed(get_args(member)[1]))


_TEXT = Phrase("check.text")

_PLAIN: Mapping[object, Text] = {
    int: Phrase("check.a-whole-number"),
    float: Phrase("check.a-number"),
    bool: Phrase("check.true-or-false"),
    str: _TEXT,
    PortRef: _TEXT,
}


def _bounded(what: Text, metadata: tuple[Any, ...]) -> Text:
    """Return a description of valid values with the bounds in the metadata."""
    low: object = None
    high: object = None
    for mark in metadata:
        if isinstance(mark, Ge | Gt):
            low = mark.ge if isinstance(mark, Ge) else Phrase("check.more-than", bound=mark.gt)
        if isinstance(mark, Le | Lt):
            high = mark.le if isinstance(mark, Le) else Phrase("check.less-than", bound=mark.lt)
    if low is not None and high is not None:
        return Phrase("check.bounded", what=what, low=low, high=high)
    if low is not None:
        return Phrase("check.bounded-below", what=what, low=low)
    return what if high is None else Phrase("check.bounded-above", what=what, high=high)


def models_within(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models within a model, outer models first."""
    for annotation in keys(model).values():
        for part in models_in(annotation):
            yield part
            yield from models_within(part)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in an annotation."""
    for member, _ in members(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel):
            yield member
        elif get_origin(member) in (tuple, dict):
            for inner in get_args(member):
                if inner is not Ellipsis:
                    yield from models_in(inner)


def quantity(annotation: Any) -> Quantity | None:
    """Return the quantity of an annotation, or of the items of its list."""
    for member, metadata in members(annotation):
        if get_origin(member) is tuple:
            return quantity(get_args(member)[0])
        for mark in metadata:
            if isinstance(mark, Quantity):
                return mark
    return None


def default(info: FieldInfo) -> Any:
    """Return the default of a key in file syntax; None if there is no default."""
    if info.is_required():
        return None
    value = info.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ((), {}) or isinstance(value, BaseModel):
        return None
    unit = quantity(info.rebuild_annotation())
    if unit is None:
        return value
    return [unit.write(item) for item in value] if isinstance(value, tuple) else unit.write(value)
