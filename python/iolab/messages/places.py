"""Subjects of statements: a host, a part of the experiment file, or a place. Types only.

A place is the location where frames are lost, or the object that limits a trial.
"""

from typing import Literal

from iolab.messages.statement import Name, Statement


class Computer(Statement, kind=True):
    """A host."""


class ThisComputer(Computer):
    """The local host."""


class OtherComputer(Computer):
    """A host other than the local host, by its machine name in the lab."""

    machine: Name


class PortOn(Statement):
    """A port or link end, with its host."""

    code: Literal["port-on", "site-end"]
    port: Name
    host: Computer


class Purpose(Statement, kind=True):
    """A part of the lab, or a setting in it."""


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
    """The key in file syntax: mtu, host.queues."""
    part: Purpose


class ValueOf(Purpose):
    """The value of a key of a part."""

    key: Name
    value: Name
    part: Purpose


class SettingOf(Purpose):
    """A kernel setting of a machine."""

    setting: Name
    machine: Name


class BridgeOf(Purpose):
    """The bridge of a machine with `forward: bridge`."""

    machine: Name


class DiskOf(Purpose):
    """A disk of a machine, by its volume."""

    volume: Name
    machine: Name


class Place(Statement, kind=True):
    """A place in a lab."""


class AtPort(Place):
    """A port."""

    port: Name
    """The port as machine.port."""


class AtDevice(Place):
    """The XDP program of a reference device on a port."""

    port: Name


class OnWire(Place):
    """The emulation that a link uses."""

    link: Name


class AtMachine(Place):
    """A machine, or the socket of a program on it."""

    machine: Name


class AtCpu(Place):
    """A CPU of the kernel that sends the frames."""

    cpu: int


class AtMachineCpu(Place):
    """A CPU of a different machine's kernel."""

    code = "at-cpu-of-machine"
    machine: Name
    cpu: int


class PlainPlace(Place):
    """A place without parameters: all CPUs, the local kernel, anywhere on the path, the generator or the receiver."""

    code: Literal["all-cpus", "in-kernel", "on-the-way", "generator", "receiver"]


class InMachineKernel(Place):
    """The kernel of a different machine."""

    code = "in-kernel-of-machine"
    machine: Name


class InThread(Place):
    """A thread that is not assigned to a port."""

    thread: Name


class OnPath(Place):
    """The path between two machines."""

    source: Name
    target: Name


def computer(machine: str | None) -> Computer:
    """Return the host of a lab machine's or kernel's name; None or an empty name: the local host."""
    return OtherComputer(machine=machine) if machine else ThisComputer()
