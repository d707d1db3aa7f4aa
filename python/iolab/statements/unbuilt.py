"""What the experiment language has and this version cannot do. Types only."""

from iolab.statements.lacks import PartLack
from iolab.statements.statement import Name


class Unbuilt(PartLack, kind=True):
    """A part of iolab that is not built yet: lacking everywhere."""


class FunctionVlanUnbuilt(Unbuilt):
    """VLANs on virtual functions."""


class InstrumentUnbuilt(Unbuilt):
    """A kind of instrument."""

    kind: Name


class MeasureUnbuilt(Unbuilt):
    """A kind of measure."""

    kind: Name


class WireUnbuilt(Unbuilt):
    """A wire between other ports than two of namespaces or of guests with taps."""


class EtfUnbuilt(Unbuilt):
    """A qdisc that needs transmit times."""


class LoopUnbuilt(Unbuilt):
    """A link from a computer to itself."""
