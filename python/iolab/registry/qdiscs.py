"""Queueing disciplines that shape a port: a row per discipline says which keys of `shape` it takes.

A discipline that takes a rate and nothing else, or not even a rate, is a row here and what the agent tries it with
(crates/agent/src/facts/features.rs); the commands of others are made in `lab/links/shaping.py`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from iolab.frozen import frozen

QdiscKind = Literal["htb", "tbf", "fq", "etf", "pacer"]
LeafKind = Literal["pfifo", "sfq", "codel", "fq_codel"]
"""Queues of a class, whose `limit` tc takes in packets."""


@frozen(kw_only=True)
class Discipline:
    """One queueing discipline."""

    keys: tuple[str, ...] = ()
    """Keys of `shape` that it takes beside `at` and `qdisc`, and `rate` where it takes one."""
    takes_rate: bool = True
    """Whether it has a rate; one that has none orders frames, and bounds nothing."""
    class_keys: tuple[str, ...] = ()
    """Keys of its classes beside `rate`, `ceil`, `from` and `to`."""
    rate_option: str | None = None
    """Option of tc that sets its rate, where the rate is all that is set."""
    module: str | None
    """The kernel's module; None: iolab makes it itself."""


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
"""The table."""
