"""Caches on the way from a disk program to its volume. Types only."""

from iolab.statements.statement import Name, Statement


class CacheLayer(Statement):
    """One cache."""


class ProgramCache(CacheLayer):
    """Of the kernel on which the program runs."""

    code = "program-cache"
    machine: Name


class DoorCache(CacheLayer):
    """Of the file by which a storage daemon shows a volume to the kernel."""

    code = "door-cache"
    volume: Name


class StoreCache(CacheLayer):
    """Of the volume's own file."""

    code = "store-cache"
    volume: Name


class TargetCache(CacheLayer):
    """Of the volume's file at the target."""

    code = "target-cache"
    volume: Name
