"""Any tree of words in a file is valid, or refused with a message."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iolab.errors import InputError
from iolab.experiment import parse
from iolab.experiment.reading.grammar import keys, models

WORDS = sorted(
    {key for group in models().values() for model in group.values() for key in keys(model)}
    | {
        "lab",
        "machines",
        "links",
        "volumes",
        "measure",
        "factors",
        "baseline",
        "only",
        "except",
        "blocks",
        "title",
    }
    | {
        "a",
        "b",
        "a.eth0",
        "b.eth0",
        "none",
        "on",
        "netns",
        "vm",
        "stream",
        "forwarding",
        "disk",
        "64K",
        "1s",
        "1Gbit",
    }
    | {
        "links.a.mtu",
        "*.from",
        "machines.*.on",
        "a.flows.0.from",
        "machines.c",
        "*.*",
        "links.*.*.*",
        "a.",
        ".",
    }
    | {"value", "factors"}
)
NUMBERS = st.integers(-2, 10_000) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.one_of(st.sampled_from(WORDS), NUMBERS, st.booleans(), st.none())
TOP = ("lab", "measure", "factors", "baseline", "only", "except", "blocks", "title", "seed")
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=25,
)


@settings(max_examples=150, deadline=None)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(TOP, TREES)))
def test_random_tree_of_experiment_keywords_is_refused_without_a_traceback(tree: dict[str, object]) -> None:
    """Refuse documents with the language's words in wrong places."""
    with pytest.raises(InputError):
        parse(json.dumps(tree), "x.yaml")


@settings(max_examples=150, deadline=None)
@given(
    section=st.sampled_from(["machines", "links", "measure", "factors", "baseline", "only"]),
    key=st.sampled_from(WORDS),
    inner=st.sampled_from(WORDS),
    value=TREES,
)
def test_single_wrong_value_never_causes_a_traceback(
    section: str, key: str, inner: str, value: object
) -> None:
    """Accept or refuse a valid document with one wrong part."""
    tree: dict[str, Any] = {
        "lab": {
            "machines": {"a": {"kind": "netns"}, "b": {"kind": "vm"}},
            "links": {"lan": {"ends": ["a.eth0", "b.eth0"]}},
        },
        "measure": {"tcp": {"kind": "stream", "from": "a", "to": "b"}},
        "factors": {"links.lan.mtu": [1500, 9000]},
    }
    holder = tree["lab"] if section in ("machines", "links") else tree
    holder.setdefault(section, {}).setdefault(key, {})
    place = holder[section]
    first = next(iter(place))
    for name in {key, first}:
        if isinstance(place[name], dict):
            place[name][inner] = value
    with suppress(InputError):
        parse(json.dumps(tree), "x.yaml")
