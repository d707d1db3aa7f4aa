"""What stands on a machine beside its network: files, changes by commands with their undo, and services."""

from typing import Annotated

from pydantic import BaseModel, Field

from iolab.experiment.quantities import FROZEN, Maybe, Setting, SomeNanoseconds, unset
from iolab.experiment.ready import Ready

Words = Annotated[tuple[Setting, ...], Field(min_length=1)]
"""A program and its arguments, a word each; no shell reads them."""
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", strict=True)]
"""Of a file: letters, digits, -, _ and ., beginning with a letter or digit."""
PartName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$", strict=True)]
"""Of a change or a service: letters, digits, - and _."""


class Change(BaseModel):
    """A command that sets something, and one that takes it back. {far} is an address, {files} a folder."""

    model_config = FROZEN
    do: Words
    """Sets it: the program and its arguments, a word each; no shell reads them."""
    undo: Words
    """Takes it back; harmless where it was not set."""
    check: tuple[Setting, ...] = ()
    """Ends with status 0 as long as it holds; absent: nobody looks."""


class Service(BaseModel):
    """A program that runs as long as the lab stands. {far} is an address, {files} the machine's folder."""

    model_config = FROZEN
    run: Words
    """The program and its arguments, a word each; no shell reads them. It stays in the foreground."""
    environment: dict[str, Setting] = Field(default_factory=dict)
    """Added to its environment."""
    ready: Ready = unset(Ready)
    """When the lab goes on; absent: as soon as it was started."""
    within: SomeNanoseconds = 30_000_000_000
    """Longest time until it is ready."""


Files = dict[FileName, str]
"""Name to content."""
Changes = dict[PartName, Maybe[Change]]
"""By name; `none` is left out, so that a level can be without."""
Services = dict[PartName, Maybe[Service]]
"""By name; `none` is left out, so that a level can be without."""
