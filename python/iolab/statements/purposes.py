"""What of a lab needs something: a part of the experiment file. Types only."""

from iolab.statements.statement import Statement


class Purpose(Statement):
    """A part of a lab, or what is asked of it."""


class ForMachine(Purpose):
    """A machine."""

    code = "for-machine"
    machine: str


class ForLink(Purpose):
    """A link."""

    code = "for-link"
    link: str


class ForPort(Purpose):
    """A port."""

    code = "for-port"
    port: str


class ForVolume(Purpose):
    """A volume."""

    code = "for-volume"
    volume: str


class ForMeasure(Purpose):
    """A measure."""

    code = "for-measure"
    measure: str


class KeyOf(Purpose):
    """A key of a part."""

    code = "key-of"
    key: str
    """As the file has it: mtu, host.queues."""
    part: Purpose


class ValueOf(Purpose):
    """What a key of a part is set to."""

    code = "value-of"
    key: str
    value: str
    part: Purpose


class SettingOf(Purpose):
    """A setting of a machine's kernel."""

    code = "setting-of"
    setting: str
    machine: str


class BridgeOf(Purpose):
    """The bridge of a machine that forwards."""

    code = "bridge-of"
    machine: str


class DiskOf(Purpose):
    """A disk of a machine, by its volume."""

    code = "disk-of"
    volume: str
    machine: str
