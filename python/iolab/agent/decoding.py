"""Decode answers of agents and output of programs to types; data that does not fit its type is a bad answer."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, TypeVar, cast

from pydantic import Field, TypeAdapter, ValidationError

from iolab.errors import AgentError
from iolab.locale import Phrase, Text
from iolab.untrusted_json import read_untrusted

T = TypeVar("T")
Count = Annotated[int, Field(ge=0, strict=True)]
"""A non-negative whole number, such as a number of frames, bytes or nanoseconds."""


def check_sums(histogram: Any) -> None:
    """Reject histograms whose buckets do not sum to the count, because their quantiles would be wrong.

    Raises:
        ValueError: the sum of the buckets differs from the count.
    """
    counted = histogram.above + sum(count for _, count in histogram.buckets)
    if counted != histogram.count:
        raise ValueError(Phrase("agent.histogram-sums-differ", counted=counted, count=histogram.count))


def read_message(line: str) -> dict[str, Any]:
    """Return the message in a line. If the line contains no message, return an empty message; its request then times
    out."""
    try:
        message = read_untrusted(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


class BadAnswer(AgentError):
    """An answer of an agent that does not have the expected type."""

    def __init__(self, agent: str, message: Text) -> None:
        super().__init__(message)
        self.agent = agent
        """Machine of the agent; empty: the local host."""


@contextmanager
def understood(agent: str, what: Text) -> Iterator[None]:
    """Parse a program's output on a machine; output that cannot be parsed is a bad answer from that machine.

    Raises:
        BadAnswer: parsing failed.
    """
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        where, seen = agent or Phrase("agent.this-computer"), repr(error)[:200]
        raise BadAnswer(agent, Phrase("agent.not-understood", what=what, where=where, error=seen)) from error


def decode(shape: type[T], value: Any, what: Text, *, agent: str = "") -> T:
    """Decode `value`, a part of an agent's answer, to the type `shape`.

    Raises:
        BadAnswer: the value does not fit this type.
    """
    try:
        read: T = _adapter(cast(Hashable, shape)).validate_python(value)
        return read
    except ValidationError as error:
        first = error.errors()[0]
        place, seen = ".".join(str(part) for part in first["loc"]) or Phrase("agent.value"), first["msg"]
        wrong = Phrase("agent.bad-answer", what=what, place=place, error=seen)
        if agent:
            wrong = Phrase("agent.bad-answer-of-machine", agent=agent, what=what, place=place, error=seen)
        raise BadAnswer(agent, wrong) from error


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)
