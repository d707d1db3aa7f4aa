"""When a program that goes on counts as ready."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from iolab.experiment.quantities import FROZEN, Maybe, Setting

TcpPort = Annotated[int, Field(ge=1, le=65_535, strict=True)]
"""A port of TCP or UDP."""


class Ready(BaseModel):
    """When a server counts as ready: one of the three; none: as soon as it was started."""

    model_config = FROZEN
    listens: Maybe[TcpPort] = None
    """It, or a program that it started, has this port open."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """Of the port."""
    prints: Maybe[Annotated[str, Field(min_length=1, max_length=1000)]] = None
    """It wrote this text."""
    succeeds: tuple[Setting, ...] = ()
    """This command on its machine ends with status 0; it is tried again and again."""
