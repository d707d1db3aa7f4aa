"""Where frames are lost, or what limits a trial is. Types only."""

from iolab.statements.statement import Name, Statement


class Place(Statement):
    """A place of a lab."""


class AtPort(Place):
    """A port."""

    code = "at-port"
    port: Name
    """As machine.port."""


class AtDevice(Place):
    """The program of a reference device at a port."""

    code = "at-device"
    port: Name


class OnWire(Place):
    """The wire of a link."""

    code = "on-wire"
    link: Name


class AtMachine(Place):
    """A machine, or the socket of a program on it."""

    code = "at-machine"
    machine: Name


class AtCpu(Place):
    """A CPU of the kernel that frames are sent on."""

    code = "at-cpu"
    cpu: int


class AtMachineCpu(Place):
    """A CPU of another machine's kernel."""

    code = "at-cpu-of-machine"
    machine: Name
    cpu: int


class AllCpus(Place):
    """All CPUs of this computer."""

    code = "all-cpus"


class InKernel(Place):
    """Somewhere in the kernel that frames are sent on."""

    code = "in-kernel"


class InMachineKernel(Place):
    """Somewhere in the kernel of another machine."""

    code = "in-kernel-of-machine"
    machine: Name


class InThread(Place):
    """A thread that works for no port in particular."""

    code = "in-thread"
    thread: Name


class OnPath(Place):
    """Anywhere between two machines."""

    code = "on-path"
    source: Name
    target: Name


class OnTheWay(Place):
    """Anywhere between the sender and the receiver."""

    code = "on-the-way"


class AtGenerator(Place):
    """The sending side of the instrument."""

    code = "generator"


class AtReceiver(Place):
    """The receiving side of the instrument."""

    code = "receiver"
