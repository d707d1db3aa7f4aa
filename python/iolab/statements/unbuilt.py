"""What the experiment language has and this version cannot do. Types only."""

from iolab.statements.lacks import PartLack


class Unbuilt(PartLack):
    """A part of iolab that is not built yet: lacking everywhere."""


class ExportUnbuilt(Unbuilt):
    """Exports of volumes."""

    code = "export-unbuilt"
    export: str


class DisksUnbuilt(Unbuilt):
    """Disks of other machines than guests."""

    code = "disks-unbuilt"
    kind: str


class DiskWayUnbuilt(Unbuilt):
    """Ways to disks."""

    code = "disk-way-unbuilt"
    via: str


class FunctionVlanUnbuilt(Unbuilt):
    """VLANs on virtual functions."""

    code = "function-vlan-unbuilt"


class InstrumentUnbuilt(Unbuilt):
    """A kind of instrument."""

    code = "instrument-unbuilt"
    kind: str


class MeasureUnbuilt(Unbuilt):
    """A kind of measure."""

    code = "measure-unbuilt"
    kind: str


class WireUnbuilt(Unbuilt):
    """An impairment on a link."""

    code = "wire-unbuilt"
    stage: str


class PacerUnbuilt(Unbuilt):
    """The pacer."""

    code = "pacer-unbuilt"


class EtfUnbuilt(Unbuilt):
    """A qdisc that needs transmit times."""

    code = "etf-unbuilt"


class LoopUnbuilt(Unbuilt):
    """A link from a computer to itself."""

    code = "loop-unbuilt"
