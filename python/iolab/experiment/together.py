"""Several measures at once: which, and when each begins."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.json_schema import JsonSchemaValue

from iolab.experiment.measures import Measure
from iolab.experiment.quantities import Maybe, Offset, Shorthand

LEAST_PARTS, MOST_PARTS = 2, 16
"""Of one trial."""


def _at_once(value: object) -> object:
    """Turn a list of names into a mapping: all of them begin at once."""
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        return value
    return dict.fromkeys(value, 0) if len(set(value)) == len(value) else value


def _names(_: JsonSchemaValue) -> JsonSchemaValue:
    length = {"minItems": LEAST_PARTS, "maxItems": MOST_PARTS}
    return {"type": "array", "items": {"type": "string"}, **length, "uniqueItems": True}


class Together(Measure):
    """Measures that are taken at the same time, each as if it stood alone: load, and what looks at it."""

    kind: Literal["together"]
    """What is measured."""
    of: Annotated[
        dict[str, Maybe[Offset]],
        Shorthand(_at_once, _names),
        Field(min_length=LEAST_PARTS, max_length=MOST_PARTS),
    ]
    """Names of measures, each with when it begins: 0s, 5s, -5s; none: not at all. A list of names: all at 0s.
    They are taken only so."""
