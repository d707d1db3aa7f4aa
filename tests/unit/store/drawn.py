"""Random records, series and dimensions: any value that their types allow."""

import dataclasses
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from hypothesis import strategies as st
from tests.stated import codes

import iolab.messages
import iolab.results
from iolab.messages.statement import Statement
from iolab.results.metric import Dimensions, Heads, Metric, Metrics
from iolab.results.search import Goal
from iolab.results.series import Over, Series
from iolab.results.trial import TrialResult

numbers = st.floats(allow_nan=True, allow_infinity=True)
texts = st.none() | st.text(max_size=8)
dimensions = st.builds(
    Dimensions,
    load_ratio=st.none() | st.floats(0, 2),
    flow=texts,
    direction=texts,
    machine=texts,
    port=texts,
    queue=st.none() | st.integers(0, 2**31),
    cpu=st.none() | st.integers(0, 8192),
    role=texts,
    thread=texts,
    window_ns=st.none() | st.integers(1, 10**12),
    part=texts,
)
PLAIN: Mapping[Any, st.SearchStrategy[Any]] = {
    int: st.integers(0, 2**53),
    float: st.floats(0, 1e15, allow_subnormal=False),
    bool: st.booleans(),
    str: st.text(max_size=6),
    NoneType: st.none(),
}
BOUNDED: Mapping[type, Mapping[str, st.SearchStrategy[Any]]] = {
    Metric: {"method": st.none() | st.integers(1, 99)},
    Goal: {
        "loss_ratio": st.floats(0, 0.5),
        "relative_width": st.floats(0.001, 0.5),
        "min_fps": st.floats(1, 10),
        "max_fps": st.floats(11, 1e9),
        "trial_ns": st.integers(1, 10**12),
    },
}
"""Fields with tighter bounds than their types."""
OTHERWISE = (TrialResult, Series, Heads)
"""Records that are stored in a form other than JSON: a line of trials.jsonl, a table, and shared memory of trials."""


def _all_of(package: ModuleType) -> tuple[ModuleType, ...]:
    return tuple(import_module(one.name) for one in iter_modules(package.__path__, f"{package.__name__}."))


_all_of(iolab.messages)
RECORDS: tuple[type, ...] = tuple(
    kind
    for module in _all_of(iolab.results)
    for kind in vars(module).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__
)
"""Every type of record."""


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Generate any value of a type: of a record with every field, of a statement kind any of them."""
    if kind in PLAIN:
        return PLAIN[kind]
    if get_origin(kind) is not None:
        return _composed(get_origin(kind), get_args(kind))
    if kind is Metrics:
        return st.lists(any_of(Metric), max_size=3, unique_by=lambda each: each.quantity).map(Metrics)
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    if issubclass(kind, Statement):
        found = list(dict.fromkeys(one for _, one in sorted(codes(kind).items())))  # some have several codes
        return st.sampled_from(found).flatmap(lambda one: st.deferred(lambda: _made(one)))
    return _made(kind)


def _composed(origin: Any, args: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if origin is Annotated:
        return any_of(args[0])
    if origin in (Union, UnionType):
        return st.one_of([any_of(each) for each in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple and args[1:] == (...,):
        return st.lists(any_of(args[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(any_of, args))
    return st.dictionaries(any_of(args[0]), any_of(args[1]), max_size=2)


def _made(kind: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind, include_extras=True)
    if issubclass(kind, Statement):
        hints = {name: hints[name] for name in kind.model_fields}
    return st.builds(
        kind, **{name: any_of(hint) for name, hint in hints.items()} | dict(BOUNDED.get(kind, {}))
    )


@st.composite
def any_series(draw: st.DrawFn) -> Series:
    """Generate any series."""
    times = sorted(draw(st.sets(st.integers(0, 2**62), min_size=1, max_size=6)))
    values = draw(st.lists(numbers, min_size=len(times), max_size=len(times)))
    name, unit, source = draw(st.tuples(st.text(max_size=6), st.text(max_size=6), st.text(max_size=6)))
    over = draw(st.sampled_from(Over))
    at_ns = np.array(times, dtype=np.int64)
    return Series(name, unit, at_ns, np.array(values), draw(dimensions), over, source)
