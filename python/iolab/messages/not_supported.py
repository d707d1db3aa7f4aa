"""What the experiment language has and this version cannot do. Types only."""

from typing import Literal

from iolab.messages.statement import Name
from iolab.messages.unmet import PartLack


class NotSupported(PartLack, kind=True):
    """A part of iolab that is not built yet: lacking everywhere."""


class PlainUnbuilt(NotSupported):
    """A part that its code says whole."""

    code: Literal[
        "function-vlan-unbuilt",  # VLANs on virtual functions
        "wire-unbuilt",  # A wire between other ports than two of namespaces or of guests with taps
        "etf-unbuilt",  # A qdisc that needs transmit times
        "loop-unbuilt",  # A link from a computer to itself
    ]


class KindUnsupported(NotSupported):
    """A kind of instrument, or of measure."""

    code: Literal["instrument-unbuilt", "measure-unbuilt"]
    kind: Name
