"""Queueing disciplines that shape a port: a row per discipline says which keys of `shape` it takes.

Every discipline takes a rate. One that takes nothing else is a row here and what the agent tries it with
(crates/agent/src/facts/features.rs); the commands of others are made in `lab/links/shaping.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

QdiscKind = Literal["htb", "tbf", "fq", "etf", "pacer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discipline:
    """One queueing discipline."""

    keys: tuple[str, ...] = ()
    """Keys of `shape` that it takes beside `at`, `qdisc` and `rate`."""
    rate_option: str | None = None
    """Option of tc that sets its rate, where the rate is all that is set."""
    module: str | None
    """The kernel's module; None: iolab makes it itself."""


QDISCS: Mapping[QdiscKind, Discipline] = MappingProxyType(
    {
        "htb": Discipline(module="sch_htb", keys=("burst", "limit", "classes", "default")),
        "tbf": Discipline(module="sch_tbf", keys=("burst", "limit", "latency")),
        "fq": Discipline(module="sch_fq", rate_option="maxrate"),
        "etf": Discipline(module="sch_etf"),
        "pacer": Discipline(module=None, keys=("burst", "limit", "classes", "default")),
    }
)
"""The table."""
