"""What the experiment language has and this version cannot do. Types only."""

from iolab.statements.lacks import PartLack
from iolab.statements.statement import Name


class Unbuilt(PartLack):
    """A part of iolab that is not built yet: lacking everywhere."""


class FunctionVlanUnbuilt(Unbuilt):
    """VLANs on virtual functions."""

    code = "function-vlan-unbuilt"


class InstrumentUnbuilt(Unbuilt):
    """A kind of instrument."""

    code = "instrument-unbuilt"
    kind: Name


class MeasureUnbuilt(Unbuilt):
    """A kind of measure."""

    code = "measure-unbuilt"
    kind: Name


class WireUnbuilt(Unbuilt):
    """A wire between other ports than two of namespaces or of guests with taps."""

    code = "wire-unbuilt"


class EtfUnbuilt(Unbuilt):
    """A qdisc that needs transmit times."""

    code = "etf-unbuilt"


class LoopUnbuilt(Unbuilt):
    """A link from a computer to itself."""

    code = "loop-unbuilt"
