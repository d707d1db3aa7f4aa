"""What of a lab something is stated of: a computer, a part of the experiment file, or a place. Types only.

At a place frames are lost, or it limits a trial.
"""

from typing import Literal

from iolab.messages.statement import Name, Statement


class Computer(Statement, kind=True):
    """A computer."""


class ThisComputer(Computer):
    """The computer that iolab runs on."""


class OtherComputer(Computer):
    """Another one, by the machine's name in the lab."""

    machine: Name


class PortOn(Statement):
    """A port or an end of a link, and the computer that it is on."""

    code: Literal["port-on", "site-end"]
    port: Name
    host: Computer


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


class Place(Statement, kind=True):
    """A place of a lab."""


class AtPort(Place):
    """A port."""

    port: Name
    """As machine.port."""


class AtDevice(Place):
    """The program of a reference device at a port."""

    port: Name


class OnWire(Place):
    """The wire of a link."""

    link: Name


class AtMachine(Place):
    """A machine, or the socket of a program on it."""

    machine: Name


class AtCpu(Place):
    """A CPU of the kernel that frames are sent on."""

    cpu: int


class AtMachineCpu(Place):
    """A CPU of another machine's kernel."""

    code = "at-cpu-of-machine"
    machine: Name
    cpu: int


class PlainPlace(Place):
    """All CPUs or somewhere in the kernel of this computer, anywhere on the path, or a side of the instrument."""

    code: Literal["all-cpus", "in-kernel", "on-the-way", "generator", "receiver"]


class InMachineKernel(Place):
    """Somewhere in the kernel of another machine."""

    code = "in-kernel-of-machine"
    machine: Name


class InThread(Place):
    """A thread that works for no port in particular."""

    thread: Name


class OnPath(Place):
    """Anywhere between two machines."""

    source: Name
    target: Name


def computer(machine: str | None) -> Computer:
    """Return a computer by its machine's name in the lab, or its kernel's; none, or empty: this one."""
    return OtherComputer(machine=machine) if machine else ThisComputer()
