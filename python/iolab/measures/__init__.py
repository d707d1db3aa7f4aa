"""The table of iolab's measure kinds. Each row is in a separate module, except that of `together`, which is in this
module.

The models are in `iolab.experiment.model`, the measuring functions in `iolab.trial`.
"""

from iolab.experiment.experiment import Section
from iolab.experiment.model.measures import Together
from iolab.experiment.references.view import View
from iolab.locale import Phrase
from iolab.measures.command import COMMAND
from iolab.measures.disk import DISK
from iolab.measures.packets import FORWARDING, LATENCY, LOAD_CURVE
from iolab.measures.round_trips import PING, RR
from iolab.measures.stream import STREAM
from iolab.registry.rows import AnyMeasureKind, MeasureKind

OF_ITS_PARTS = ("sample", "watch", "capture", "instruments")
"""Keys that all measures have, but that are set on the parts of a `together` measure, not on the measure itself."""


def _check_names(view: View, section: Section, measure: Together) -> None:
    for key in OF_ITS_PARTS:
        if key in measure.model_fields_set:
            allowed = Phrase("measures.key-on-one-of", key=key, names=[*measure.of])
            view.say(section, (key,), Phrase("measures.key-on-measures-at-once", key=key), allowed)


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
"""Row of each kind, by name; messages use the first kind as an example."""
