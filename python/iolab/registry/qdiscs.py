"""Queueing disciplines that shape a port: a row per discipline with the keys of `shape` that it supports.

A discipline with only a rate, or without parameters, needs a row in this table and its test in the agent
(crates/agent/src/facts/features.rs); `lab/links/shaping.py` has the commands of the others.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from iolab.frozen import frozen

QdiscKind = Literal["htb", "tbf", "fq", "etf", "pacer"]
LeafKind = Literal["pfifo", "sfq", "codel", "fq_codel"]
"""Queueing disciplines of a class, with a `limit` that tc counts in packets."""


@frozen(kw_only=True)
class Discipline:
    """One queueing discipline."""

    keys: tuple[str, ...] = ()
    """Supported keys of `shape`, in addition to `at`, `qdisc` and, with `takes_rate`, `rate`."""
    takes_rate: bool = True
    """Whether the discipline has a rate; a discipline without a rate orders frames and limits nothing."""
    class_keys: tuple[str, ...] = ()
    """Supported keys of classes, in addition to `rate`, `ceil`, `from` and `to`."""
    rate_option: str | None = None
    """Option of tc that sets the rate, if the rate is the only parameter."""
    module: str | None
    """Kernel module; None: iolab implements the discipline."""


QDISCS: Mapping[QdiscKind, Discipline] = MappingProxyType(
    {
        "htb": Discipline(
            module="sch_htb",
            keys=("burst", "limit", "gso_max_segs", "classes", "default"),
            class_keys=("parent", "burst", "cburst", "quantum", "leaf"),
        ),
        "tbf": Discipline(module="sch_tbf", keys=("burst", "limit", "latency", "gso_max_segs")),
        "fq": Discipline(module="sch_fq", keys=("gso_max_segs",), rate_option="maxrate"),
        "etf": Discipline(module="sch_etf"),
        "pacer": Discipline(module=None, keys=("burst", "limit", "classes", "default")),
    }
)
"""Row of each discipline, by name."""
