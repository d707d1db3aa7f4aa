"""Where frames are lost, or what limits a trial is. Types only."""

from typing import Literal

from iolab.messages.statement import Name, Statement


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
