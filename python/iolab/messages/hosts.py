"""Which computer something is stated of. Types only."""

from typing import Literal

from iolab.messages.statement import Name, Statement


class Computer(Statement, kind=True):
    """A computer."""


class ThisComputer(Computer):
    """The computer that iolab runs on."""


class OtherComputer(Computer):
    """Another one, by the machine's name in the lab."""

    machine: Name


def computer(machine: str | None) -> Computer:
    """Return a computer by its machine's name in the lab, or its kernel's; none, or empty: this one."""
    return OtherComputer(machine=machine) if machine else ThisComputer()


class PortOn(Statement):
    """A port or an end of a link, and the computer that it is on."""

    code: Literal["port-on", "site-end"]
    port: Name
    host: Computer
