"""Caches on the way from a disk program to its volume. Types only."""

from iolab.statements.statement import Name, Statement


class CacheLayer(Statement, kind=True):
    """One cache."""


class ProgramCache(CacheLayer):
    """Of the kernel on which the program runs."""

    machine: Name


class DoorCache(CacheLayer):
    """Of the file by which a storage daemon shows a volume to the kernel."""

    volume: Name


class StoreCache(CacheLayer):
    """Of the volume's own file."""

    volume: Name


class TargetCache(CacheLayer):
    """Of the volume's file at the target."""

    volume: Name
