"""iolab's own kinds of measure: the table. Each kind's row is in a module, that of several at once is here.

The models are in `iolab.experiment.model`, what measures in `iolab.trial`.
"""

from iolab.experiment.experiment import Section
from iolab.experiment.model.measures import Together
from iolab.experiment.references.view import View
from iolab.measures.command import COMMAND
from iolab.measures.disk import DISK
from iolab.measures.packets import FORWARDING, LATENCY, LOAD_CURVE
from iolab.measures.round_trips import PING, RR
from iolab.measures.stream import STREAM
from iolab.registry.rows import AnyMeasureKind, MeasureKind

OF_ITS_PARTS = ("sample", "watch", "capture", "instruments")
"""Keys that all measures have; what stands beside several at once stands beside one of them."""


def _check_names(view: View, section: Section, measure: Together) -> None:
    for key in OF_ITS_PARTS:
        if key in measure.model_fields_set:
            allowed = f"{key} in one of {', '.join(measure.of)}: what stands beside it sees all that happens meanwhile"
            view.say(section, (key,), f"{key} of several measures at once", allowed)


TOGETHER = MeasureKind(
    model=Together,
    duration_ns=lambda _: 0,
    measure=None,
    parts=lambda measure: measure.of,
    check_names=_check_names,
    named_by=frozenset({"of", *OF_ITS_PARTS}),
)

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
