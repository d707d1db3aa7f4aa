"""iolab's own kinds of measure: the table, with a module for each kind's row.

The models are in `iolab.experiment.model`, what measures in `iolab.trial`.
"""

from iolab.measures.command import COMMAND
from iolab.measures.disk import DISK
from iolab.measures.packets import FORWARDING, LATENCY, LOAD_CURVE
from iolab.measures.round_trips import PING, RR
from iolab.measures.stream import STREAM
from iolab.measures.together import TOGETHER
from iolab.registry.rows import AnyMeasureKind

KINDS: tuple[AnyMeasureKind, ...] = (
    STREAM,
    FORWARDING,
    LOAD_CURVE,
    LATENCY,
    DISK,
    COMMAND,
    PING,
    RR,
    TOGETHER,
)
"""The table; the first is the one that messages give as an example."""
