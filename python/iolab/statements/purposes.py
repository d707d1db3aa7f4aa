"""What of a lab needs something: a part of the experiment file. Types only."""

from iolab.statements.statement import Name, Statement


class Purpose(Statement):
    """A part of a lab, or what is asked of it."""


class ForMachine(Purpose):
    """A machine."""

    code = "for-machine"
    machine: Name


class ForMachines(Purpose):
    """Several machines together."""

    code = "for-machines"
    machines: tuple[Name, ...]


class ForLink(Purpose):
    """A link."""

    code = "for-link"
    link: Name


class ForPort(Purpose):
    """A port."""

    code = "for-port"
    port: Name


class ForVolume(Purpose):
    """A volume."""

    code = "for-volume"
    volume: Name


class ForMeasure(Purpose):
    """A measure."""

    code = "for-measure"
    measure: Name


class KeyOf(Purpose):
    """A key of a part."""

    code = "key-of"
    key: Name
    """As the file has it: mtu, host.queues."""
    part: Purpose


class ValueOf(Purpose):
    """What a key of a part is set to."""

    code = "value-of"
    key: Name
    value: Name
    part: Purpose


class SettingOf(Purpose):
    """A setting of a machine's kernel."""

    code = "setting-of"
    setting: Name
    machine: Name


class BridgeOf(Purpose):
    """The bridge of a machine that forwards."""

    code = "bridge-of"
    machine: Name


class DiskOf(Purpose):
    """A disk of a machine, by its volume."""

    code = "disk-of"
    volume: Name
    machine: Name
