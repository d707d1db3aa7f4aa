"""What a language must say of settings that were in effect."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class InEffectWords:
    """Settings as they were read back."""

    heading: str
    setting: str
    """Head: what is set."""
    value: str
    where: str
    """Head: machines, ports, flows."""
    cells: str
    """Head: cells that had the value."""
    more: str
    """{shown} {more}: a list that is cut."""
    at: str
    """{value} {where}"""
    in_cell: str
    """{where} {cell}: places in one of the cells."""
    in_cells: str
    """{where} {count}: places in some of the cells."""
    of_measures: str
    """{measures} {where}: places of some of the measures."""
    line: str
    """{setting} {values}"""
    settings: Mapping[str, str]
    """What each setting is called."""
