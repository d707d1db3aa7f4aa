"""What agents answer, and what programs beside them print, as types: whatever does not fit is a bad answer."""

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
"""A whole number that is never below 0: of frames, bytes, nanoseconds."""


def check_sums(histogram: Any) -> None:
    """Refuse counts that do not add up: quantiles of them would be of nothing.

    Raises:
        ValueError: the buckets do not have as many values as were counted.
    """
    counted = histogram.above + sum(count for _, count in histogram.buckets)
    if counted != histogram.count:
        raise ValueError(f"{counted} values are in the buckets, and {histogram.count} were counted")


def read_message(line: str) -> dict[str, Any]:
    """Return a message; an empty one for a line that holds none: its request ends at its deadline."""
    try:
        message = read_untrusted(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


class BadAnswer(AgentError):
    """An agent answered in a shape that this side does not know."""

    def __init__(self, agent: str, message: Text) -> None:
        super().__init__(message)
        self.agent = agent
        """The machine whose agent it is; empty: that of this computer."""


@contextmanager
def understood(agent: str, what: Text) -> Iterator[None]:
    """Read what a program on a machine printed; what cannot be understood is a bad answer of that machine.

    Raises:
        BadAnswer: reading it failed.
    """
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        where, seen = agent or Phrase("agent.this-computer"), repr(error)[:200]
        raise BadAnswer(agent, Phrase("agent.not-understood", what=what, where=where, error=seen)) from error


def decode(shape: type[T], value: Any, what: Text, *, agent: str = "") -> T:
    """Return `value`, which the agent of that machine answered, as `shape`.

    Raises:
        BadAnswer: it does not have that shape.
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
