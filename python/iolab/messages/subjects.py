"""What of a lab needs something: a part of the experiment file. Types only."""

from iolab.messages.statement import Name, Statement


class Purpose(Statement, kind=True):
    """A part of a lab, or what is asked of it."""


class ForMachine(Purpose):
    """A machine."""

    machine: Name


class ForMachines(Purpose):
    """Several machines together."""

    machines: tuple[Name, ...]


class ForLink(Purpose):
    """A link."""

    link: Name


class ForPort(Purpose):
    """A port."""

    port: Name


class ForVolume(Purpose):
    """A volume."""

    volume: Name


class ForMeasure(Purpose):
    """A measure."""

    measure: Name


class KeyOf(Purpose):
    """A key of a part."""

    key: Name
    """As the file has it: mtu, host.queues."""
    part: Purpose


class ValueOf(Purpose):
    """What a key of a part is set to."""

    key: Name
    value: Name
    part: Purpose


class SettingOf(Purpose):
    """A setting of a machine's kernel."""

    setting: Name
    machine: Name


class BridgeOf(Purpose):
    """The bridge of a machine that forwards."""

    machine: Name


class DiskOf(Purpose):
    """A disk of a machine, by its volume."""

    volume: Name
    machine: Name
