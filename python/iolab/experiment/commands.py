"""Programs of the user's own: what is run where, what stands beside it, and which figures its output has."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from iolab.experiment.measures import Measure
from iolab.experiment.quantities import FROZEN, Count, Maybe, Period, Setting, SomeNanoseconds, unset
from iolab.experiment.ready import Ready

FigureName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", strict=True)]
"""What a figure is called: small letters, digits and _."""
Unit = Annotated[str, Field(min_length=1, max_length=24, strict=True)]
"""As the program counts: 1/s, ms, MB/s, ratio, count. s, ns, bit/s, B/s and ratio are scaled in reports."""


class Program(BaseModel):
    """A program on a machine. In its words, standard input and environment {far} and {far.eth0} are addresses."""

    model_config = FROZEN
    on: str
    """The machine that it runs on."""
    run: tuple[Setting, ...] = ()
    """The program and its arguments, a word each; no shell reads them."""
    shell: Maybe[str] = None
    """A text that `sh -c` reads; instead of `run`."""
    environment: dict[str, Setting] = Field(default_factory=dict)
    """Added to its environment; without a word about it LC_ALL is C."""
    stdin: Maybe[str] = None
    """Its standard input; absent: empty."""
    folder: Maybe[str] = None
    """Where it runs; absent: an empty folder of its own in memory, which goes with the trial."""


class Server(Program):
    """A program that is started before a trial's own and stopped after it."""

    ready: Ready = unset(Ready)
    """When the trial goes on; absent: as soon as it was started."""
    within: SomeNanoseconds = 30_000_000_000
    """Longest time until it is ready."""


class Figure(BaseModel):
    """A number in the output of a program: found by one of `path`, `pattern`, `column`."""

    model_config = FROZEN
    unit: Unit
    """As the program counts."""
    better: Maybe[Literal["larger", "smaller"]] = None
    """Which of two values is the better one: reports then say of a change whether it is for the better."""
    path: Maybe[str] = None
    """JSONPath (RFC 9535): the output is JSON, and the query finds one number."""
    pattern: Maybe[str] = None
    """Regular expression: matches once, and its group `value`, or its only group, is the number.

    A group `unit` is the unit that the program wrote (us, ms, s, Mbit/s): the number is given in the figure's own."""
    column: Maybe[str] = None
    """The output is CSV with a head and one row: the number in the column of this name."""
    per_line: Maybe[Period] = None
    """There are several numbers, such a time apart: the figure is their mean, and a series over time is kept."""


class CommandMeasure(Measure, Program):
    """A program of the user's own."""

    model_config = FROZEN
    kind: Literal["command"]
    """What is measured."""
    timeout: SomeNanoseconds = 60_000_000_000
    """Longest time that it may take; one that takes longer is killed, and the trial fails."""
    duration: SomeNanoseconds = 10_000_000_000
    """How long it takes, about: what plans are timed by."""
    ip: Maybe[Literal[4, 6]] = None
    """Version of IP of the addresses that stand for names, where links have both; absent: 4."""
    exit_status: Count = Field(default=0, ge=0, le=255)
    """How it ends where it did its part."""
    servers: dict[FigureName, Server] = Field(default_factory=dict)
    """Programs beside it, by name, started in this order."""
    metrics: dict[FigureName, Figure] = Field(default_factory=dict)
    """Its figures, by name; the first leads. Absent: how long it took."""
