"""Caches on the way from a disk program to its volume. Types only."""

from typing import Literal

from iolab.statements.statement import Name, Statement


class CacheLayer(Statement, kind=True):
    """One cache."""


class ProgramCache(CacheLayer):
    """Of the kernel on which the program runs."""

    machine: Name


class VolumeCache(CacheLayer):
    """Of a file of a volume."""

    code: Literal[  # type: ignore[misc]  # a variable of the class elsewhere
        "door-cache",  # Of the file by which a storage daemon shows a volume to the kernel
        "store-cache",  # Of the volume's own file
        "target-cache",  # Of the volume's file at the target
    ]
    volume: Name
